# frozen_string_literal: true

require_relative "table"

module NeverBlock
  class Flight
    # Computations that their first callers, the leaders, perform.
    # @api private
    class Led < Table
      # @param share [Array<Module>] errors that count as a result
      def initialize(share)
        super()
        @share = share
      end

      # @see Flight#call
      def call(key, &compute)
        attempt = nil
        trusting = false
        until (attempt = board(key, attempt, &compute)).answered?
          next unless attempt.error
          raise attempt.error if trusting || @share.any? { |error| error === attempt.error }
          trusting = true
        end
        attempt.value
      end

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
        locked do
          attempt = failed&.successor || running(key)
          attempt ||= @running[key] = mine
          failed.successor = attempt if failed
          follow(key, attempt) unless attempt.equal?(mine) || attempt.over?
          attempt
        end
      end

      def running(key) = @running[key]&.then { |attempt| attempt unless attempt.over? }

      def follow(key, attempt)
        strand = Table.strand
        refusal = circle(attempt, strand)
        refuse(refusal, key) if refusal
        attempt.open_gate
        @waits[strand] = attempt
      end

      # A cancellation by force comes in spite of the lock's shield. The followers are woken nevertheless.
      def leave(key, mine)
        locked do
          @waits.delete(Table.strand)
          @running.delete(key) if @running[key].equal?(mine)
          mine&.close_gate
        end
      ensure
        mine&.close_gate
      end

      # The work of one leader. It ends without a result if it has neither a value nor an error.
      class Attempt
        attr_reader :runner, :loop_thread, :value, :error
        attr_accessor :successor

        def initialize
          @runner = Table.strand
          @loop_thread = Thread.current if Task === @runner
          @answered = @over = false
        end

        def answered? = @answered

        def over? = @over

        def run
          @value = yield
          @answered = true
        rescue => error
          @error = error
          raise
        end

        # Nothing is pushed through the gate. Closing it wakes all followers, and a cancelled follower needs no
        # clean-up. The first follower creates the gate. It is opened under the lock.
        def open_gate = @gate ||= Thread::Queue.new

        def close_gate
          @over = true
          @gate&.close
        end

        def wait = @gate&.pop
      end
      private_constant :Attempt
    end
    private_constant :Led
  end
end
