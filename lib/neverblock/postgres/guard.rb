# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Looks at what the server says beside the answers of shared statements - the command's tag, and the settings that it reports -
    # before any of them is told: a statement that has left something in its connection shows in it.
    #
    #   guard = Guard.new { |connection, statements, what| … }   # called where something was left, and nothing is to be told
    #   guard.cleared(connection, statements)                    # => those that may be told their answers
    # @api private
    class Guard
      # Tags of a read; and of what a session or a transaction keeps something by.
      READING = %w[SELECT SHOW EXPLAIN].freeze
      KEEPING = %w[SET RESET BEGIN START SAVEPOINT PREPARE DEALLOCATE DECLARE LISTEN UNLISTEN DISCARD LOAD CALL DO].freeze
      private_constant :READING, :KEEPING

      # @param asks [Boolean] whether a connection can be asked where a setting comes from: a pooler would ask another session
      # @yieldparam connection [PipelinedConnection]
      # @yieldparam statements [Array<Statement>] that have run since it was as it should be
      # @yieldparam what [String] that was left, in words
      def initialize(asks: true, &leaked)
        @asks = asks
        @leaked = leaked
      end

      # @param connection [PipelinedConnection]
      # @param statements [Array<Statement>] whose answers have come
      # @return [Array<Statement>] those that may be told their answers
      def cleared(connection, statements)
        return told(connection, connection.inquiry, statements) if connection.inquiry
        statements.each do |statement|
          tag = statement.tag
          next if tag.nil? || expected?(statement.kind, tag)
          return leaked(connection, statements, "#{statement.sql.inspect} answered #{tag}")
        end
        what = (connection.reported.leak unless connection.suspect) or return statements # it is reset before others have it
        inquire(connection, statements, what)
      end

      # @param statement [Statement]
      # @return [Boolean] whether the server says that it was one that reads
      def read?(statement) = statement.result&.cmd_status&.start_with?(*READING)

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

      # A connection of before the reload serves nothing more when those that are on it have been served.
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

      def expected?(kind, tag)
        case kind
        when :read then tag.start_with?(*READING)
        when :write then !tag.start_with?(*KEEPING)
        else true # SET LOCAL outside of a transaction, which does nothing
        end
      end
    end
  end
end
