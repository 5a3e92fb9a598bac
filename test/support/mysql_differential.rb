# frozen_string_literal: true

require "neverblock/active_record"
require "bigdecimal"
require_relative "library_models"

module NeverBlockTest
  # The same operations with one adapter of Active Record's for MySQL, on a database that is new, and what came of each. Two
  # adapters that claim to be the same are compared by it:
  #
  #   plain = MySQLDifferential.new("trilogy", server).call
  #   ours = in_loop { MySQLDifferential.new("neverblock_mysql", server).call }
  #   MySQLDifferential.differences(plain, ours)     # => ["sessions, a variable: value: …", …]
  class MySQLDifferential
    DATABASE = "nb_differential"

    # What came of an operation, as plain data: its value or error, the SQL log, and what it left in its adapter.
    Outcome = Struct.new(:name, :value, :error, :log, :state)

    require_relative "mysql_differential/operations"
    require_relative "mysql_differential/models"

    # @return [Array<String>] where they differ, in words
    def self.differences(plain, ours)
      plain.zip(ours).flat_map do |was, is|
        was.to_h.filter_map { |part, value| "#{was.name}: #{part}\n  stock: #{value.inspect[0, 900]}\n  ours:  #{is[part].inspect[0, 900]}" if value != is[part] }
      end
    end

    # @param adapter [String]
    # @param server [MySQLServer]
    # @param options [Hash{Symbol=>Object}] more of the configuration
    def initialize(adapter, server, **options)
      @server = server
      @configuration = {adapter:, **server.options(database: DATABASE), **options}
    end

    # @return [Array<Outcome>]
    def call
      @server.query("DROP DATABASE IF EXISTS #{DATABASE}; CREATE DATABASE #{DATABASE} CHARACTER SET utf8mb4")
      ActiveRecord::Base.establish_connection(**@configuration)
      @models = Models.create
      Operations.of(@configuration.fetch(:adapter)[/mysql2/] || "trilogy").map { |name, block| perform(name, block) }
    ensure
      ActiveRecord::Base.remove_connection
    end

    # @return [Object] a model
    def method_missing(name, ...) = @models.fetch(name) { super }

    def respond_to_missing?(name, all = false) = @models.key?(name) || super

    # Asks by the client program, beside all adapters.
    def beside(sql) = @server.query(sql, database: DATABASE)

    private

    def perform(name, block)
      outcome = Outcome.new(name:, log: [])
      Models.events.clear
      ActiveRecord::Base.with_connection do |connection|
        log = ActiveSupport::Notifications.subscribe("sql.active_record") { |event| outcome.log << entry(event.payload) }
        outcome.value = shape(instance_exec(connection, &block))
      rescue => error
        outcome.error = failure(error)
      ensure
        ActiveSupport::Notifications.unsubscribe(log)
        outcome.log = begun_first(outcome.log)
        outcome.state = [connection.open_transactions, shape(Models.events.dup)]
        connection.reset! if connection.transaction_open?
      end
      ActiveRecord::Base.with_connection do |connection|
        connection.execute("DO 0")
        connection.disconnect!
      end
      outcome
    end

    # Our adapter reads a model's schema before a transaction begins that has had no statement yet; stock ones begin with
    # it. In both logs BEGIN comes first.
    def begun_first(log)
      log.slice_when { |before, after| !schema?(before) && schema?(after) }.flat_map do |part|
        reads = part.take_while { |entry| schema?(entry) }
        begins = part[reads.size]
        (begins && begins["sql"].last == "BEGIN") ? [begins, *reads, *part.drop(reads.size + 1)] : part
      end
    end

    def schema?(entry) = entry["name"]&.last == "SCHEMA" && entry["sql"].last.match?(/\A\s*(?:SELECT|SHOW)/)

    def entry(payload) = shape(payload.slice(:sql, :name, :type_casted_binds, :row_count, :affected_rows, :cached, :exception).compact)

    def failure(error) = [error.class.name, plain(error.message), error.cause&.class&.name]

    # Numbers of connections, and times, are others in each run.
    def plain(text) = text.to_s.gsub(/(?:Connection|thread) id:? \d+/i, "id").gsub(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?/, "TIME").gsub(/0x\h+/, "0x")

    def shape(value)
      case value
      when nil, true, false, Numeric, Symbol then value.is_a?(BigDecimal) ? value.to_s : value
      when String then [value.encoding.name, value.valid_encoding? ? plain(value) : value.b]
      when Time, DateTime, ActiveSupport::TimeWithZone then ((value.to_f - Time.now.to_f).abs < 3600) ? "now" : value.inspect
      when Hash then value.to_h { |key, one| [key.to_s, shape(one)] }
      when Array, Set, ActiveRecord::Relation then value.to_a.map { |one| shape(one) }
      when ActiveRecord::Result then [value.columns, shape(value.rows), (value.affected_rows if value.respond_to?(:affected_rows))]
      when Trilogy::Result then [value.fields, shape(value.rows), value.affected_rows, value.last_insert_id]
      when ->(result) { defined?(Mysql2::Result) && Mysql2::Result === result } then [value.fields, shape(value.to_a)]
      when ActiveRecord::Base then [value.class.name, shape(value.attributes), value.new_record?, value.destroyed?, value.changed, value.errors.full_messages]
      when Exception then failure(value)
      else value.respond_to?(:to_h) ? [value.class.name, shape(value.to_h)] : [value.class.name, plain(value.to_s)]
      end
    end
  end
end
