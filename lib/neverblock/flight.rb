# frozen_string_literal: true

module NeverBlock
  # One computation per key for all who ask at the same time. The first caller
  # computes, the others wait and get its value; afterwards nothing is kept.
  #
  #   RATES = NeverBlock::Flight.new
  #
  #   NeverBlock.run do
  #     100.times { NeverBlock.spawn { RATES.call("EUR") { fetch_rates("EUR") } } }
  #   end                              # one fetch, 100 answers
  #
  # It works between the fibers of a loop, between threads, and outside of loops.
  # The block runs in the fiber of the caller that leads, and what happens to that
  # caller spoils nobody:
  #
  # * A leader that is cancelled, killed, timed out by Timeout without a class, or
  #   that leaves its block by throw or break, has not answered: one of those who
  #   wait takes over and computes with its own block.
  # * A leader whose block raises keeps its error. Those who wait try once more,
  #   again together: one of them leads. Only an error from this second leader is
  #   raised to all who waited for it, so that a back end that is down costs every
  #   caller two computations at most, and not one after another for each caller.
  #   Errors named in `share:` are answers, and believed at once.
  class Flight
    # Raised to a caller that would wait for itself.
    class CircularError < ThreadError
      include Error
    end

    # @param share [Module, Array<Module>] errors that are as good as an answer,
    #   such as "no such host": raised to all who wait without a second computation
    def initialize(share: [])
      @share = Array(share).each do |error|
        next if error.is_a?(Module)
        raise ArgumentError, "share: takes classes or modules of errors, not #{error.inspect}"
      end
      @lock = Thread::Mutex.new
      @attempts = {}
      @followed = {}.compare_by_identity # fiber => the attempt it waits for
    end

    # @param key [Object] what is computed; compared as Hash keys are
    # @yield computes the value, unless somebody is computing it already
    # @return [Object] the block's value, the same object for all
    # @raise [CircularError] if the caller would wait for itself: it asks for a key
    #   inside the block that computes this key, or one whose computation waits for its own
    # @raise [StandardError] the block's error: see above who gets which
    def call(key, &compute)
      raise ArgumentError, "a block is needed that computes #{key.inspect}" unless compute
      attempt = nil
      trusting = false
      until (attempt = board(key, attempt, &compute)).answered?
        next unless attempt.error
        raise attempt.error if trusting || @share.any? { |error| error === attempt.error }
        trusting = true
      end
      attempt.value
    end

    # @return [Integer] how many computations are on
    def size = @lock.synchronize { @attempts.size }

    private

    # Computes, or waits for whoever does. The entry is removed by key, not by what
    # a variable holds: an interrupt may come before the variable is assigned.
    # @param failed [Attempt, nil] the one that this caller has waited for in vain
    def board(key, failed, &compute)
      mine = Attempt.new
      attempt = register(key, mine, failed)
      attempt.equal?(mine) ? mine.run(&compute) : attempt.wait
      attempt
    ensure
      leave(key, mine)
    end

    # All who waited for a failed attempt find the same successor, though it may be
    # over before the last of them is awake.
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
          raise CircularError, "#{key.inspect} is asked for inside a computation that it waits for itself, " \
            "and would never come: pass the value down instead of asking for it again"
        end
        attempt = @followed[attempt.leader]
      end
    end

    # What one leader does. Without a value and an error, it ended unanswered.
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

      # Whoever led in the parent of a fork will never answer in the child.
      def in_this_process? = @process == Process.pid

      def run
        @value = yield
        @answered = true
      rescue => error
        @error = error
        raise
      end

      # Nothing is ever pushed through the gate: its closing wakes all who wait, and one
      # that is cancelled meanwhile leaves nothing behind. It is made when somebody
      # follows, and opened and closed with the lock held.
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
