# frozen_string_literal: true

# engines: every - each engine has its own registrations in the kernel
require "test_helper"
require "support/loops"

# The kernel's events for a file whose descriptor was closed, but which is open elsewhere: they wake no task, and the
# loop sleeps on. On the real clock, because a virtual one would not let the loop sleep.
class StaleDescriptorsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  # epoll's registrations belong to the open file, which may outlive its descriptor.
  slow "it looks at a loop that has nothing to do"
  def test_a_file_open_in_a_duplicate_does_not_wake_the_next_of_its_number
    in_loop { reuse_number_of { |io| io.dup } }
  end

  slow "it looks at a loop that has nothing to do"
  def test_a_file_open_in_a_duplicate_without_patches
    in_loop(patches: false) { reuse_number_of { |io| io.dup } }
  end

  slow "it looks at a loop that has nothing to do"
  def test_a_file_open_in_a_child_does_not_wake_the_next_of_its_number
    in_loop do
      reuse_number_of { |io| IO.popen(["cat", io.fileno => io.fileno], "r+") }
    end
  end

  # The same with a number that a task waits for already when the stale registration fires; and it doesn't use CPU
  # forever.
  slow "it looks at a loop that has nothing to do"
  def test_a_stale_registration_is_removed
    in_loop do
      scheduler = Fiber.scheduler
      a, b = UNIXSocket.pair
      task = NB.spawn { a.readpartial(1) }
      NB.pass
      b.write("1")
      task.value
      other = a.dup
      a.close
      b.write("boo")
      polls = nil
      used = cpu_time do
        sleep 0.01 # real: the kernel's events
        before = scheduler.statistics[:polls]
        sleep 0.3 # real: the kernel's events
        polls = scheduler.statistics[:polls] - before
      end
      assert_operator polls, :<, 50, "the loop goes round for a closed descriptor's events"
      assert_operator used, :<, 0.2
      assert_equal "boo", other.readpartial(10)
      [other, b].each(&:close)
    end
  end

  private

  # Closes a socket whose file lives on through the block's result, and gives its number to another.
  def reuse_number_of
    a, b = UNIXSocket.pair
    number = a.fileno
    task = NB.spawn { a.readpartial(1) }
    NB.pass
    b.write("1")
    task.value
    keeper = yield a
    a.close
    pair, others = UNIXSocket.pair, []
    until (io = pair.find { |socket| socket.fileno == number }) # lower numbers may be free: garbage collection closes files
      refute_operator others.size, :>, 200, "the number #{number} was not given out again"
      others.concat(pair)
      pair = UNIXSocket.pair
    end
    waiter = NB.spawn { io.wait_readable(0.05) }
    NB.pass
    b.write("ghost")
    assert_nil waiter.value, "woken by the former file of descriptor #{number}"
    waiter = NB.spawn { io.readpartial(4) }
    NB.pass
    used = cpu_time { sleep 0.2 } # real: the kernel's events
    assert_operator used, :<, 0.15, "the loop goes round for a closed descriptor's events"
    pair.find { |socket| socket != io }.write("real")
    assert_equal "real", waiter.value
    Process.kill(:KILL, keeper.pid) if keeper.respond_to?(:pid) && keeper.pid
    [keeper, b, *pair, *others].each(&:close)
  end
end
