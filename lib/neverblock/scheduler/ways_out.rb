# frozen_string_literal: true

module NeverBlock
  # Decides whether a signal or a timeout could end a wait, when nothing inside the loop and no other thread
  # could. Then there is no deadlock.
  #
  #   trap("USR1") { queue << 1 }
  #   NeverBlock.run { queue.pop }                               # waits for the signal
  #   Timeout.timeout(1) { NeverBlock.run { Queue.new.pop } }    # Timeout::Error, not DeadlockError
  #
  # @api private
  module WaysOut
    # The results of Signal.trap for a signal without a trap of the program.
    UNTRAPPED = [nil, "DEFAULT", "SYSTEM_DEFAULT", "IGNORE", "SIG_IGN", ""].freeze

    # Signals that Ruby reserves, and SIGPIPE, which Ruby handles itself.
    UNASKED = %w[BUS FPE ILL KILL PIPE SEGV STOP VTALRM].filter_map { |name| Signal.list[name] }.freeze

    DUMP_ON = File.expand_path("../api/dump_on.rb", __dir__).freeze
    private_constant :UNTRAPPED, :UNASKED, :DUMP_ON

    class << self
      # Checks traps first, because the check for timeouts examines every fiber.
      # @return [Boolean] whether a trap of the program, or a timeout around the loop, could end a wait
      def any? = trap? || timeout?

      # Called on the loop's fiber, which may have been resumed inside a timeout. So the
      # timeout of any live fiber counts.
      # @return [Boolean] whether a Timeout.timeout is under way
      def timeout?
        within_timeout?(caller_locations) ||
          ObjectSpace.each_object(Fiber).any? { |fiber| fiber.alive? && within_timeout?(fiber.backtrace_locations) }
      end

      # @return [Boolean] whether the program has set a trap; only the main Ractor can set one
      def trap?
        return false unless Ractor.current.equal?(Ractor.main)
        (Scheduler.handled_signals - UNASKED).any? { |number| trapped?(number) }
      end

      private

      def within_timeout?(locations)
        file, _ = Timeout.method(:timeout).source_location
        locations&.any? { |location| location.path == file && location.base_label == "timeout" }
      end

      # Ruby returns the trap of a signal only when another is set. The temporary one is removed at once, and a signal
      # that it has received is sent again.
      def trapped?(number)
        trap = Scheduler.uninterrupted do
          came = false
          found = Scheduler.keep_handler(number) do
            Signal.trap(number) { came = true }.tap { |before| Signal.trap(number, before || "DEFAULT") }
          end
          Process.kill(number, Process.pid) if came
          found
        end
        !UNTRAPPED.include?(trap) && !prints_only?(trap)
      rescue ArgumentError # reserved by this Ruby
        false
      end

      # The trap of NeverBlock.dump_on ends no wait.
      def prints_only?(trap)
        trap.is_a?(Proc) && trap.source_location&.first == DUMP_ON
      end
    end
  end
end
