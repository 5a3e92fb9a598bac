# frozen_string_literal: true

require "io/wait"

module NeverBlock
  # The cases of one {NeverBlock.select}: the block form names them.
  #
  #   NeverBlock.select do |on|
  #     on.pop(inbox) { |message| handle(message) }
  #     on.push(outbox, item) { puts "sent" }
  #     on.readable(socket) { |io| io.read_nonblock(4096) }
  #     on.after(0.5) { puts "nothing for half a second" }
  #   end
  #
  # How nothing is lost: the caller's own fiber takes from a source, as the last thing before it returns, and from one
  # source only. Where no case is ready, a helper task for each source waits until it may be; all have ended before the
  # cases are looked at again. What wakes a helper in a queue is spent though its item stays there, so the next one who
  # waits there is woken in its place (ext/neverblock/scheduler/select_queue.c).
  class Select
    # What the caller waits for; named for those who read `NeverBlock.tasks`.
    class Bell < Thread::Queue; end
    private_constant :Bell

    # @api private
    # @param timeout [Numeric, nil] seconds; nil waits for ever, 0 does not wait
    def initialize(timeout: nil)
      @deadline = Select.now + Options.seconds("timeout", timeout) if timeout
      @cases = []
    end

    # @api private
    # @return [Float] seconds of the monotonic clock
    def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # An item of a queue. nil once the queue is closed and empty.
    # @param queue [Thread::Queue, Thread::SizedQueue]
    # @yieldparam item [Object]
    # @return [self]
    def pop(queue, &block) = add(Pop.new(check("pop", queue, Thread::Queue, Thread::SizedQueue), block))

    # Room in a queue: the item is put into it if this case wins, and only then.
    # @param queue [Thread::SizedQueue, Thread::Queue] a Queue always has room
    # @param item [Object]
    # @yieldparam item [Object] the same
    # @return [self]
    def push(queue, item, &block) = add(Push.new(check("push", queue, Thread::SizedQueue, Thread::Queue), block, item))

    # The end of a task or thread, or a promise that is settled. What it failed with is raised from `select`.
    # @param source [Task, Promise, Thread]
    # @yieldparam value [Object] its value
    # @return [self]
    def value(source, &block) = add(Value.new(check("value", source, Task, Promise, Thread), block))

    # A descriptor that can be read without waiting, or has come to its end.
    # @param io [IO, #to_io]
    # @yieldparam io [IO, #to_io] the same
    # @return [self]
    def readable(io, &block) = add(Descriptor.new(check_io("readable", io), block, :readable))

    # A descriptor that can be written to without waiting.
    # @param io [IO, #to_io]
    # @yieldparam io [IO, #to_io] the same
    # @return [self]
    def writable(io, &block) = add(Descriptor.new(check_io("writable", io), block, :writable))

    # So many seconds from now.
    # @param seconds [Numeric]
    # @return [self]
    def after(seconds, &block)
      raise ArgumentError, "after: nil is no number of seconds" if seconds.nil?
      add(Timer.new(Select.now + Options.seconds("after", seconds), block))
    end

    # @api private
    # A case by the class of its source.
    # @return [self]
    def add_source(source)
      case source
      when Thread::Queue, Thread::SizedQueue then pop(source)
      when Task, Promise, Thread then value(source)
      else
        return readable(source) if source.respond_to?(:to_io)
        raise ArgumentError, "select: #{source.inspect} is no queue, task, promise, thread or IO"
      end
    end

    # @api private
    # @return [Array(Object, Object, Proc), nil] the source, its value and the case's block; nil after the timeout
    # @raise [Exception] what a task, thread or promise failed with
    def call
      raise ArgumentError, "select needs at least one source, or a timeout" if @cases.empty? && !@deadline
      until (won = look || @taken)
        left = @deadline && @deadline - Select.now
        return if left && left <= 0
        await(left)
      end
      won
    ensure
      @cases.each(&:pass_on) if @waited
    end

    private

    def add(one)
      @cases << one
      self
    end

    def check(name, source, *classes)
      return source if classes.any? { |known| known === source }
      raise ArgumentError, "#{name}: #{source.inspect} is no #{classes.join(" or ")}"
    end

    def check_io(name, io)
      return io if io.respond_to?(:to_io)
      raise ArgumentError, "#{name}: #{io.inspect} is no IO"
    end

    # The first case that is ready, from a random one on, so that a source that always is does not starve the others.
    def look
      return if @taken
      first = rand(@cases.size)
      @cases.size.times do |index|
        one = @cases[index - first]
        value = one.take
        return [one.source, value.first, one.block] if value
      end
      nil
    end

    # Waits until a case may be ready, or the time is up.
    def await(left)
      check_blocking_section
      @waited = true
      NeverBlock.run(exit: :cancel) do |scope|
        bell = Bell.new
        listen(scope, bell)
        timers = @cases.filter_map(&:due)
        left = [left, (timers.min - Select.now).clamp(0..)].compact.min if timers.any?
        bell.pop(timeout: left) unless @taken
      end
    end

    # Starts the helpers one after another: each runs until it waits. A queue may get an item from another thread in the
    # instant between a helper's look and its pop, which then takes it at once. It has won then: no further helper starts, and
    # no cancellation comes between.
    def listen(scope, bell)
      NeverBlock.shield do
        @cases.each do |one|
          next if one.due
          start(one, bell)
          break if @taken
        end
        scope.cancel.tasks.each(&:join) if @taken
      end
    end

    def start(one, bell)
      started = false
      Fiber.schedule do
        started = true
        Task.current.name = "select"
        value = one.wait
        @taken = [one.source, value.first, one.block] if value
      ensure
        bell << true # also where somebody has cancelled it: then another one takes its place
      end
      NeverBlock.pass until started
    end

    # A helper would wait on another thread, for a loop that stands still meanwhile.
    def check_blocking_section
      return unless (stopped = Scheduler.of_thread) && !Scheduler.current
      return unless @cases.any? { |one| Task === one.source && stopped.tasks.include?(one.source) }
      raise ThreadError, "select would never end: a task needs its loop, which stands still in a blocking section " \
        "(Fiber.blocking, neverblock(false)) meanwhile. Select outside of that section."
    end
  end
end

require_relative "select/case"
require_relative "select/pop"
require_relative "select/push"
require_relative "select/value"
require_relative "select/descriptor"
require_relative "select/timer"
