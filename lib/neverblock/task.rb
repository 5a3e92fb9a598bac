# frozen_string_literal: true

module NeverBlock
  # A block that runs in a fiber of its own, beside others on one thread. It speaks Thread's language.
  #
  #   task = NeverBlock.spawn(name: "rates") { Net::HTTP.get(uri) }
  #   task.value     # waits; raises what the block raised
  #
  # Its life (spawning, switching, ending) is in C: ext/neverblock/scheduler/task.c.
  class Task
    # @!method self.current
    #   @return [Task, nil] the task whose code is running, also inside its Enumerators; nil outside a loop
    # @!attribute [rw] name
    #   @return [String, nil] for people
    # @!attribute [r] fiber
    #   @return [Fiber, nil] nil before it has started
    # @!attribute [r] state
    #   @return [Symbol] :new, :running, :returned, :failed or :cancelled
    # @!attribute [r] age
    #   @return [Float] seconds since it was spawned

    # @api private
    # @return [Hash{Symbol=>Numeric}] of all loops: how many are unfinished, and the age of the oldest in seconds
    def self.stats
      loops = Loops.all
      {unfinished: loops.sum(&:task_count), oldest: loops.filter_map { |one| one.oldest_task&.age }.max}
    end

    # Waits for the end.
    # @param limit [Numeric, nil] seconds; nil waits for ever
    # @return [Task, nil] self, or nil if it is still alive after `limit`
    # @raise [Exception] what the block raised
    def join(limit = nil)
      return unless await(limit)
      raise result if state == :failed
      self
    end

    # @return [Object] what the block returned; waits for it
    # @raise [Exception] what the block raised
    # @raise [Cancelled] if the task was cancelled
    def value
      await(nil)
      case state
      when :failed then raise result
      when :cancelled then raise(result || Cancelled.new)
      else result
      end
    end

    # @return [Boolean] whether it has not ended
    def alive? = state == :new || state == :running

    # @return [Boolean] whether it ended by cancellation
    def cancelled? = state == :cancelled

    # @return [Exception, nil] what it failed with
    def error = (result if state == :failed)

    # As Thread#status.
    # @return [String, false, nil] "run", or "sleep" while it waits; false after a normal end, nil after an exception
    def status
      case state
      when :new, :running then (waiting || state == :new) ? "sleep" : "run"
      when :returned then false
      end
    end

    # Asks it to end: {Cancelled} is raised once at its present or next wait, its ensure blocks run and may wait. A
    # task that has not started never will. From any thread.
    # @param reason [Object, nil] {Cancelled#reason}; its text is in the message. A String, a Symbol or an exception says most
    # @param force [Boolean] also while it is shielded, or has a mask of Thread.handle_interrupt
    # @return [Boolean] false if it had ended
    def cancel(reason = nil, force: false) = request_cancel(force, reason.nil? ? nil : Cancelled.new(reason:))

    # @return [String] where it was spawned, "file:line"
    def spawned_at = place || "a method written in C"

    # @api private
    # @param block [Proc] the user's, where the task's own is one of ours around it
    attr_writer :origin

    # @api private
    # @return [String, nil] where its block stands; nil for a block of C
    def place = (@origin || block).source_location&.join(":")

    # @return [String, nil] what it waits for, in words; nil if it does not
    def waits_for
      return "its first turn" if state == :new
      kind, subject, events, left = waiting
      return unless kind
      words = Wording.wait(kind, subject, events)
      left ? format("%s (%.3gs left)", words, left) : words
    end

    # Where it is, innermost call first; from any thread. Where it is inside an Enumerator, that one's calls come first.
    # @return [Array<String>, nil] empty before its first turn; nil when it has ended
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

    # Ruby tells from outside of a thread only whether a fiber is the one that runs on it, not which one that is.
    # @return [Fiber, Thread, nil] what knows the calls of the fiber that it is in; nil if that is its own
    def inner_fiber
      at = waiting&.last || (thread unless fiber.inspect.end_with?("(resumed)>"))
      at unless at.equal?(fiber)
    end
    private :inner_fiber

    # Waits in words.
    # @api private
    module Wording
      EVENTS = {IO::READABLE => "readable", IO::WRITABLE => "writable", IO::PRIORITY => "urgent data"}.freeze

      # @return [String]
      def self.wait(kind, subject, events)
        case kind
        when :pass then "its turn"
        when :sleep then "the end of a sleep"
        when :block then subject.nil? ? "an unblock" : short(subject)
        when :io then "#{short(subject)} to be #{EVENTS.filter_map { |bit, word| word if events & bit != 0 }.join(" or ")}"
        when :select then "one of several descriptors"
        when :process then "process #{subject}"
        when :job then "a native thread or the kernel, for #{short(subject)}"
        else kind.to_s
        end
      end

      # @return [String] an object in few words, without calling inspect methods that may be huge or wait
      def self.short(object)
        case object
        when IO then "#<#{object.class} fd #{object.closed? ? "closed" : object.fileno}>"
        when Task then object.name ? "task #{object.name.inspect}" : "#<#{[object.class, object.place].compact.join(" ")}>"
        when Proc then "the block at #{object.source_location&.join(":")}"
        when String, Symbol, Integer, nil then object.inspect
        else "#<#{object.class}>"
        end
      end
    end
    private_constant :Wording
  end
end
