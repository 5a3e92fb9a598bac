# frozen_string_literal: true

require_relative "../runtime"

module NeverBlock
  # Runs callables at once, and sends their statements to PostgreSQL together: independent reads take one round trip.
  #
  #   user, orders, count = NeverBlock.pipeline(-> { User.find(7) }, -> { Order.recent.to_a }, -> { Order.count })
  #   users, count = NeverBlock.pipeline { [User.online.load_async, Order.async_count] }
  #
  # Each callable has a fiber of its own, with copies of the caller's Current attributes, database role, shard and
  # scopes. Their first statements are sent together, later ones as results arrive. Statements that can't share (a
  # transaction, `SET`) run as anywhere else. All callables run to their end; then the first error is raised.
  #
  # The form with a block runs Active Record's asynchronous queries of the block so, at its end. It returns the block's
  # value, with promises in it (alone, in an Array, or as values of a Hash) replaced by their values.
  #
  # Inside a transaction, and outside of a loop, callables run one after another in the caller's fiber.
  #
  # @param callables [Array<#call>]
  # @return [Array] their values; the block's value if there are none
  # @raise [Exception] the first error, extended with {Failure}
  def self.pipeline(*callables, &block)
    raise ArgumentError, "NeverBlock.pipeline takes callables or a block, not both" if block && !callables.empty?
    return Postgres::Pipeline.collect(&block) if block
    callables.each do |one|
      raise ArgumentError, "pipeline: #{one.inspect} can't be called" unless one.respond_to?(:call)
    end
    Postgres::Pipeline.run(callables)
  end

  class Postgres
    # Gathers the statements of some fibers, and sends them together when all of these fibers wait.
    # @api private
    class Pipeline
      include MonotonicClock

      require_relative "pipeline/library"
      require_relative "pipeline/spans"

      # Fiber-locals: the pipeline in each of its fibers; the jobs of a block.
      KEY = :neverblock_pipeline
      COLLECTED = :neverblock_pipeline_collected
      private_constant :KEY, :COLLECTED

      @libraries = [Spans]
      @serial = 0

      class << self
        # Libraries with state by fiber, or with promises: see {Library}.
        # @return [Array<Library>]
        attr_reader :libraries

        # It may be over: ActionController::Live copies fiber-locals to other threads.
        # @return [Pipeline, nil] that of the present fiber
        def current = Thread.current[KEY]&.then { |pipeline| pipeline unless pipeline.over? }

        # @return [Array<#call>, nil] jobs to run at the end of the present block
        def collected = Thread.current[COLLECTED]

        # @return [Integer] a number for the log
        def number = @serial += 1

        # @param callables [Array<#call>]
        # @return [Array] their values
        def run(callables)
          return callables.map(&:call) if Scheduler.current.nil? || callables.empty? || libraries.any?(&:held?)
          new.call(callables)
        end

        # @return [Object] the block's value, with promises replaced by their values
        def collect
          outer = collected
          Thread.current[COLLECTED] = jobs = []
          begin
            value = yield
          ensure
            Thread.current[COLLECTED] = outer
          end
          run(jobs)
          libraries.inject(value) { |settled, library| library.settle(settled) }
        end
      end

      # @return [Integer] for the log
      attr_reader :id
      # @return [Array<String>] names of its statements, for the log
      attr_reader :names
      # @return [Float] seconds that it took, once it has ended
      attr_reader :seconds
      # @return [Float] seconds that its statements waited for a connection, at most
      attr_reader :queue_time

      def initialize
        @id = Pipeline.number
        @names = []
        @seconds = @queue_time = 0.0
        @gathered = Hash.new { |waiting, place| waiting[place] = [] }
        @changed = Thread::Queue.new
        @running = 0
        @over = false
      end

      # @return [Boolean] whether it takes no more statements
      def over? = @over

      # @param callables [Array<#call>]
      # @return [Array] their values
      # @raise [Exception] the first error, extended with {Failure}
      def call(callables)
        began = now
        carriers = Pipeline.libraries.filter_map(&:carry)
        locals = carried_locals
        values = Array.new(callables.size)
        errors = {}
        NeverBlock.run do
          callables.each_with_index { |one, index| start(locals, carriers, index, errors) { values[index] = one.call } }
          serve
        end
        raise_first(errors.sort.map(&:last))
        values
      ensure
        @seconds = now - began
        Pipeline.libraries.each { |library| library.ended(self) }
      end

      # Waits until the statement has a place, or must look for one itself.
      # @param multiplexer [Multiplexer]
      # @param statement [Statement]
      def gather(multiplexer, statement)
        statement.gathered = true
        @gathered[[multiplexer, statement.session_defaults]] << statement
        @changed << true
        statement.park while statement.gathered
      ensure
        @queue_time = [@queue_time, statement.queue_time].max
      end

      # @param name [String, nil] of a statement that has run
      def note(name) = @names << (name || "SQL")

      # @return [String]
      def inspect = "#<NeverBlock::Postgres::Pipeline #{id}>"

      private

      # Starts a fiber, which has run until its first wait when this returns.
      def start(locals, carriers, index, errors, &job)
        @running += 1
        Fiber.schedule do
          locals.each { |name, value| Thread.current[name] = (Hash === value || Array === value) ? value.dup : value }
          Thread.current[KEY] = self
          carriers.inject(job) { |inner, carrier| -> { carrier.call(&inner) } }.call
        rescue => error
          errors[index] = error
        ensure
          @running -= 1
          @changed << true
        end
      end

      # Sends the gathered statements whenever all fibers wait.
      def serve
        until @running.zero? && @gathered.empty?
          next send_gathered unless @gathered.empty?
          @changed.pop
          Scheduler.current.kernel_sleep(0.0) # fibers that run now may add statements
          @changed.clear
        end
      ensure
        @over = true
        @gathered.each_value { |statements| statements.each(&:dispersed) }
      end

      def send_gathered
        placing = @gathered.flat_map do |(multiplexer, _), statements|
          statements.reject(&:abandoned?).each_slice(Multiplexer::MAX_DEPTH).map do |some|
            -> { multiplexer.place_all(Batch.new(some)) }
          end
        end
        @gathered.clear
        # Each may wait for a connection.
        placing.one? ? placing.first.call : placing.each { |place| Fiber.schedule(&place) }
      end

      # Fiber-locals of the caller, such as the Hash that RequestStore has there for each request.
      def carried_locals
        thread = Thread.current
        thread.keys.filter_map { |name| [name, thread[name]] unless name == COLLECTED }
      end

      def raise_first(errors)
        first, *others = errors
        raise Failure.attach(first, others), cause: first.cause if first
      end
    end
  end
end
