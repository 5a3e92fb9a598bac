# frozen_string_literal: true

module NeverBlock
  module Shards
    # One call of {Shards}: asks each shard in a task of its own, under one deadline, and keeps its outcome.
    #
    #   FanOut.new("map", List.new("map", [eu, us]), only: nil, limit: 50, timeout: 2) { |database| ask(database) }
    #     .all(partial: false)
    # @api private
    class FanOut
      # Seconds, at most, to end what was given up: for a block that is rolling back when the deadline has passed, and
      # for a loop of the call's own, while statements are cancelled. A silent server answers neither.
      GRACE = 2

      Outcome = Struct.new(:shard, :value, :error)
      private_constant :GRACE, :Outcome

      # @param method [String] the called method, for messages
      # @param source [List, Records]
      # @param only [Object, Array, nil]
      # @param limit [Integer]
      # @param timeout [Numeric, nil] seconds
      # @raise [ConfigurationError, ArgumentError]
      def initialize(method, source, only:, limit:, timeout:, &block)
        raise ArgumentError, "Shards.#{method} needs a block" unless block
        @method = method
        @source = source
        @limit = Options.positive("limit", limit)
        @timeout = Options.seconds("timeout", timeout)
        @block = block
        @shards = only.nil? ? source.names : chosen(only)
        @shards.each { |shard| source.check(shard) }
      end

      # @param partial [Boolean]
      # @return [Results]
      # @raise [Incomplete]
      def all(partial:)
        start
        outcomes = in_loop { NeverBlock.concurrently(@shards, limit: @limit) { |shard| ask(shard) } }
        results = Results.new
        outcomes.each do |outcome|
          outcome.error ? results.errors[outcome.shard] = outcome.error : results[outcome.shard] = outcome.value
        end
        report(results.errors) unless partial
        results
      end

      # @param partial [Boolean]
      # @return [Object, nil]
      # @raise [Incomplete]
      def first(partial:)
        start
        asking = @shards.lazy.map { |shard| -> { ask(shard) } }
        value, errors = nil, {}
        in_loop do
          NeverBlock.as_completed(asking, limit: @limit) do |outcome, _|
            errors[outcome.shard] = outcome.error if outcome.error
            break unless (value = outcome.value).nil?
          end
        end
        report(errors) if value.nil? && !partial
        value
      end

      private

      def start
        return unless @timeout
        @deadline = Clock.now + @timeout
        @last = @deadline + GRACE
      end

      # Outside of a loop it starts one, whose other tasks cancel statements, or connect to a server that may be silent.
      def in_loop
        return yield if Scheduler.current && Task.current
        NeverBlock.run(exit: :cancel) do
          value = yield
          NeverBlock.move_on_after(GRACE) { (NeverBlock.tasks - [Task.current]).each(&:join) }
          value
        end
      end

      def ask(shard)
        Outcome.new(shard, NeverBlock.timeout_at(@last) { NeverBlock.timeout_at(@deadline) { call(shard) } })
      rescue => error
        Outcome.new(shard, nil, error)
      end

      def call(shard) = @source.call(shard, &@block)

      def report(errors)
        return if errors.empty?
        raise Incomplete.new(@method, errors, @shards.size) { |shard| @source.label(shard) }, cause: errors.first.last
      end

      def chosen(only)
        ((Array === only) ? only : [only]).map { |given| @source.name(given) }.each do |name|
          next if @source.names.include?(name)
          raise ConfigurationError, "only: #{@source.label(name)} is not a shard of #{@source}. " \
            "Known shards: #{@source.names.map { |known| @source.label(known) }.join(", ")}"
        end
      end
    end
  end
end
