# frozen_string_literal: true

module NeverBlock
  class Proxy
    # How many connections there may be, and the leases in line for one. It opens and closes nothing.
    #
    #   slots.acquire(lease, 5)   # => true: lease.slot is set
    #   slots.release(lease)      # the next in line has it
    #
    # An exception from outside (Thread#raise, a timeout) arrives when a Ruby method or block ends, in a loop, or in a
    # wait. A block under the lock has none of these, so it happens as a whole; the lease knows whether it has a slot.
    # @api private
    class Slots
      # A place in line. The class's name appears in {NeverBlock.tasks}.
      class Turn < Thread::Queue
        # @return [Lease]
        attr_accessor :lease
      end
      private_constant :Turn

      # @param size [Integer] slots
      # @param most [Integer] leases in line
      def initialize(size, most)
        @size = size
        @most = most
        @lock = Thread::Mutex.new
        @line = {}.compare_by_identity
        @held = 0
      end

      # @return [Integer] slots that are held
      attr_reader :held

      # @return [Integer] leases in line
      def waiting = @line.size

      # Without a wait.
      # @param lease [Lease]
      # @return [Boolean] whether it has a slot now
      def acquire_now(lease)
        @lock.synchronize do
          if @held < @size
            @held += 1
            lease.slot = true
          end
        end
        lease.slot == true
      end

      # @param lease [Lease]
      # @param seconds [Numeric, nil] nil: without end
      # @return [Boolean, :full] false: not in time
      def acquire(lease, seconds)
        turn = Turn.new
        turn.lease = lease
        full = nil
        @lock.synchronize do
          if @held < @size
            @held += 1
            lease.slot = true
          elsif @line.size < @most
            @line[turn] = true
          else
            full = :full
          end
        end
        return full || true if full || lease.slot
        begin
          turn.pop(timeout: seconds)
        ensure
          @lock.synchronize { @line.delete(turn) }
        end
        lease.slot == true
      end

      # The next in line has the slot, and the connection.
      # @param lease [Lease] without a slot nothing happens
      # @param connection [Connection, nil] for the next in line; the lease has it no more
      # @return [Boolean] false: no lease was in line
      def release(lease, connection = nil)
        return false unless lease.slot
        passed = false
        @lock.synchronize do
          if lease.slot
            # A jump may raise, so each branch begins with one and has none inside.
            if @line.empty?
              lease.slot = nil
              @held -= 1
            else
              turn = @line.shift.first
              turn.lease.connection = connection
              turn.lease.slot = true
              lease.slot = nil
              lease.connection = nil
              turn.push(true)
              passed = true
            end
          end
        end
        passed
      end
    end
  end
end
