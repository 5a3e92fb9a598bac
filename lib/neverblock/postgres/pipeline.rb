# frozen_string_literal: true

require_relative "../runtime"

module NeverBlock
  # Runs all, and sends what they ask of PostgreSQL in one go: several independent reads take one round trip.
  #
  #   user, orders, count = NeverBlock.pipeline(-> { User.find(7) }, -> { Order.recent.to_a }, -> { Order.count })
  #   users, orders, count = NeverBlock.pipeline { [User.online.load_async, Order.recent.load_async, Order.async_count] }
  #
  # Each callable has a fiber of its own, which begins as its caller is: with its Current attributes, database role, shard and
  # scopes. Their first statements go together; what they ask next goes as answers come, and what a connection can't be shared
  # for - a transaction, `SET` - as it would anywhere. All run to their end; then the first error is raised.
  #
  # In the block's form that is done, at the block's end, with what Active Record calls asynchronous. The value is the
  # block's: promises in it - alone, in an Array, or a Hash's values - have become what they promised.
  #
  # Inside a transaction, and outside of a loop, callables run one after another in the caller's fiber.
  #
  # @param callables [Array<#call>]
  # @return [Array] their values; the block's value if there are none
  # @raise [Exception] the first error, extended with {Failure}
  def self.pipeline(*callables, &block)
    raise ArgumentError, "NeverBlock.pipeline takes callables or a block, not both" if block && !callables.empty?
    return Postgres::Pipeline.collect(&block) if block
    callables.each { |one| raise ArgumentError, "pipeline: #{one.inspect} can't be called" unless one.respond_to?(:call) }
    Postgres::Pipeline.run(callables)
  end

  class Postgres
    # What gathers the statements of some fibers, and sends them together when all of these fibers wait.
    # @api private
    class Pipeline
      require_relative "pipeline/library"
      require_relative "pipeline/spans"

      # Where it is kept, in each of its fibers.
      KEY = :neverblock_pipeline
      COLLECTED = :neverblock_pipeline_collected
      private_constant :KEY, :COLLECTED

      @libraries = [Spans]
      @serial = 0

      class << self
        # Those whose state goes by fiber, or which have promises: see {Library}.
        # @return [Array<Library>]
        attr_reader :libraries

        # Fiber-locals get around: ActionController::Live takes them with it.
        # @return [Pipeline, nil] the one whose fiber this is
        def current = Thread.current[KEY]&.then { |pipeline| pipeline unless pipeline.over? }

        # @return [Array<#call>, nil] what is called at the end of this fiber's block
        def collected = Thread.current[COLLECTED]

        # @return [Integer] a number for the log
        def number = @serial += 1

        # @param callables [Array<#call>]
        # @return [Array] their values
        def run(callables)
          return callables.map(&:call) if Scheduler.current.nil? || callables.empty? || libraries.any?(&:held?)
          new.call(callables)
        end

        # @return [Object] the block's value, in which promises have become what they promised
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
      # @return [Float] seconds that it took, when it has ended
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

      # A statement that has no place yet; its fiber goes on when it has, or when there is none for it.
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

      # @param name [String, nil] of a statement that was run
      def note(name) = @names << (name || "SQL")

      # @return [String]
      def inspect = "#<NeverBlock::Postgres::Pipeline #{id}>"

      private

      # It has run until its first wait when this returns.
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

      # What is gathered when all wait goes out.
      def serve
        until @running.zero? && @gathered.empty?
          next send_gathered unless @gathered.empty?
          @changed.pop
          Scheduler.current.kernel_sleep(0.0) # others that go on now may have something to send too
          @changed.clear
        end
      ensure
        @over = true
        @gathered.each_value { |statements| statements.each(&:dispersed) }
      end

      def send_gathered
        placing = @gathered.flat_map do |(multiplexer, _), statements|
          statements.reject(&:abandoned?).each_slice(Multiplexer::MAX_DEPTH).map { |some| -> { multiplexer.place_all(Batch.new(some)) } }
        end
        @gathered.clear
        placing.one? ? placing.first.call : placing.each { |place| Fiber.schedule(&place) } # each may have to wait
      end

      # RequestStore and its like keep what belongs to a request in a Hash there.
      def carried_locals
        thread = Thread.current
        thread.keys.filter_map { |name| [name, thread[name]] unless name == COLLECTED }
      end

      def raise_first(errors)
        first, *others = errors
        raise Failure.attach(first, others), cause: first.cause if first
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
