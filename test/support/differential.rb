# frozen_string_literal: true

require "neverblock/active_record"
require_relative "library_models"
module NeverBlockTest
  # Runs the same operations with an adapter of Active Record, on a new database, and records each outcome. Two adapters
  # that should behave alike are compared:
  #
  #   plain = Differential.new("postgresql", server).call
  #   ours = in_loop { Differential.new("neverblock_postgresql", server).call }
  #   Differential.differences(plain, ours)     # => ["transactions, commit: result: …", …]
  class Differential
    DATABASE = "nb_differential"

    # Rails 7.2: its adapter prepares and executes in two steps.
    EARLY = ActiveRecord.gem_version < Gem::Version.new("8.0")

    require_relative "differential/shape"
    require_relative "differential/statement_log"
    require_relative "differential/desk"
    require_relative "differential/operations"

    # The outcome of an operation: its value or error as plain data, the events of `sql.active_record`, warnings and log
    # lines.
    Outcome = Struct.new(:area, :name, :value, :error, :log, :warnings, :state, :excused)

    COMPARED = %i[value error log warnings state].freeze

    class << self
      # @param plain [Array<Outcome>]
      # @param ours [Array<Outcome>]
      # @return [Array<String>] where they differ, in words
      def differences(plain, ours)
        plain.zip(ours).flat_map do |expected, actual|
          (COMPARED - expected.excused.keys).filter_map do |part|
            was, is = expected[part], actual[part]
            "#{expected.area}, #{expected.name}: #{part}#{difference(was, is)}" if was != is
          end
        end
      end

      # @return [Array<String>] excuses of operations that don't differ
      def idle_excuses(plain, ours)
        plain.zip(ours).flat_map { |expected, actual| expected.excused.keys.filter_map { |part| "#{expected.area}, #{expected.name}: #{part}" if expected[part] == actual[part] } }
      end

      private

      # The first difference between two outcomes.
      def difference(was, is, path = "")
        case [was, is]
        in [Array, Array] if was.size == is.size
          index = was.each_index.find { |at| was[at] != is[at] }
          difference(was[index], is[index], "#{path}[#{index}]")
        in [Hash, Hash] if was.keys == is.keys
          key = was.keys.find { |name| was[name] != is[name] }
          difference(was[key], is[key], "#{path}[#{key.inspect}]")
        else
          "#{path}\n  stock: #{was.inspect[0, 1500]}\n  ours:  #{is.inspect[0, 1500]}"
        end
      end
    end

    # @param adapter [String]
    # @param server [PostgresServer]
    # @param options [Hash{Symbol=>Object}] further configuration
    def initialize(adapter, server, **options)
      @server = server
      @configuration = {
        adapter:, database: DATABASE, host: server.folder, port: server.port, username: server.user, application_name: DATABASE, pool: Desk::ADAPTERS, **options
      }
    end

    # @return [Array<Outcome>]
    def call
      @server.query("DROP DATABASE IF EXISTS #{DATABASE} WITH (FORCE)")
      @server.query("CREATE DATABASE #{DATABASE}")
      surroundings { perform_all }
    end

    private

    # Sets up the executor that load_async has with Rails' adapter, and collects the server's warnings.
    def surroundings
      executor, ActiveRecord.async_query_executor = ActiveRecord.async_query_executor, :multi_thread_pool
      action, ActiveRecord.db_warnings_action = ActiveRecord.db_warnings_action, ->(warning) { @warnings << [warning.level, warning.message] }
      @warnings = []
      ActiveRecord::Base.establish_connection(**@configuration, max_threads: 2)
      ActiveRecord::Base.asynchronous_queries_tracker.start_session
      @desk = Desk.new(@server)
      @desk.prepare
      yield
    ensure
      ActiveRecord::Base.asynchronous_queries_tracker.finalize_session
      @desk&.close
      end_threads
      ActiveRecord::Base.remove_connection
      ActiveRecord.async_query_executor, ActiveRecord.db_warnings_action = executor, action || :ignore
    end

    def end_threads
      threads = ActiveRecord::Base.connection_pool.async_executor or return
      threads.shutdown
      threads.wait_for_termination(5)
    end

    def perform_all
      StatementLog.open do |log|
        Operations.all.map { |operation| perform(operation, log) }
      end
    end

    def perform(operation, log)
      @warnings.clear
      log.clear
      value = error = nil
      state = nil
      said = Desk.capture do
        begin
          ActiveRecord::Base.with_connection { |connection| value = Shape.of(@desk.instance_exec(connection, &operation.block)) }
        rescue => raised
          error = Shape.of(raised)
        end
        log.close
        state = state()
        @desk.tidy
      end
      Outcome.new(area: operation.area, name: operation.name, value:, error:, log: log.lines, warnings: Shape.of([@warnings, said]), state:, excused: operation.excused)
    end

    # The state that an operation leaves in its adapter.
    def state
      ActiveRecord::Base.with_connection { |connection| [connection.open_transactions, connection.instance_variable_get(:@raw_connection)&.transaction_status, connection.active?] }
    end
  end
end
