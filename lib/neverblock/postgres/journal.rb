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
      # Texts of leases that are remembered, so that each is told once.
      MAX_REMEMBERED = 1_000
      # Characters of a statement that are told.
      MAX_SQL_SHOWN = 200
      private_constant :MAX_REMEMBERED, :MAX_SQL_SHOWN

      # @param log [#call] gets lines
      # @param tally [Tally]
      def initialize(log, tally = Tally.new)
        @log = log
        @tally = tally
        @noted = Set.new
      end

      # A log that fails is no reason to keep a connection, nor to fail in the fiber that happens to read.
      # @param line [String]
      # @return [void]
      def say(line)
        line = line.scrub("?").gsub(/\s*\n\s*/, " ") # texts may be of any bytes, and of several lines
        @log.call(line)
      rescue => error
        warn("NeverBlock: #{line} (the log that it was for failed: #{error.message})")
      end

      # @param what [String] that was kept
      # @param sql [String, nil] by which statement
      # @return [void]
      def leak(what, sql = nil)
        @tally.leaks += 1
        say("a connection that is shared kept something, and is closed: #{what}#{". It was left by: #{short(sql)}" if sql}")
      end

      # @param what [String] that was left
      # @param statements [Array<Statement>] by one of them
      # @return [void]
      def changed(what, statements)
        @tally.leaks += 1
        say("a statement that shared a connection has changed its state: #{what}. The connection is closed. It was one of: " \
          "#{statements.map { |statement| short(statement.sql).inspect }.join(", ")}")
      end

      # Tells once per text that something was kept until check-in.
      # @param state [String] what
      # @return [void]
      def held_until_check_in(state)
        return if @noted.size >= MAX_REMEMBERED || !@noted.add?(state)
        say("a connection was held until check-in, and is cleaned, because of: #{short(state)}")
      end

      private

      def short(text) = text.to_s[0, MAX_SQL_SHOWN]
    end
  end
end
