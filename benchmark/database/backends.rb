# frozen_string_literal: true

# The connections of a database, according to pg_stat_activity.
#
#   backends = Bench::Database::Backends.new(postgres.url, "bench")
#   backends.watch { measure }      # => {**what the block returned, "backends" => 8}
#   backends.wait_until_none
require "pg"
require_relative "../bench/clock"
require_relative "../bench/failure"

module Bench
  class Database
    class Backends
      EVERY = 0.05 # seconds between two looks
      PATIENCE = 10 # seconds until those of a process that has ended are gone

      # @param url [String] of any database of the server
      # @param database [String] the database to watch
      def initialize(url, database)
        @connection = PG.connect(url)
        @count = "select count(*) from pg_stat_activity where datname = '#{database}' and backend_type = 'client backend'"
      end

      # @yieldreturn [Hash{String=>Object}] the measured figures
      # @return [Hash{String=>Object}] those figures, and the maximum of backends
      def watch
        stop = Thread::Queue.new
        watching = Thread.new { most(stop) }
        figures = yield
        stop << true
        {**figures, "backends" => watching.value}
      ensure
        stop&.push(true)
        watching&.join
      end

      # @return [Integer] as of now
      def count = Integer(@connection.exec(@count).getvalue(0, 0))

      # @return [void]
      # @raise [Failure] where some stay
      def wait_until_none
        deadline = Clock.now + PATIENCE
        until count.zero?
          raise Failure, "connections of the process before were still open after #{PATIENCE} s" if Clock.now > deadline
          sleep 0.01
        end
      end

      # @return [String] of the server
      def version = @connection.parameter_status("server_version")[/\S+/]

      # @return [void]
      def close = @connection.close

      private

      def most(stop)
        most = 0
        most = [most, count].max until stop.pop(timeout: EVERY)
        most
      end
    end
  end
end
