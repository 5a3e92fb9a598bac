# frozen_string_literal: true

module NeverBlockTest
  # Seconds of real time until a wait counts as hanging: many times as long as any wait takes, even on a busy machine.
  # It is the same for all waits. A limit that grew with the load would hide hangs.
  LIMIT = 120

  # Waits for a condition in real time, inside or outside of a loop:
  #
  #   NeverBlockTest.wait_until("the end of the server") { server.ended? }
  #
  # @param what [String, Proc] names the condition in the failure
  # @param pause [Float] seconds between two looks
  # @return [Object] the block's value
  # @raise [Minitest::Assertion] if the block is still false after {LIMIT} seconds
  def self.wait_until(what, pause: 0.001)
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    until (value = yield)
      if Process.clock_gettime(Process::CLOCK_MONOTONIC) - began > LIMIT
        raise Minitest::Assertion, "#{(Proc === what) ? what.call : what} did not come true within #{LIMIT} s"
      end
      sleep pause # real: the process, socket or event that the block looks at
    end
    value
  end
end
