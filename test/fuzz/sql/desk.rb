# frozen_string_literal: true

module NeverBlockFuzz
  # Where the words of one fiber run.
  #
  #   desk = Desk.new(3, link)
  #   desk.perform(node)      # => [:ok, …] or [:failed, …]
  class Desk
    # @return [Integer] the fiber's number
    attr_reader :fiber

    # @param fiber [Integer]
    # @param link [Links::Records, Links::Plain]
    def initialize(fiber, link)
      @fiber = fiber
      @link = link
    end

    # Other errors than the database's end the program.
    # @param node [Plan::Node]
    # @return [Array]
    def perform(node)
      @node = node
      @names = 0
      [:ok, plain(instance_exec(&SqlVocabulary::WORDS.fetch(node.op).block))]
    rescue PG::Error, ActiveRecord::ActiveRecordError => error
      [:failed, shown(error)]
    end

    private

    def nonce = "f#{@fiber}-#{@node.id}-#{@names += 1}"

    def choose(list) = list[@node.args[:choice] % list.size]

    def pause = sleep(@node.args[:pause]) && true # real: other fibers' statements come between

    def rows(sql, *binds) = @link.rows(sql, binds)

    def run(sql) = @link.run(sql) && true

    def transaction(&) = @link.transaction(&)

    def session(&) = @link.session(&)

    def model = @link.model(@fiber)

    # A transaction that is rolled back.
    def undone
      value = nil
      transaction do
        value = yield
        @link.roll_back
      end
      value
    end

    def failure
      yield
      :none
    rescue PG::Error, ActiveRecord::ActiveRecordError => error
      shown(error)
    end

    def count = rows("select count(*), sum(v) from own#{@fiber}")

    # What a fiber sees of its session: its own traces at most.
    def look
      seen = session do |raw|
        raw.exec(<<~SQL).values
          select current_user, current_setting('timezone'), current_setting('search_path'), current_setting('statement_timeout'),
            current_setting('transaction_isolation'), coalesce(current_setting('app.t', true), ''), coalesce(current_setting('app.leak', true), ''),
            (select count(*) from pg_cursors), (select count(*) from pg_listening_channels()), (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
            (select count(*) from pg_class where relpersistence = 't' and pg_table_is_visible(oid) and relkind = 'r')
        SQL
      end
      seen.first.map { |value| (value == "f#{@fiber}") ? "" : value }
    end

    def plain(value)
      case value
      when Array then value.map { |one| plain(one) }
      when Hash then value.to_a.map { |one| plain(one) }
      when String, Integer, nil, true, false then value
      else value.to_s
      end
    end

    # Without the names of prepared statements and the position.
    def shown(error)
      cause = error.cause.is_a?(PG::Error) ? error.cause : error
      [error.class.ancestors.find { |one| !one.name.to_s.start_with?("NeverBlock") }.name, cause.message.lines.first.to_s.strip]
    end
  end
end
