# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Checks shared statements before their results are delivered: a command tag or a reported setting may show that one
    # of them has left session state.
    #
    #   guard = Guard.new { |connection, statements, what| … }   # called for a leak: no result may be delivered
    #   guard.cleared(connection, statements)                    # => the statements whose results may be delivered
    # @api private
    class Guard
      # Beginnings of the command tags of reads; and of statements that change their session or open a transaction.
      READING = %w[SELECT SHOW EXPLAIN].freeze
      KEEPING = %w[SET RESET BEGIN START SAVEPOINT PREPARE DEALLOCATE DECLARE LISTEN UNLISTEN DISCARD LOAD CALL
        DO].freeze
      # Those of statements that define nothing.
      MOVING = %w[SELECT INSERT UPDATE DELETE MERGE COMMIT].freeze
      private_constant :READING, :KEEPING, :MOVING

      # @param result [PG::Result]
      # @return [Boolean] whether its command tag is that of a read
      def self.read?(result)
        Driver.native? ? Libpq.read?(result) : result.cmd_status.start_with?(*READING)
      end

      # @param result [PG::Result]
      # @return [Boolean] whether its command tag is that of a statement which reads, writes or commits rows
      def self.data?(result)
        Driver.native? ? Libpq.data?(result) : result.cmd_status.start_with?(*MOVING)
      end

      # @param asks [Boolean] whether to ask where a changed setting comes from; behind a pooler another session might
      # @yieldparam connection [PipelinedConnection]
      # @yieldparam statements [Array<Statement>] those that have run since the session was last known to be unchanged
      # @yieldparam what [String] the leak, in words
      def initialize(asks: true, &leaked)
        @asks = asks
        @leaked = leaked
      end

      # @param connection [PipelinedConnection]
      # @param statements [Array<Statement>] those whose results have arrived
      # @return [Array<Statement>] those whose results may be delivered
      def cleared(connection, statements)
        return told(connection, connection.inquiry, statements) if connection.inquiry
        statements.each do |statement|
          next if statement.result.nil? || statement.error || expected?(statement)
          return leaked(connection, statements, "#{statement.sql.inspect} answered #{statement.tag}")
        end
        # A connection with a suspect is reset anyway.
        what = (connection.reported.leak unless connection.suspect) or return statements
        inquire(connection, statements, what)
      end

      private

      def leaked(connection, statements, what)
        @leaked.call(connection, statements, what)
        Statement::NONE
      end

      def inquire(connection, statements, what)
        names = connection.reported.leaks
        return leaked(connection, statements, what) unless @asks && Inquiry.open?(connection, names)
        connection.inquiry = Inquiry.new(names, what, statements.dup)
        connection.draining = true
        connection.push(connection.inquiry.question)
        Statement::NONE
      end

      # The inquiry may have been answered. After a reload the connection is stale: it gets no more statements.
      def told(connection, inquiry, statements)
        at = statements.index(inquiry.question)
        inquiry.hold(statements.take(at || statements.size))
        return Statement::NONE unless at
        connection.inquiry = nil
        held = inquiry.held + statements.drop(at + 1)
        return leaked(connection, held, inquiry.what) if inquiry.leak?
        connection.reported.accept
        connection.stale = true
        held
      end

      def expected?(statement)
        case statement.kind
        when :read then Guard.read?(statement.result)
        when :write then !statement.tag.start_with?(*KEEPING)
        else true # such as SET LOCAL outside of a transaction, which has no effect
        end
      end
    end
  end
end
