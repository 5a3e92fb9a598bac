# frozen_string_literal: true

# engines: every - each back end tells when it asked the kernel

require "test_helper"
require "support/loops"
require "support/virtual_time"

# The time of the last poll tells the loop's own delay apart from the peer's.
class HeardSinceTest < Minitest::Test
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  # An event that arrived while the loop was blocked has arrived after the poll before that, not after the block.
  def test_events_that_arrived_while_the_loop_was_held
    standalone do |scheduler|
      reader, writer = IO.pipe
      Fiber.schedule { reader.wait_readable }
      scheduler.yield
      sleep 0 # a look at the kernel
      writer << "x"
      written = now
      hold(5)
      Fiber.schedule { reader.wait_readable }.then { scheduler.kernel_sleep(0.0) }
      assert_operator scheduler.heard_since, :<=, written
    end
  end

  # An event that ended the loop's sleep arrived at its end.
  def test_events_that_the_loop_has_slept_for
    standalone do |scheduler|
      reader, writer = IO.pipe
      loop_thread, asleep = Thread.current, nil
      Thread.new do
        Thread.pass until loop_thread.status == "sleep"
        asleep = now
        writer << "x"
      end
      reader.wait_readable
      assert_operator scheduler.heard_since, :>, asleep
      assert_operator scheduler.heard_since, :<=, now
    end
  end
end
