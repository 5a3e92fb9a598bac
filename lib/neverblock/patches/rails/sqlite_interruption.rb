# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # A wait for SQLite's lock happens inside SQLite, in a block that the driver calls from there. What is raised in it before
      # sqlite3 2.10.2 leaps over SQLite, which keeps the connection's mutex: the next thread that touches the connection stands
      # still for ever, and the whole process with it. With such a driver a timeout or a cancellation waits until the statement
      # has ended, at most the `timeout:` of config/database.yml.
      module SqliteInterruption
        # Prepended to ActiveRecord::ConnectionAdapters::SQLite3Adapter.
        module Connection
          private

          def with_raw_connection(...) = Thread.handle_interrupt(Object => :never) { super }
        end

        # Where the driver keeps what a block has raised until SQLite has returned.
        FRAMES = :__sqlite3_callback_frames__

        # Tried in a fiber of its own, in which no statement has run before.
        # @return [Boolean] whether an exception would leap over SQLite
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
