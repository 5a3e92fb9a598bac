# frozen_string_literal: true

module NeverBlock
  # Limits how many fibers and threads hold a place at once; the others wait in order.
  #
  #   limit = NeverBlock::Semaphore.new(5)
  #   limit.acquire { call_the_api }      # released at the end of the block, also after an error
  #
  # In a forked child all places are free: the tasks that hold them in the parent don't exist there.
  class Semaphore
    # @return [Integer] the number of places
    attr_reader :size

    # A waiter's queue. The class name appears in {NeverBlock.tasks}.
    class Turn < Thread::Queue; end
    private_constant :Turn

    # @param size [Integer]
    # @raise [ArgumentError] unless the size is a positive Integer
    def initialize(size)
      @size = Options.positive("size", size)
      @lock = Thread::Mutex.new
      start_afresh
    end

    # Takes a place. Waits in order of arrival while all are held. With a block, releases the place at the block's end.
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @return [Object] the block's value; without a block true
    # @raise [TimeoutError] if no place became free in time
    def acquire(timeout: nil)
      Options.seconds("timeout", timeout)
      try_acquire || wait(timeout)
      return true unless block_given?
      process = Process.pid
      begin
        yield
      ensure
        release if process == Process.pid # a child that the block has forked holds no place
      end
    end

    # Takes a place if one is free, without waiting.
    # @return [Boolean] whether a place was taken
    def try_acquire
      locked { (@held < @size) && (@held += 1) && true }
    end

    # Returns a place. It goes to the waiter that has waited longest, if there is one.
    # @return [self]
    # @raise [ThreadError] if no place is held
    def release
      locked do
        if @held.zero?
          raise ThreadError,
            "release: no place of this semaphore (size #{@size}) is held. Call it once for each acquire"
        end
        turn, _ = @turns.shift
        turn ? turn << true : @held -= 1
      end
      self
    end

    # @return [Integer] free places
    def available = @size - held

    # @api private
    # @return [Integer] places that are taken
    def held = (@process == Process.pid) ? @held : 0

    private

    def locked
      @lock.synchronize do
        start_afresh unless @process == Process.pid
        yield
      end
    end

    def start_afresh
      @process = Process.pid
      @turns = {}.compare_by_identity # an ordered set, because waiters leave from the middle
      @held = 0
    end

    def wait(timeout)
      turn = Turn.new
      locked do
        @turns[turn] = true
        next if @held == @size # otherwise a place became free after try_acquire
        @turns.delete(turn)
        @held += 1
        turn << true
      end
      given = turn.pop(timeout:) || !withdraw(turn)
      raise TimeoutError, "no place in the semaphore of #{@size} became free within #{timeout} s" unless given
    ensure
      # An exception ended the wait, perhaps after the place was handed over.
      withdraw(turn) || release if given.nil? && turn
    end

    # @return [Boolean] false if the place was handed over already
    def withdraw(turn) = locked { !@turns.delete(turn).nil? }
  end
end
