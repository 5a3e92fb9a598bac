# frozen_string_literal: true

# engines: every - a watchdog interrupts the back end's wait

require "test_helper"
require "support/runs"

# The helper thread that ends timeouts of code that never waits; its effects for users are in timeout_test.rb.
class TimeoutWatchdogTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  def test_timeouts_that_end_in_time_cost_the_watchdog_nothing
    in_run do
      Timeout.timeout(60) { nap }
      helper = Thread.list.find { |thread| thread.name == "neverblock timeouts" }
      pass_until("the helper to sleep") { helper.status == "sleep" }
      before = helper.native_thread_id && cpu_of(helper)
      2_000.times { Timeout.timeout(60) {} }
      assert_operator cpu_of(helper) - before, :<, 0.05 if before
    end
  end

  def cpu_of(thread)
    fields = File.read("/proc/self/task/#{thread.native_thread_id}/stat").split(") ").last.split
    fields.values_at(11, 12).sum(&:to_i) / 100.0
  rescue Errno::ENOENT
    0.0
  end

  def test_a_nearer_deadline_than_the_planned_one
    in_run do
      Timeout.timeout(60) { assert_kind_of Timeout::Error, raised { Timeout.timeout(0.03) { loop {} } } }
    end
  end

  slow "it computes until a timeout ends it"
  def test_several_loops_on_several_threads
    errors = Array.new(3) { Thread.new { NeverBlock.run { raised { Timeout.timeout(0.05) { loop {} } } } } }.map(&:value)
    assert_equal [Timeout::Error] * 3, errors.map(&:class)
  end

  def test_the_thread_starts_again_after_its_end
    2.times do
      helper = Thread.list.find { |thread| thread.name == "neverblock timeouts" }
      helper&.kill&.join
      assert_kind_of Timeout::Error, raised { in_run { Timeout.timeout(0.03) { loop {} } } }
    end
  end

  slow "it computes until a timeout ends it"
  def test_in_a_forked_child
    assert_equal "Timeout::Error\nTimeout::Error\n", assert_ruby(<<~RUBY)
      require "neverblock"
      $stdout.sync = true
      busy = -> { NeverBlock.run { Timeout.timeout(0.03) { loop {} } } rescue puts $!.class }
      busy.call
      Process.wait(fork(&busy))
    RUBY
  end

  def test_in_a_ractor
    assert_equal "Timeout::Error\n", assert_ruby(<<~RUBY, options: ["-W0"])
      require "neverblock"
      ractor = Ractor.new { NeverBlock.run { Timeout.timeout(0.03) { loop {} } } rescue $!.class.name }
      puts ractor.respond_to?(:value) ? ractor.value : ractor.take
    RUBY
  end

  # A late exception must not reach another task.
  slow "it computes until a timeout ends it"
  def test_a_masked_block_that_computes
    in_run do |scope|
      other = scope.spawn { 50.times { nap(0.002) } && :unharmed }
      masked = scope.spawn do
        Thread.handle_interrupt(Exception => :never) do
          Timeout.timeout(0.02) { spin(0.15) }
        rescue Timeout::Error
          :expired
        end
      end
      assert_includes [:expired, :through, Timeout::Error], outcome(masked).then { |got| got.is_a?(Exception) ? got.class : got }
      assert_equal :unharmed, other.value
      nap(0.1)
    end
  end

  def spin(seconds)
    deadline = now + seconds
    nil while now < deadline
    :through
  end

  slow "it computes until a timeout ends it"
  def test_thousands_of_timeouts_beside_a_computing_task
    in_run do |scope|
      gate = Thread::Queue.new
      waiting = Array.new(500) { scope.spawn { Timeout.timeout(600) { gate.pop || :unharmed } } }
      busy = Array.new(5) { scope.spawn { raised { Timeout.timeout(0.02) { loop {} } }.class } }
      assert_equal [Timeout::Error] * 5, busy.map(&:value)
      gate.close
      assert_equal [:unharmed], waiting.map(&:value).uniq
    end
  end
end
