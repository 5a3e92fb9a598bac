# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Statements of one {Pipeline} that go to one connection together; for the {Router} it is one request. Where one of them
    # needs a connection alone, they have one to themselves.
    #
    #   batch = Batch.new(statements)
    #   multiplexer.place(batch)        # each of their fibers then waits for its own answer
    # @api private
    class Batch
      include Request

      # @return [Array<Statement>] of the same session defaults
      attr_reader :statements
      # @return [SessionDefaults]
      attr_reader :session_defaults
      # @return [Object] the scheduler of the fiber that waits for the place
      attr_reader :loop
      # @return [PipelinedConnection, nil] that was given
      attr_reader :connection

      def initialize(statements)
        @statements = statements
        @session_defaults = statements.first.session_defaults
        @loop = Scheduler.current
        @wake_ups = Thread::Queue.new
        @exclusive = statements.any?(&:exclusive?)
        @connection = nil
        @abandoned = false
      end

      # @return [Boolean] whether no statement of others may be among them
      def exclusive? = @exclusive

      # They have their place, as many as there is room for: one behind a PgBouncer that knows no pipelines. The others find one by
      # themselves.
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

      # They have none yet.
      def queued = @statements.each(&:queued)

      # They will have none.
      # @param error [Exception]
      def fail(error)
        waiting.each do |statement|
          statement.gathered = false
          statement.fail(error.dup)
        end
      end

      # @return [Float, nil] since when they wait
      def queued_at = @statements.first.queued_at

      # @return [String] for messages
      def purpose = "#{@statements.size} statements of a pipeline"

      # @return [String] of the first
      def sql = @statements.first.sql

      # @return [Fiber, nil] that waits for the first
      def owner = @statements.first.owner

      # @return [Float, nil]
      def held_since = @statements.first.held_since

      private

      def waiting = @statements.select { |statement| statement.gathered && !statement.abandoned? }
    end
  end
end
