# frozen_string_literal: true

require "io/wait"

module NeverBlock
  # The cases of one {NeverBlock.select}, for its block form.
  #
  #   NeverBlock.select do |on|
  #     on.pop(inbox) { |message| handle(message) }
  #     on.push(outbox, item) { puts "sent" }
  #     on.readable(socket) { |io| io.read_nonblock(4096) }
  #     on.after(0.5) { puts "nothing for half a second" }
  #   end
  #
  # How no item is lost: the caller's own fiber takes an item as its last step before it returns, and from one source
  # only. While no case is ready, one helper task per source waits. All helpers end before the cases are examined again.
  # A helper in a queue consumes a wake-up but not the item, so the next waiter of that queue is woken in its place
  # (ext/neverblock/scheduler/select_queue.c).
  #
  # The cases are in `select/`:
  #
  #   case.rb         the base classes Case and QueueCase
  #   pop.rb          an item of a queue
  #   push.rb         room in a queue
  #   value.rb        the end of a task, thread or promise
  #   descriptor.rb   a readable or writable IO
  #   timer.rb        a point in time
  class Select
    # The queue that the caller waits for. The class name appears in {NeverBlock.tasks}.
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
    def self.now = Clock.now

    # Adds a case: an item of a queue. Its value is nil once the queue is closed and empty.
    # @param queue [Thread::Queue, Thread::SizedQueue]
    # @yieldparam item [Object]
    # @return [self]
    def pop(queue, &block) = add(Pop.new(check("pop", queue, Thread::Queue, Thread::SizedQueue), block))

    # Adds a case: room in a queue. The item is pushed only if this case wins.
    # @param queue [Thread::SizedQueue, Thread::Queue] a Queue always has room
    # @param item [Object]
    # @yieldparam item [Object] the same
    # @return [self]
    def push(queue, item, &block) = add(Push.new(check("push", queue, Thread::SizedQueue, Thread::Queue), block, item))

    # Adds a case: the end of a task or thread, or a settled promise. The error of the source is raised from `select`.
    # @param source [Task, Promise, Thread]
    # @yieldparam value [Object] the source's value
    # @return [self]
    def value(source, &block) = add(Value.new(check("value", source, Task, Promise, Thread), block))

    # Adds a case: a descriptor that is readable without waiting, or at its end.
    # @param io [IO, #to_io]
    # @yieldparam io [IO, #to_io] the same
    # @return [self]
    def readable(io, &block) = add(Descriptor.new(check_io("readable", io), block, :readable))

    # Adds a case: a descriptor that is writable without waiting.
    # @param io [IO, #to_io]
    # @yieldparam io [IO, #to_io] the same
    # @return [self]
    def writable(io, &block) = add(Descriptor.new(check_io("writable", io), block, :writable))

    # Adds a case: a timer.
    # @param seconds [Numeric]
    # @return [self]
    def after(seconds, &block)
      if seconds.nil?
        raise ArgumentError, "after: must be a number of seconds, got nil. Leave the case out for no limit"
      end
      add(Timer.new(Select.now + Options.seconds("after", seconds), block))
    end

    # @api private
    # Adds the case that fits the class of a source.
    # @return [self]
    def add_source(source)
      case source
      when Thread::Queue, Thread::SizedQueue then pop(source)
      when Task, Promise, Thread then value(source)
      else
        return readable(source) if source.respond_to?(:to_io)
        raise ArgumentError, "select: a source must be a queue, task, promise, thread or IO, got #{source.inspect}"
      end
    end

    # @api private
    # @return [Array(Object, Object, Proc), nil] the source, its value and its block; nil after the timeout
    # @raise [Exception] the error of a task, thread or promise
    def call
      if @cases.empty? && !@deadline
        raise ArgumentError, "select needs at least one source or a timeout: it would wait for ever"
      end
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
      raise ArgumentError, "#{name}: must be a #{classes.join(" or ")}, got #{source.inspect}"
    end

    def check_io(name, io)
      return io if io.respond_to?(:to_io)
      raise ArgumentError, "#{name}: must be an IO or respond to to_io, got #{io.inspect}"
    end

    # Returns the first ready case. The search starts at a random case, so that an always ready source starves no other.
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

    # Waits until a case may be ready or the time limit has passed.
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

    # Starts the helpers one after another; each runs until it waits. Another thread may push an item between a helper's
    # check and its pop, and the helper then takes it at once. That case has won: no further helper starts, and the
    # shield keeps cancellations out.
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
        bell << true # also after a cancellation of the helper from outside; another helper then replaces it
      end
      NeverBlock.pass until started
    end

    # A helper would run on another thread, and wait for a task of this thread's loop, which is stopped meanwhile.
    def check_blocking_section
      return unless (stopped = Scheduler.of_thread) && !Scheduler.current
      return unless @cases.any? { |one| Task === one.source && stopped.tasks.include?(one.source) }
      raise ThreadError,
        "select would never end: it waits for a task of this thread's loop, which a blocking section " \
        "(Fiber.blocking, neverblock(false)) has stopped. Call select outside of that section"
    end
  end
end

require_relative "select/case"
require_relative "select/pop"
require_relative "select/push"
require_relative "select/value"
require_relative "select/descriptor"
require_relative "select/timer"
