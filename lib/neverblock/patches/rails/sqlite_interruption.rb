# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Defers interrupts during a statement of SQLite. A wait for SQLite's lock happens inside SQLite, in a block
      # that the driver calls. Before sqlite3 2.10.2, an exception in that block jumps over SQLite, which keeps the
      # connection's mutex. The next thread that uses the connection then blocks for ever, and the process with it.
      # With such a driver, a timeout or a cancellation waits for the end of the statement, at most for the
      # `timeout:` of config/database.yml.
      module SqliteInterruption
        # Prepended to ActiveRecord::ConnectionAdapters::SQLite3Adapter.
        module Connection
          private

          def with_raw_connection(...) = Thread.handle_interrupt(Object => :never) { super }
        end

        # The fiber variable in which a fixed driver keeps a block's exception until SQLite has returned.
        FRAMES = :__sqlite3_callback_frames__

        # Tests in a new fiber, in which no statement has run before.
        # @return [Boolean] whether an exception would jump over SQLite
        def self.leaps?
          require "sqlite3"
          Fiber.new {
            ::SQLite3::Database.new(":memory:") { |database| database.execute("select 1") }
            !Thread.current.key?(FRAMES)
          }.resume
        end

        def self.needed? = SqliteTurn.needed? && leaps?

        def self.apply
          ActiveSupport.on_load(:active_record_sqlite3adapter) { prepend(Connection) }
        end
      end
    end
  end
end
