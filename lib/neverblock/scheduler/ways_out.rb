# frozen_string_literal: true

module NeverBlock
  # What could still end a wait when nothing inside the loop, and no other thread, could: then there is no deadlock.
  #
  #   trap("USR1") { queue << 1 }
  #   NeverBlock.run { queue.pop }                               # waits for the signal
  #   Timeout.timeout(1) { NeverBlock.run { Queue.new.pop } }    # Timeout::Error, not DeadlockError
  #
  # @api private
  module WaysOut
    # What Signal.trap returns for a signal that the program has not trapped.
    UNTRAPPED = [nil, "DEFAULT", "SYSTEM_DEFAULT", "IGNORE", "SIG_IGN", ""].freeze

    # Signals that Ruby reserves, and the broken pipe, which Ruby handles by itself.
    UNASKED = %w[BUS FPE ILL KILL PIPE SEGV STOP VTALRM].filter_map { |name| Signal.list[name] }.freeze

    DUMP_ON = File.expand_path("../api/dump_on.rb", __dir__).freeze
    private_constant :UNTRAPPED, :UNASKED, :DUMP_ON

    class << self
      # Traps first: the search for timeouts looks at every fiber.
      # @return [Boolean] whether a timeout around the loop, or a trap of the program's, could end a wait
      def any? = trap? || timeout?

      # Called on the fiber that runs the loop, which may itself have been resumed inside a timeout: any live fiber counts.
      # @return [Boolean] whether a Timeout.timeout is under way
      def timeout?
        within_timeout?(caller_locations) ||
          ObjectSpace.each_object(Fiber).any? { |fiber| fiber.alive? && within_timeout?(fiber.backtrace_locations) }
      end

      # @return [Boolean] whether the program has set a trap; only the main Ractor may
      def trap?
        return false unless Ractor.current.equal?(Ractor.main)
        (Scheduler.handled_signals - UNASKED).any? { |number| trapped?(number) }
      end

      private

      def within_timeout?(locations)
        file, _ = Timeout.method(:timeout).source_location
        locations&.any? { |location| location.path == file && location.base_label == "timeout" }
      end

      # Ruby tells what a signal's trap is only when another is set. That one is never left there, and a signal that it gets
      # is sent once more.
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

      # NeverBlock.dump_on's trap ends no wait.
      def prints_only?(trap)
        trap.is_a?(Proc) && trap.source_location&.first == DUMP_ON
      end
    end
  end
end
