# frozen_string_literal: true

require "concurrent/map" # of Active Support
require_relative "../../active_record/reads_schema_aside"

module NeverBlock
  module Patches
    module Rails
      # Queues the transactions of this process in order. SQLite has one writer at a time. While a transaction waits for
      # something else, each further one retries every millisecond, and the first to retry after the end is next. So
      # some wait for seconds and fail with "database is locked". Inside a loop the transactions wait in a queue, and
      # only its first one asks SQLite. A transaction that has had no statement yet does not wait to read a model's
      # schema, which Active Record does with a lock that the one in front may need.
      module SqliteTurn
        # The queues, by the database's file.
        LINES = Concurrent::Map.new

        # Prepended to ActiveRecord::ConnectionAdapters::SQLite3Adapter.
        module Connection
          include ReadsSchemaAside

          # @raise [ActiveRecord::StatementTimeout] after the `timeout:` of config/database.yml
          def begin_db_transaction
            seconds = @config[:timeout].to_f / 1000
            return super unless Scheduler.current && seconds.positive? && !@memory_database
            line = LINES.compute_if_absent(@config[:database]) { Semaphore.new(1) }
            line.try_acquire || wait_in(line, seconds)
            begin
              super
            ensure
              line.release
            end
          end

          private

          def waits_to_begin? = Scheduler.current && transaction_open? && !@raw_connection&.transaction_active?

          def without_waiting = yield

          def wait_in(line, seconds)
            line.acquire(timeout: seconds)
          rescue TimeoutError
            raise translate_exception_class(::SQLite3::BusyException.new("database is locked"),
              "BEGIN IMMEDIATE TRANSACTION", [])
          end
        end

        def self.needed? = defined?(ActiveRecord) && Gem.loaded_specs.key?("sqlite3")

        def self.apply
          ActiveSupport.on_load(:active_record_sqlite3adapter) { prepend(Connection) }
        end
      end
    end
  end
end
