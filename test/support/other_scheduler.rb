# frozen_string_literal: true

require "io/wait"
require_relative "clock"

module NeverBlockTest
  # A small scheduler that isn't ours, for features that must work inside any scheduler: IO.select, a list of timers,
  # and fibers that are resumed.
  #
  #   Thread.new do
  #     Fiber.set_scheduler(NeverBlockTest::OtherScheduler.new)
  #     Fiber.schedule { sleep 1 }
  #   end.join
  class OtherScheduler
    include Clock

    def initialize
      @ready, @lock = [], Thread::Mutex.new
      @timers, @readers, @writers = {}, {}, {}
      @blocked = {}.compare_by_identity # keeps waiting fibers alive: Ruby crashes when it wakes a collected one
      @wake_reader, @wake_writer = IO.pipe
    end

    def run
      step until @ready.empty? && @timers.empty? && @readers.empty? && @writers.empty? && @blocked.empty?
    end

    def close
      run
    ensure
      [@wake_reader, @wake_writer].each { |io| io.close unless io.closed? }
    end

    def fiber(&block) = Fiber.new(blocking: false, &block).tap(&:resume)

    def block(_blocker, timeout = nil)
      @blocked[Fiber.current] = true
      @timers[Fiber.current] = now + timeout if timeout
      Fiber.yield
    ensure
      @timers.delete(Fiber.current)
      @blocked.delete(Fiber.current)
    end

    def unblock(_blocker, fiber)
      @lock.synchronize { @ready << [fiber, true] }
      @wake_writer.write_nonblock(".", exception: false)
    end

    def kernel_sleep(seconds = nil)
      block(:sleep, seconds)
      true
    end

    def io_wait(io, events, timeout)
      @timers[Fiber.current] = now + timeout if timeout
      @readers[io] = Fiber.current if events & IO::READABLE != 0
      @writers[io] = Fiber.current if events & IO::WRITABLE != 0
      Fiber.yield
    ensure
      @timers.delete(Fiber.current)
      @readers.delete_if { |_, fiber| fiber == Fiber.current }
      @writers.delete_if { |_, fiber| fiber == Fiber.current }
    end

    def fiber_interrupt(fiber, exception) = fiber.raise(exception)

    private

    def step
      due = @timers.values.min
      readable, writable = IO.select([*@readers.keys, @wake_reader], @writers.keys, nil, @ready.empty? ? due && [due - now, 0].max : 0)
      @wake_reader.read_nonblock(1_000, exception: false) if readable&.delete(@wake_reader)
      readable&.each { |io| @readers[io]&.resume(IO::READABLE) }
      writable&.each { |io| @writers[io]&.resume(IO::WRITABLE) }
      @timers.select { |_, time| time <= now }.each_key { |fiber| fiber.resume(false) if @timers.delete(fiber) }
      woken = @lock.synchronize { @ready.slice!(0..) }
      woken.each { |fiber, value| fiber.resume(value) if fiber.alive? }
    end
  end
end
