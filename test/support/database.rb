# frozen_string_literal: true

require_relative "postgres"
require_relative "loops"

module NeverBlockTest
  # For tests of NeverBlock::Postgres: one PostgreSQL server per process, and a client for each test.
  #
  #   class SomethingTest < Minitest::Test
  #     include NeverBlockTest::Database
  #     def test_it = with_database(connections: 2) { |database| in_loop { database.exec("select 1") } }
  #   end
  module Database
    include Loops

    # @return [PostgresServer] shared by all tests of the process
    def self.server
      @server ||= PostgresServer.start(max_connections: 60).tap { |server| Minitest.after_run { server.stop } }
    end

    # @return [PostgresServer] a standby of it, shared by all tests, which must leave it a standby
    def self.standby
      @standby ||= PostgresServer.replica(server).tap { |server| Minitest.after_run { server.stop } }
    end

    def setup
      reason = PostgresServer.missing || ("pg is not among the gems here" unless Gem.loaded_specs.key?("pg"))
      skip reason if reason
      require "neverblock/postgres"
      Database.server # starts the server before fibers could start one each
      @logged = []
    end

    # @return [Array<String>] lines that clients have logged
    attr_reader :logged

    # @yieldparam database [NeverBlock::Postgres] that is closed afterwards
    # @return [Object] the block's value
    def with_database(connections: 4, target: url, **options)
      database = NeverBlock::Postgres.new(target, connections:, log: @logged.method(:<<), **options)
      yield database
    ensure
      database&.close
    end

    # @return [String]
    def url = "#{Database.server.url}&application_name=nb_#{name[0, 50]}"

    # Runs SQL with psql, outside of all clients.
    # @return [String]
    def ask(sql) = Database.server.query(sql)

    # @return [Integer] the number of the test's connections on the server
    def backends = ask("select count(*) from pg_stat_activity where application_name = 'nb_#{name[0, 50]}'").to_i

    # @param pattern [String] of SQL's LIKE
    # @return [Integer] the test's statements like this that the server works on
    def active(pattern = "%")
      ask("select count(*) from pg_stat_activity where state = 'active' and query like '#{pattern}' and application_name = 'nb_#{name[0, 50]}'").to_i
    end

    # The server ends the test's connections.
    def terminate = ask("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'nb_#{name[0, 50]}'")

    # Runs SQL on a connection that is closed at once: connections left to the garbage collector would soon exceed the
    # server's limit.
    # @return [String, nil]
    def on_a_new_one(sql)
      connection = PG.connect(url)
      one(connection.exec(sql))
    ensure
      connection&.close
    end

    # Treats no statement as slow, even on a busy machine.
    def patient(database)
      multiplexer(database).timings.instance_eval do
        define_singleton_method(:learn) { |usual| @usual, @threshold = usual, 60.0 }
        learn(@usual)
      end
    end

    # Executes statements until they are known to be fast. A slower run may change that later, unless {#patient} was called.
    # @return [void]
    def learn(database, *texts)
      pass_until("#{texts} to be known as fast") { texts.each { |sql| database.exec(sql) } && texts.all? { |sql| fast?(database, sql) } }
    end

    # @return [Boolean] whether statements like this one are known to be fast
    def fast?(database, sql) = multiplexer(database).timings.fast?(fingerprint(database, sql))

    # @return [String]
    def fingerprint(database, sql) = NeverBlock::Postgres::Classifier.new.call(sql).fingerprint

    # @param database [NeverBlock::Postgres, NeverBlock::Postgres::Multiplexer]
    # @return [NeverBlock::Postgres::Multiplexer]
    def multiplexer(database) = database.respond_to?(:multiplexer) ? database.multiplexer : database

    # @return [Array<NeverBlock::Postgres::PipelinedConnection>] its real connections
    def physical(database) = multiplexer(database).pool.connections

    # @return [String, nil]
    def one(result) = result.getvalue(0, 0)
  end
end
