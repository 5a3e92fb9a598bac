# frozen_string_literal: true

require "stringio"
require "tmpdir"
require_relative "tables"
require_relative "migrations"

module NeverBlockTest
  class Differential
    # The surroundings of an operation: the models of a run, other sessions to interfere with, and helpers to inspect
    # results.
    class Desk
      # Adapters connected beforehand: load_async takes as many.
      ADAPTERS = 8

      # @return [String] standard error during the block, without NeverBlock's own lines
      def self.capture
        before, $stderr = $stderr, StringIO.new
        yield
        $stderr.string.lines.grep_v(/\ANeverBlock: a (?:connection was held|statement runs alone)/).join
      ensure
        $stderr = before
      end

      # @param server [PostgresServer]
      def initialize(server)
        @server = server
      end

      # @return [PostgresServer]
      attr_reader :server

      # Creates tables with rows, models, and as many connected adapters as one operation may need.
      def prepare
        self.class.capture { ActiveRecord::Base.with_connection { |connection| Tables.create(connection) } }
        @models = Tables.models
        self.class.capture { @models.each_value(&:load_schema) }
        @others = []
        connections = Array.new(ADAPTERS) { ActiveRecord::Base.connection_pool.checkout.tap(&:schema_search_path) }
        connections.reverse_each { |connection| ActiveRecord::Base.connection_pool.checkin(connection) }
      end

      Tables::MODELS.each { |name| define_method(name) { @models.fetch(name) } }

      # Cleans up after an operation: other connections, a transaction, the adapter's check-out.
      def tidy
        @others.each(&:close)
        @others.clear
        ActiveRecord::Base.with_connection { |connection| connection.reset! if connection.transaction_open? || connection.instance_variable_get(:@raw_connection)&.transaction_status != PG::PQTRANS_IDLE }
        ActiveRecord::Base.release_connection
      end

      def close = @others&.each(&:close)

      # @return [PG::Connection] another session, without Active Record
      def other(sql = nil)
        PG.connect(@server.url(DATABASE)).tap do |connection|
          @others << connection
          connection.exec(sql) if sql
        end
      end

      # @return [ActiveRecord::Relation::QueryAttribute] a bind
      def bound(name, value, type) = ActiveRecord::Relation::QueryAttribute.new(name, value, ActiveRecord::Type.lookup(type))

      # Runs the block while another session is inside of a transaction.
      # @param sql [String] that the other session has run
      # @return [Object] the block's value
      def busy(sql)
        connection = other("BEGIN")
        connection.exec(sql)
        yield
      ensure
        connection.exec("ROLLBACK")
        connection.exec("SELECT pg_advisory_unlock_all()")
      end

      # A deadlock of two sessions; ours checks for it first.
      def deadlock(connection)
        foreign = other("SET deadlock_timeout TO '30s'")
        foreign.exec("BEGIN; UPDATE authors SET age = age WHERE id = 2")
        connection.transaction do
          connection.execute("SET LOCAL deadlock_timeout TO '10ms'")
          connection.execute("UPDATE authors SET age = age WHERE id = 1")
          foreign.send_query("UPDATE authors SET age = age WHERE id = 1")
          looking = other
          # real: the database lets the other session wait
          sleep 0.001 while looking.exec("SELECT FROM pg_locks WHERE pid = #{foreign.backend_pid} AND NOT granted").ntuples.zero?
          connection.execute("UPDATE authors SET age = age WHERE id = 2")
        end
      end

      # @return [Array<String>] what the models' callbacks recorded
      def watched
        Models.events.clear
        yield
        Models.events.dup
      end

      # @return [Exception, :none] what the block raised
      def failure
        yield
        :none
      rescue => error
        error
      end

      # @param zone [:utc, :local] of times without a zone
      # @return [Object] the block's value
      def in_zone(zone)
        before, ActiveRecord.default_timezone = ActiveRecord.default_timezone, zone
        yield
      ensure
        ActiveRecord.default_timezone = before
      end

      # Waits for a load_async to finish in the background, so that the caller doesn't run it itself.
      # @return [Object]
      def done(promise)
        wait(promise.instance_variable_get(:@future_result)) && promise
      end

      # The same for an ActiveRecord::Promise.
      def done_promise(promise) = wait(Kernel.instance_method(:instance_variable_get).bind_call(promise, :@future_result)) && promise

      def wait(future)
        sleep 0.001 while future.pending? # real: a thread of Active Record asks the database
        true
      end

      # @return [Array<String>] the rows of COPY
      def copied(connection, sql)
        lines = []
        raw = connection.raw_connection
        raw.copy_data(sql) do
          while (line = raw.get_copy_data)
            lines << line
          end
        end
        lines
      end

      # @return [Array, nil] the channel and payload of the next notification
      def heard(connection)
        found = nil
        connection.raw_connection.wait_for_notify(5) { |channel, _pid, payload| found = [channel, payload] }
        found
      end

      # @return [Array<Integer>]
      def migrate(...) = Migrations.new.run(...)

      # @return [Array<String>] of pg_dump and psql, called as `rails db:schema` tasks do
      def structure
        path, ENV["PATH"] = ENV["PATH"], "#{PostgresServer::FOLDER}:#{ENV["PATH"]}"
        Dir.mktmpdir do |folder|
          configuration = ActiveRecord::Base.connection_db_config
          ActiveRecord::Tasks::DatabaseTasks.structure_dump(configuration, file = "#{folder}/structure.sql")
          File.readlines(file, chomp: true).grep(/\A(CREATE|ALTER|SET)/)
        end
      ensure
        ENV["PATH"] = path
      end

      # Settings that a session keeps, put back afterwards.
      def resettled(connection)
        connection.execute("SET SESSION AUTHORIZATION DEFAULT")
        %w[work_mem datestyle bytea_output app.tenant search_path extra_float_digits].each { |name| connection.execute("RESET #{name}") }
        connection.execute("SET TIME ZONE 'UTC'")
        connection.execute("SET client_min_messages TO warning")
        connection.execute("SET intervalstyle TO iso_8601")
        connection.execute("SET standard_conforming_strings TO on")
      end

      # A statement that another session cancels while it runs.
      def cancelled(connection)
        pid = connection.select_value("SELECT pg_backend_pid()")
        other.send_query(<<~SQL)
          DO $$ BEGIN
            WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = #{pid} AND state = 'active' AND query LIKE '%pg_sleep(60)%') LOOP
              PERFORM pg_sleep(0.002), pg_stat_clear_snapshot();
            END LOOP;
            PERFORM pg_cancel_backend(#{pid});
          END $$
        SQL
        connection.select_value("SELECT pg_sleep(60)")
      end

      # Prepares a statement, then another program changes the table. (In a transaction the plan may be stale or not,
      # depending on the real connection: test/integration/postgres/statements_test.rb.)
      def stale
        2.times { seats.find([1, 1]) }
        ["ADD COLUMN extra int", "DROP COLUMN extra"].map do |change|
          other("ALTER TABLE seats #{change}")
          seats.reset_column_information
          seats.find([1, 1]).attributes
        end
      end

      # @return [Array<String>] an abridged list of the block's statements
      def statements
        lines = []
        subscriber = ActiveSupport::Notifications.subscribe("sql.active_record") { |event| lines << event.payload[:sql] }
        yield
        lines
      ensure
        ActiveSupport::Notifications.unsubscribe(subscriber)
      end
    end
  end
end
