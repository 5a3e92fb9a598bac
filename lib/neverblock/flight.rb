# frozen_string_literal: true

module NeverBlock
  # Runs one computation per key for all concurrent callers. The first caller computes; the others wait and get its
  # value. Nothing is kept afterwards.
  #
  #   RATES = NeverBlock::Flight.new
  #
  #   NeverBlock.run do
  #     100.times { NeverBlock.spawn { RATES.call("EUR") { fetch_rates("EUR") } } }
  #   end                              # one fetch, 100 values
  #
  # It works between the fibers of a loop, between threads, and outside of loops. The block runs in the leader's fiber.
  # The fate of the leader does not spoil the followers:
  #
  # * A leader gives no result when it is cancelled, killed, unwound by Timeout without a class, or left by throw or
  #   break. One follower then takes over and computes with its own block.
  # * A leader whose block raises keeps its error. The followers try once more, together, with a second leader. Only the
  #   second leader's error is raised to all followers. So a failing service costs each caller two computations at most,
  #   not one per caller in sequence. An error listed in `share:` counts as a result at once.
  class Flight
    # Raised to a caller that would wait for itself.
    class CircularError < ThreadError
      include Error
    end

    # @param share [Module, Array<Module>] errors that count as a result, such as "unknown host". They are raised to all
    #   followers without a second computation
    def initialize(share: [])
      @share = Array(share).each do |error|
        next if error.is_a?(Module)
        raise ArgumentError, "share: must be error classes or modules, got #{error.inspect}"
      end
      @lock = Thread::Mutex.new
      @attempts = {}
      @followed = {}.compare_by_identity # fiber => the attempt that the fiber waits for
    end

    # @param key [Object] the computation's name; compared as Hash keys are
    # @yield computes the value, unless the key is being computed already
    # @return [Object] the block's value, the same object for all callers
    # @raise [CircularError] if the caller would wait for itself: the block of a key asks for that key again, or for a
    #   key whose computation waits for this one
    # @raise [StandardError] the block's error, by the rules above
    def call(key, &compute)
      raise ArgumentError, "Flight#call needs a block that computes #{key.inspect}" unless compute
      attempt = nil
      trusting = false
      until (attempt = board(key, attempt, &compute)).answered?
        next unless attempt.error
        raise attempt.error if trusting || @share.any? { |error| error === attempt.error }
        trusting = true
      end
      attempt.value
    end

    # @return [Integer] the number of running computations
    def size = @lock.synchronize { @attempts.size }

    private

    # Computes, or waits for the leader. The ensure removes the entry by key, because an interrupt may come
    # before `attempt` is assigned.
    # @param failed [Attempt, nil] the failed attempt that this caller has waited for
    def board(key, failed, &compute)
      mine = Attempt.new
      attempt = register(key, mine, failed)
      attempt.equal?(mine) ? mine.run(&compute) : attempt.wait
      attempt
    ensure
      leave(key, mine)
    end

    # All followers of a failed attempt get the same successor, even if it has ended before the last follower wakes.
    def register(key, mine, failed)
      @lock.synchronize do
        attempt = failed&.successor || @attempts[key]
        attempt = @attempts[key] = mine unless attempt&.in_this_process?
        failed.successor = attempt if failed
        follow(key, attempt) unless attempt.equal?(mine) || attempt.over?
        attempt
      end
    end

    def follow(key, attempt)
      refuse_circle(key, attempt)
      attempt.open_gate
      @followed[Fiber.current] = attempt
    end

    def leave(key, mine)
      @lock.synchronize do
        @followed.delete(Fiber.current)
        @attempts.delete(key) if @attempts[key].equal?(mine)
        mine.close_gate
      end
    end

    def refuse_circle(key, attempt)
      while attempt
        if attempt.leader.equal?(Fiber.current)
          raise CircularError, "computing #{key.inspect} would wait for itself: the key is asked for inside its own " \
            "computation. Pass the value down instead of asking for it again"
        end
        attempt = @followed[attempt.leader]
      end
    end

    # The work of one leader. It ends without a result if it has neither a value nor an error.
    class Attempt
      attr_reader :leader, :value, :error
      attr_accessor :successor

      def initialize
        @leader = Fiber.current
        @process = Process.pid
        @answered = @over = false
      end

      def answered? = @answered

      def over? = @over

      # A leader in the parent process gives no result in a forked child.
      def in_this_process? = @process == Process.pid

      def run
        @value = yield
        @answered = true
      rescue => error
        @error = error
        raise
      end

      # Nothing is pushed through the gate. Closing it wakes all followers, and a cancelled follower needs no clean-up.
      # The first follower creates the gate. It is opened and closed under the lock.
      def open_gate = @gate ||= Thread::Queue.new

      def close_gate
        @over = true
        @gate&.close
      end

      def wait = @gate&.pop
    end
    private_constant :Attempt
  end
end
