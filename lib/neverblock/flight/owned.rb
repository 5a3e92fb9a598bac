# frozen_string_literal: true

require_relative "table"
require_relative "work"

module NeverBlock
  class Flight
    # Computations that belong to the flight. All callers wait, also the one that began a computation.
    # @api private
    class Owned < Table
      # Computations that a caller waits for, if they end without a result.
      TRIES = 2
      private_constant :TRIES

      # A caller's place: what tells the caller from others in a circle of waits, the work it waits for, whether it has
      # begun the work, and whether the work's task or thread was started.
      Seat = Struct.new(:strand, :work, :leads, :started)
      private_constant :Seat

      # @param max_waiting [Integer] callers of one computation
      # @param abandoned [:cancel, :finish] what becomes of a computation when all have left
      def initialize(max_waiting, abandoned)
        super()
        @max_waiting = max_waiting
        @cancels = abandoned == :cancel
      end

      # @see Flight#call
      def call(key, &compute)
        work = nil
        TRIES.times do
          work = board(key, work, &compute)
          return work.result if work.answered?
        end
        raise EndedError, "computing #{key.inspect} ended #{TRIES} times without a value or an error: its task was " \
          "cancelled, its thread killed, or its loop ended#{" (#{work.ended_by.message})" if work.ended_by}. " \
          "Call again", cause: work.ended_by
      end

      # Called by a work when it begins.
      # @param work [Work]
      # @return [Boolean] false: its callers had left before
      def begin_work(work)
        locked do
          next false if work.over?
          work.begin
          true
        end
      end

      # Called by a work at its end, whatever ended it. A cancellation by force comes in spite of the lock's shield.
      # @param work [Work]
      # @return [void]
      def finish_work(work)
        locked do
          drop(work)
          work.close
        end
      ensure
        work.close
      end

      private

      # Neither come Thread#raise and Thread#kill. A mask of Ruby's belongs to the thread, so a fiber must not have one
      # while it waits for the mutex.
      def locked(&block)
        return super { Scheduler.uninterrupted(&block) } if Fiber.current_scheduler
        Scheduler.uninterrupted { super(&block) }
      end

      # @param failed [Work, nil] that has ended without a result, after this caller had waited for it
      # @return [Work] that is over
      def board(key, failed, &compute)
        seat = Seat.new(Table.strand)
        work = take(seat, key, failed)
        if seat.leads
          work.start(&compute)
          seat.started = true
        end
        work.wait
        work
      ensure
        leave(seat)
      end

      # All callers of a work that has ended without a result get the same successor.
      def take(seat, key, failed)
        work = refusal = nil
        locked do
          work = failed&.successor || running(key) || add(seat, key)
          failed.successor = work if failed
          next if work.over?
          refusal = circle(work, seat.strand) || overload(work)
          sit(seat, work) unless refusal
        end
        refuse(refusal, key) if refusal
        work
      end

      def running(key) = @running[key]&.then { |work| work unless work.over? }

      def add(seat, key)
        seat.leads = true
        @running[key] = Work.new(key, self)
      end

      def sit(seat, work)
        seat.work = work
        work.waiting += 1
        @waits[seat.strand] = work
      end

      # A work that is to be cancelled is dropped first, so that a newcomer never gets its end.
      def leave(seat)
        work = seat&.work or return
        locked do
          @waits.delete(seat.strand)
          work.waiting -= 1
          next unless unneeded?(work, seat)
          drop(work)
          work.begun? ? work.cancel : work.close
        end
      end

      # An interrupt may have come before the task or thread was started.
      def unneeded?(work, seat)
        return false if work.over?
        (@cancels && work.waiting.zero?) || (seat.leads && !seat.started && !work.begun?)
      end

      def drop(work)
        @running.delete(work.key) if @running[work.key].equal?(work)
      end

      def overload(work) = (:overload if work.waiting >= @max_waiting)

      def refuse(refusal, key)
        return super unless refusal == :overload
        raise OverloadError, "#{@max_waiting} callers wait for #{key.inspect} already. Call again later, or raise " \
          "max_waiting: of the Flight"
      end
    end
    private_constant :Owned
  end
end
