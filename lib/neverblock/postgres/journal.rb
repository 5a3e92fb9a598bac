# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The log lines of a {Multiplexer}.
    #
    #   journal = Journal.new(logger.method(:warn))
    #   journal.say("all connections are replaced")
    #   journal.leak("setting work_mem: nil, then \"64MB\"", "select tune()")
    #
    # @api private
    class Journal
      # Statements that were logged by {#held_until_check_in} and are remembered.
      MAX_REMEMBERED = 1_000
      private_constant :MAX_REMEMBERED

      # @param log [#call] gets lines
      # @param tally [Tally]
      def initialize(log, tally = Tally.new)
        @log = log
        @tally = tally
        @noted = Set.new
      end

      # An error of the log must neither keep a connection from its end nor be raised in the fiber that happens to read.
      # @param line [String]
      # @return [void]
      def say(line)
        line = line.scrub("?").gsub(/\s*\n\s*/, " ") # texts may be of any bytes, and of several lines
        @log.call(line)
      rescue => error
        warn("NeverBlock: #{line} (the log that it was for failed: #{error.message})")
      end

      # An audit has found session state.
      # @param what [String] the session state
      # @param sql [String, nil] the statement that has left it, if it is known
      # @return [void]
      def leak(what, sql = nil)
        @tally.leaks += 1
        say("session state was left on a shared connection, which is closed: " \
          "#{what}#{". It was left by: #{Excerpt.of(sql)}" if sql}")
      end

      # {Guard} has found session state.
      # @param what [String] the session state
      # @param statements [Array<Statement>] one of them has left it
      # @return [void]
      def changed(what, statements)
        @tally.leaks += 1
        say("a shared statement has changed its session: #{what}. The connection is closed. It was one of: " \
          "#{statements.map { |statement| Excerpt.of(statement.sql).inspect }.join(", ")}")
      end

      # A lease has lasted until check-in. Each statement is logged once.
      # @param state [String] the statement
      # @return [void]
      def held_until_check_in(state)
        return if @noted.size >= MAX_REMEMBERED || !@noted.add?(state)
        say("a connection was held until check-in, and is reset, because of: #{Excerpt.of(state)}")
      end
    end
  end
end
