# frozen_string_literal: true

module NeverBlock
  # So many at a time, the rest wait their turn; for fibers and threads.
  #
  #   limit = NeverBlock::Semaphore.new(5)
  #   limit.acquire { call_the_api }      # given back whatever happens
  #
  class Semaphore
    # @return [Integer] how many may hold it
    attr_reader :size

    # What one waiter waits for; named for those who read `NeverBlock.tasks`.
    class Turn < Thread::Queue; end
    private_constant :Turn

    # @param size [Integer]
    # @raise [ArgumentError] if it is no positive Integer
    def initialize(size)
      @size = Options.positive("size", size)
      @lock = Thread::Mutex.new
      @turns = []
      @held = 0
    end

    # Waits for a place, first come, first served. With a block, holds it while the block runs.
    # @param timeout [Numeric, nil] seconds; nil waits for ever
    # @return [Object] the block's value; without a block true
    # @raise [TimeoutError] if there was none in time
    def acquire(timeout: nil)
      Options.seconds("timeout", timeout)
      try_acquire || wait(timeout)
      return true unless block_given?
      begin
        yield
      ensure
        release
      end
    end

    # @return [Boolean] whether there was a place; it is taken then
    def try_acquire
      @lock.synchronize { (@held < @size) && (@held += 1) && true }
    end

    # Gives a place back, to the one who has waited longest if there is one.
    # @return [self]
    # @raise [ThreadError] if nobody holds one
    def release
      @lock.synchronize do
        raise ThreadError, "release: nobody holds a place of this semaphore" if @held.zero?
        turn = @turns.shift
        turn ? turn << true : @held -= 1
      end
      self
    end

    # @return [Integer] free places
    def available = @size - @held

    private

    def wait(timeout)
      turn = Turn.new
      @lock.synchronize do
        @turns << turn
        next if @held == @size # else a place came free since we looked
        @turns.delete(turn)
        @held += 1
        turn << true
      end
      given = turn.pop(timeout:) || !withdraw(turn)
      raise TimeoutError, "no place in the semaphore of #{@size} within #{timeout} s" unless given
    ensure
      # Unwound from outside, perhaps after the place was handed over.
      withdraw(turn) || release if given.nil? && turn
    end

    # @return [Boolean] false if the turn has come already
    def withdraw(turn) = @lock.synchronize { !@turns.delete(turn).nil? }
  end
end
