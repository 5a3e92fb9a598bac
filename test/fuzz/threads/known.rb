# frozen_string_literal: true

module NeverBlockFuzz
  # Differences between threads and fibers that are known, each with its reason. Where the reason ends, so does the line.
  #
  #   Known.reason(difference)      # => "…"; nil for a new difference
  module Known
    # What one step did under threads, in each of several runs, and under fibers.
    Difference = Struct.new(:event, :code, :threads, :fibers, :text) do
      # @return [Boolean] whether the program has a SIGCHLD handler that waits for all children
      def reaper? = text.include?("trap(:CHLD) { begin")
    end

    CLOSED = /\A(IOError: (stream closed in another thread|closed stream|not opened for reading)|Errno::EBADF)/
    private_constant :CLOSED

    # Pairs of a reason and a test. After such a difference the program goes on differently, so that the comparison ends.
    ALL = [
      ["a reaper in a SIGCHLD handler takes the status before the waiter: both may get Errno::ECHILD, and no $?",
        ->(one) { one.reaper? && one.code.match?(/Process|system|spawn|IO\.popen|`|close|\$\?/) && [*one.threads, one.fibers].grep(/ECHILD|for nil/).any? }],
      ["Fiber#raise and Fiber#kill pass the masks of Thread.handle_interrupt: docs/cancellation-and-timeouts.md",
        ->(one) { one.text.include?("handle_interrupt") && one.fibers.to_s.match?(/boom|bang|unwound/) }],
      ["a task that is killed counts as cancelled, a killed thread as one that has returned",
        ->(one) { one.code.end_with?(".status") && one.threads.uniq == ["false"] && one.fibers == "nil" }],
      ["a closed IO that another strand waits for: core may go on to use it, and say so in other words",
        ->(one) { one.fibers.to_s.match?(CLOSED) && one.threads.any? { |value| value.to_s.match?(CLOSED) } }],
      ["core doesn't tell a thread of a reopen by a path, of a close_read of popen r+, and of a close of one among several IOs of a select",
        ->(one) { one.threads.uniq == [nil] && one.fibers.to_s.match?(CLOSED) && (one.code.match?(/IO\.select|\bp\d/) || one.text.include?("reopen(File::NULL)")) }],
      ["the end of a block of IO.popen waits for the child, unless the thread is killed: nothing tells whether a fiber is",
        lambda do |one|
          one.text.include?("kill(") && one.text.match?(/IO\.popen.* do/) &&
            (one.event.end_with?("children") || (one.code.include?("IO.popen") && one.threads.uniq == ["unwound"] && one.fibers.nil?))
        end],
      ["a raise at the thread that an unlock has just woken: core wakes no other one, so the lock stays free and is waited for",
        ->(one) { one.code.match?(/synchronize|\.lock|\.enter/) && one.threads.include?(nil) && one.fibers && one.text.match?(/raise_in|kill\(/) }],
      ["$? belongs to the thread, so tasks share it: docs/isolation.md", ->(one) { one.code.match?(/\A(\$\? &&|Process\.last_status)/) }]
    ].freeze

    # @param difference [Difference]
    # @return [String, nil]
    def self.reason(difference) = ALL.find { |_, test| test.call(difference) }&.first
  end
end
