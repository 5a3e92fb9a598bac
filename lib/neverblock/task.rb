# frozen_string_literal: true

module NeverBlock
  # A block that runs in its own fiber, beside others on one thread. The methods are named after those of Thread.
  #
  #   task = NeverBlock.spawn(name: "rates") { Net::HTTP.get(uri) }
  #   task.value     # waits; raises what the block raised
  #
  # Spawning, switching and ending are in C: ext/neverblock/scheduler/task.c.
  class Task
    # @!method self.current
    #   @return [Task, nil] the task of the calling code, also inside the task's Enumerators; nil outside a loop
    # @!attribute [rw] name
    #   @return [String, nil] shown by `inspect`, {NeverBlock.tasks} and {NeverBlock.dump}
    # @!attribute [r] fiber
    #   @return [Fiber, nil] nil before the task has started
    # @!attribute [r] state
    #   @return [Symbol] :new, :running, :returned, :failed or :cancelled
    # @!attribute [r] age
    #   @return [Float] seconds since it was spawned

    # @api private
    # @return [Hash{Symbol=>Numeric}] over all loops: the number of unfinished tasks, and the
    #   age of the oldest in seconds
    def self.stats
      loops = Loops.all
      {unfinished: loops.sum(&:task_count), oldest: loops.filter_map { |one| one.oldest_task&.age }.max}
    end

    # Waits for the end of the task.
    # @param limit [Numeric, nil] seconds; nil waits for ever
    # @return [Task, nil] the task itself; nil if it is still alive after `limit`
    # @raise [Exception] the block's exception
    def join(limit = nil)
      return unless await(limit)
      raise result if state == :failed
      self
    end

    # Waits for the end of the task.
    # @return [Object] the block's value
    # @raise [Exception] the block's exception
    # @raise [Cancelled] if the task was cancelled
    def value
      await(nil)
      case state
      when :failed then raise result
      when :cancelled then raise(result || Cancelled.new)
      else result
      end
    end

    # @return [Boolean] whether the task is unfinished
    def alive? = state == :new || state == :running

    # @return [Boolean] whether a cancellation ended the task
    def cancelled? = state == :cancelled

    # @return [Exception, nil] the exception of a failed task
    def error = (result if state == :failed)

    # The same values as Thread#status.
    # @return [String, false, nil] "run", or "sleep" while it waits; false after a normal end, nil after an exception
    def status
      case state
      when :new, :running then (waiting || state == :new) ? "sleep" : "run"
      when :returned then false
      end
    end

    # Asks the task to end. {Cancelled} is raised once, at its present or next wait; its ensure blocks run and may wait.
    # A task that hasn't started never starts. Thread-safe.
    # @param reason [Object, nil] a String, a Symbol or an exception; returned by
    #   {Cancelled#reason} and part of its message
    # @param force [Boolean] whether to pass the task's shields and its masks of Thread.handle_interrupt
    # @return [Boolean] false if the task had ended
    def cancel(reason = nil, force: false) = request_cancel(force, reason.nil? ? nil : Cancelled.new(reason:))

    # @return [String] the place that the task was spawned at, "file:line"
    def spawned_at = place || "a method written in C"

    # @api private
    # @param block [Proc] the user's block, if the task's own one is an internal one around it
    attr_writer :origin

    # @api private
    # @return [String, nil] the place of the user's block; nil for a block in C
    def place = (@origin || block).source_location&.join(":")

    # @return [String, nil] a description of the task's wait; nil while it runs
    def waits_for
      return "its first turn" if state == :new
      kind, subject, events, left = waiting
      return unless kind
      words = Wording.wait(kind, subject, events)
      left ? format("%s (%.3gs left)", words, left) : words
    end

    # The calls of the task, innermost first; inside an Enumerator the Enumerator's calls come first. Thread-safe.
    # @return [Array<String>, nil] empty before the task's start; nil after its end
    def backtrace
      return unless alive?
      [inner_fiber, fiber].compact.flat_map { |at| at.backtrace || [] }
    end

    # @return [String]
    def inspect
      waits = waits_for if alive?
      facts = [name&.inspect, waits ? "waiting for #{waits}" : state, place&.then { |at| "spawned at #{at}" }]
      "#<NeverBlock::Task #{facts.compact.join(" ")}>"
    end
    alias_method :to_s, :inspect

    # Another thread can't read which fiber a thread runs. Ruby only shows whether a given fiber is the running one.
    # @return [Fiber, Thread, nil] the fiber or thread that has the calls of an inner fiber;
    #   nil if the task is in its own
    def inner_fiber
      at = waiting&.last || (thread unless fiber.inspect.end_with?("(resumed)>"))
      at unless at.equal?(fiber)
    end
    private :inner_fiber

    # Descriptions of waits.
    # @api private
    module Wording
      EVENTS = {IO::READABLE => "readable", IO::WRITABLE => "writable", IO::PRIORITY => "urgent data"}.freeze

      # @return [String]
      def self.wait(kind, subject, events)
        case kind
        when :pass then "its turn"
        when :sleep then "the end of a sleep"
        when :block then subject.nil? ? "an unblock" : short(subject)
        when :io
          "#{short(subject)} to be #{EVENTS.filter_map { |bit, word| word if events & bit != 0 }.join(" or ")}"
        when :select then "one of several descriptors"
        when :process then "process #{subject}"
        when :job then "a native thread or the kernel, for #{short(subject)}"
        else kind.to_s
        end
      end

      # @return [String] a short description; it calls no `inspect` of the object, which may be huge or may wait
      def self.short(object)
        case object
        when IO then "#<#{object.class} fd #{object.closed? ? "closed" : object.fileno}>"
        when Task
          object.name ? "task #{object.name.inspect}" : "#<#{[object.class, object.place].compact.join(" ")}>"
        when Proc then "the block at #{object.source_location&.join(":")}"
        when String, Symbol, Integer, nil then object.inspect
        else "#<#{object.class}>"
        end
      end
    end
    private_constant :Wording
  end
end
