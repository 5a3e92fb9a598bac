# frozen_string_literal: true

require "neverblock/mysql"
require "neverblock/active_record"
require "sequel"

module NeverBlockTest
  # Many fibers over few connections, by three clients, while statements are given up and connections are killed. Each
  # fiber has session state that no other may see, and writes rows of which none may be lost, doubled or late.
  #
  #   MySQLChaos.new(server, seconds: 2, seed: 1).call     # => [], or what went wrong, in words
  class MySQLChaos
    FIBERS = 40
    CONNECTIONS = 5
    ACCOUNTS = 8

    # What a kill, a given-up statement, a deadlock or a full pool may raise.
    EXPECTED = [Trilogy::Error, ActiveRecord::StatementInvalid, ActiveRecord::ConnectionNotEstablished, Sequel::Error, NeverBlock::TimeoutError,
      NeverBlock::MySQL::PoolTimeout].freeze

    # A client of the three, and one session of it.
    Raw = Struct.new(:database) do
      def session = database.connect { |connection| yield ->(sql) { connection.query(sql).rows } }

      def transaction = database.transaction { |connection| yield ->(sql) { connection.query(sql).rows } }
    end

    Records = Struct.new(:base) do
      def session = base.with_connection { |connection| yield ->(sql) { rows(connection.execute(sql)) } }

      def transaction = base.transaction { session { |run| yield run } }

      def rows(result) = result.respond_to?(:rows) ? result.rows : result.to_a
    end

    Datasets = Struct.new(:db) do
      def session = db.synchronize { yield method(:run) }

      # Sequel has forgotten its transaction, where a timeout came before that had begun.
      def transaction
        db.transaction { yield method(:run) }
      rescue NoMethodError => error
        raise error.backtrace.first.include?("savepoint_level") ? NeverBlock::TimeoutError : error
      end

      def run(sql) = sql.match?(/\A\s*select/i) ? db.fetch(sql).map { |row| row.values } : (db.run(sql) || [])
    end

    # @param server [MySQLServer]
    # @param seconds [Numeric]
    # @param seed [Integer]
    # @param driver [String] of Active Record and Sequel
    def initialize(server, seconds:, seed:, driver: "trilogy")
      @driver = driver
      @server = server
      @seconds = seconds
      @random = Random.new(seed)
      @findings = []
      @written = {} # nonce => :committed, :failed, or whether it was there after an unknown outcome
      @counts = Hash.new(0)
      @number = 0
    end

    # @return [Hash{Symbol=>Integer}] operations by name, and :errors, :kills
    attr_reader :counts

    # @return [Array<String>]
    def call
      connect
      tables
      @until = now + @seconds
      killer = NB.spawn { kill_some }
      FIBERS.times.map { NB.spawn { work } }.each(&:value)
      killer.value
      audit
      @findings
    ensure
      disconnect
    end

    private

    def connect
      options = @server.options
      @raw = NeverBlock::MySQL.new(options, connections: CONNECTIONS, timeout: 30)
      ActiveRecord::Base.establish_connection(adapter: "neverblock_#{@driver}", connections: CONNECTIONS, checkout_timeout: 30, **options)
      @sequel = Sequel.connect(adapter: "neverblock_#{@driver}", user: options[:username], connections: CONNECTIONS, pool_timeout: 30, **options.slice(:host, :port, :database))
      @clients = [Raw.new(@raw), Records.new(ActiveRecord::Base), Datasets.new(@sequel)]
      @modes = @clients.to_h { |client| [client, client.session { |run| run.call("select @@sql_mode").dig(0, 0) }] }
    end

    def disconnect
      @raw&.close
      pool = ActiveRecord::Base.connection_pool
      pool.reap
      # Rails waits twice as long for an adapter that it has counted and that an interrupted fiber never returned.
      pool.checkout_timeout = 0.1
      ActiveRecord::Base.remove_connection
      @sequel&.disconnect
      Sequel::DATABASES.delete(@sequel)
    end

    def tables
      @server.query("drop table if exists chaos_journal, chaos_accounts")
      @server.query("create table chaos_journal (id int primary key auto_increment, nonce varchar(40) unique)")
      @server.query("create table chaos_accounts (id int primary key, credit int)")
      @server.query("insert into chaos_accounts values #{ACCOUNTS.times.map { |id| "(#{id}, 100)" }.join(", ")}")
    end

    OPERATIONS = %i[echo variable no_variable temporary setting no_setting numbered journal journal_together transfer lock isolated].freeze

    def work
      while now < @until
        client, operation = @clients.sample(random: @random), OPERATIONS.sample(random: @random)
        @counts[operation] += 1
        begin
          if @random.rand(5) == 0
            NB.timeout(@random.rand(0.01)) { send(operation, client) }
          else
            send(operation, client)
          end
        rescue *EXPECTED => error
          @counts[:errors] += 1
          @findings << "#{operation}: #{error.class}: #{error.message}" if /\b(?:1064|1146|1054): |SynchronizationError/.match?(error.message)
        end
      end
    end

    def echo(client)
      nonce = nonce()
      client.session { |run| check(nonce, run.call("select '#{nonce}' as n, sleep(0.001) as s").dig(0, 0), client) }
    end

    def variable(client)
      nonce = nonce()
      client.session do |run|
        run.call("set @chaos = '#{nonce}'")
        NB.pass
        check(nonce, run.call("select @chaos as n").dig(0, 0), client)
      end
    end

    def no_variable(client) = client.session { |run| check(nil, run.call("select @chaos as n").dig(0, 0), client) }

    def temporary(client)
      nonce = nonce()
      client.session do |run|
        run.call("create temporary table chaos_scratch (n varchar(40))")
        run.call("insert into chaos_scratch values ('#{nonce}')")
        check([[nonce]], run.call("select n from chaos_scratch"), client)
      end
    end

    def setting(client)
      client.session do |run|
        run.call("set sql_mode = 'ANSI_QUOTES'")
        check("ANSI_QUOTES", run.call("select @@sql_mode as n").dig(0, 0), client)
      end
    end

    def no_setting(client) = client.session { |run| check(@modes[client], run.call("select @@sql_mode as n").dig(0, 0), client) }

    # Its number is asked for by itself, and others may have the connection in between.
    def numbered(client)
      nonce = nonce()
      client.session do |run|
        note(nonce) { run.call("insert into chaos_journal (nonce) values ('#{nonce}')") }
        sleep @random.rand(0.002) # real: others get statements to the server over the connection
        check(nonce, run.call("select nonce from chaos_journal where id = last_insert_id()").dig(0, 0), client)
      end
    end

    def journal(client)
      nonce = nonce()
      note(nonce) { client.session { |run| run.call("insert into chaos_journal (nonce) values ('#{nonce}')") } }
    end

    def journal_together(client)
      nonces = [nonce, nonce]
      note(*nonces) { client.transaction { |run| nonces.each { |nonce| run.call("insert into chaos_journal (nonce) values ('#{nonce}')") } } }
    end

    def transfer(client)
      from, to = ACCOUNTS.times.to_a.sample(2, random: @random)
      client.transaction do |run|
        run.call("update chaos_accounts set credit = credit - 1 where id = #{from}")
        NB.pass
        run.call("update chaos_accounts set credit = credit + 1 where id = #{to}")
      end
    end

    def lock(client)
      client.session do |run|
        next unless run.call("select get_lock('chaos', 0.01) as n").dig(0, 0) == 1
        sleep 0.0005 # real: others get statements to the server
        check(1, run.call("select is_used_lock('chaos') = connection_id() as n").dig(0, 0), client)
        run.call("select release_lock('chaos') as n")
      end
    end

    def isolated(client)
      client.session do |run|
        run.call("set transaction isolation level read committed")
        run.call("begin")
        run.call("select 1 as n")
        run.call("commit")
      end
    end

    # Remembers what became of writes, if it is known.
    def note(*nonces)
      done = nil
      yield
      done = :committed
    ensure
      done ||= present(nonces) # the server has ended the statement: what is there now stays, and nothing comes
      nonces.each { |nonce| @written[nonce] = done }
    end

    def present(nonces)
      NB.shield { one("select count(*) from chaos_journal where nonce in (#{nonces.map { |nonce| "'#{nonce}'" }.join(", ")})") }
    end

    def kill_some
      while now < @until
        sleep 0.005 + @random.rand(0.03) # real: the server works between two kills
        victim = asking.query("select id from information_schema.processlist where user = '#{MySQLServer::USER}' and id <> connection_id() order by rand() limit 1").rows.dig(0, 0) or next
        begin
          asking.query("kill #{%w[query connection].sample(random: @random)} #{victim}")
          @counts[:kills] += 1
        rescue Trilogy::ProtocolError
          nil # it has just ended
        end
      end
    ensure
      @asking&.close
    end

    # Beside the clients. It may be killed too.
    def asking
      @asking = nil unless @asking && alive?(@asking)
      @asking ||= Trilogy.new(@server.options)
    end

    def alive?(client)
      client.ping
    rescue Trilogy::Error
      false
    end

    def one(sql) = rows(sql).dig(0, 0)

    def rows(sql)
      client = Trilogy.new(@server.options)
      client.query(sql).rows
    rescue Trilogy::Error
      retry # it was killed
    ensure
      client&.close
    end

    def audit
      rows = rows("select nonce from chaos_journal").flatten.tally
      @written.each do |nonce, known|
        was = (known == :committed) ? 1 : known.clamp(0, 1)
        @findings << "the row #{nonce} is there #{rows[nonce].to_i} times, and was #{known}" if rows[nonce].to_i != was
      end
      credit = one("select sum(credit) from chaos_accounts").to_i
      @findings << "the accounts have #{credit}" if credit != ACCOUNTS * 100
      [@raw.stats, ActiveRecord::Base.with_connection { |connection| connection.select_value("select 1") && connection.multiplexed }.stats, @sequel.stats].each do |stats|
        @findings << "left: #{stats}" if stats.values_at(:waiting, :parked).sum > 0 || stats[:busy] > 0 || stats[:connections] > CONNECTIONS || stats[:unconfirmed] > 0
      end
    end

    def check(expected, found, client)
      @findings << "#{caller_locations(2, 1).first.label}, #{client.class.name[/\w+\z/]}: #{expected.inspect} was expected, and there was #{found.inspect}" if expected != found
    end

    def nonce = "n#{@number += 1}"

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
