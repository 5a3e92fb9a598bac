# frozen_string_literal: true

# One wait of the demo's last scene, with its expected result.
#
#   job = Demo::Job.new("shell command", "`echo`", "hello\n") { `echo hello` }
#   job.call(started)
#   job.line       # => "  shell command    `echo`         done at  0.004 s, took  0.004 s"
module Demo
  class Job
    # @param label [String] a description
    # @param call [String] the Ruby call that waits
    # @param expected [Object] the right result
    def initialize(label, call, expected, &work)
      @label = label
      @call = call
      @expected = expected
      @work = work
      @state = :waiting
    end

    # @return [String]
    attr_reader :label

    # @return [Float] how long it took
    attr_reader :seconds

    # Does the work and compares.
    # @param started [Float] when the whole scene began
    def call(started)
      began = now
      result = @work.call
      @state = (result == @expected) ? :right : :wrong
      @seconds = now - began
      @done_at = now - started
    end

    # @return [Boolean] whether the result was the expected one
    def right? = @state == :right

    # @return [String] its row in the table
    def line
      return format("  %-15s %-30s waiting", @label, @call) if @state == :waiting
      format("  %-15s %-30s %s at %5.2f s, took %5.2f s", @label, @call, right? ? "done" : "WRONG", @done_at, @seconds)
    end

    private

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
