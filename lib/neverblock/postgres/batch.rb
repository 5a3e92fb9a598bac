# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Statements of one {Pipeline} that go to one connection together: one request to the {Router}. If one of them must
    # be alone, the batch has its connection exclusively.
    #
    #   batch = Batch.new(statements)
    #   multiplexer.place_all(batch)    # then each of their fibers waits for its own result
    # @api private
    class Batch
      include Request

      # @return [Array<Statement>] with the same session defaults
      attr_reader :statements
      # @return [SessionDefaults]
      attr_reader :session_defaults
      # @return [Object] the scheduler of the waiting fibers
      attr_reader :loop
      # @return [PipelinedConnection, nil] nil: it still waits
      attr_reader :connection

      def initialize(statements)
        @statements = statements
        @session_defaults = statements.first.session_defaults
        @loop = Scheduler.current
        @wake_up = WakeUp.new
        @exclusive = statements.any?(&:exclusive?)
        @connection = nil
        @abandoned = false
      end

      # @return [Boolean] whether it needs a connection with no other statement on it
      def exclusive? = @exclusive

      # Places as many statements as the connection has room for; behind a PgBouncer without pipelining that is one. The
      # others look for a place by themselves.
      # @param connection [PipelinedConnection]
      def granted(connection)
        @connection = connection
        room = connection.capacity - connection.depth
        waiting.each_with_index do |statement, index|
          next statement.dispersed if index >= room
          statement.gathered = false
          connection.push(statement)
        end
        wake
      end

      # The statements wait for a place from now on.
      def queued = @statements.each(&:queued)

      # There is no place for them.
      # @param error [Exception]
      def fail(error)
        waiting.each do |statement|
          statement.gathered = false
          statement.fail(error.dup)
        end
      end

      # @return [Float, nil] when they began to wait
      def queued_at = @statements.first.queued_at

      # @return [String] for messages
      def purpose = "#{@statements.size} statements of a pipeline"

      # @return [String] the first one's
      def sql = @statements.first.sql

      # @return [Fiber, nil] the one that waits for the first
      def owner = @statements.first.owner

      # @return [Float, nil]
      def held_since = @statements.first.held_since

      private

      def waiting = @statements.select { |statement| statement.gathered && !statement.abandoned? }
    end
  end
end
