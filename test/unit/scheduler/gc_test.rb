# frozen_string_literal: true

# engines: every - each back end holds pointers to waits

require "test_helper"
require "support/loops"
require "support/virtual_time"

# Garbage collection and compaction while fibers wait: in child processes, since a mistake here would end the process.
class GcTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  # A program with every kind of wait, which prints "done".
  WAITS = <<~RUBY
    require "neverblock"
    require "socket"
    require "timeout"
    require "tempfile"

    FILE = Tempfile.new("gc")
    FILE.write("x" * 300_000)
    FILE.flush

    def waits(trigger)
      NeverBlock.run do
        a, b = UNIXSocket.pair
        r, w = IO.pipe
        queue, mutex, condition = Queue.new, Mutex.new, ConditionVariable.new
        tasks = []
        tasks << NB.spawn { sleep 0.01 }
        tasks << NB.spawn { queue.pop }
        tasks << NB.spawn { queue.pop(timeout: 60) }
        tasks << NB.spawn { a.readpartial(10) }
        tasks << NB.spawn { IO.select([r], nil, nil, 60)[0] == [r] or raise "select" }
        tasks << NB.spawn { mutex.synchronize { condition.wait(mutex, 60) } }
        tasks << NB.spawn { Timeout.timeout(60) { sleep 0.005 } }
        tasks << NB.spawn { begin; Timeout.timeout(0.005) { sleep }; rescue Timeout::Error; end }
        tasks << NB.spawn { Process.wait2(spawn("true"))[1].success? or raise "status" }
        tasks << NB.spawn { Thread.new { sleep 0.005; 5 }.value == 5 or raise "thread" }
        tasks << NB.spawn { FILE.pread(300_000, 0).size == 300_000 or raise "pread" }
        tasks << NB.spawn { File.write(File::NULL, "y" * 100_000) }
        tasks << NB.spawn { NB.offload { 7 } == 7 or raise "offload" }
        tasks << NB.spawn { 3.times { NB.pass } }
        tasks << NB.spawn { [1, 2, 3].each_entry.tap { |e| 3.times { e.next; sleep 0.001 } } }
        cancelled = NB.spawn { sleep }
        parked = NB.spawn { Fiber.current.storage; sleep 0.01; tasks.first.join }
        NB.pass
        trigger.call
        cancelled.cancel
        queue << 1 << 2
        b.write("hello")
        w.write("z")
        mutex.synchronize { condition.broadcast }
        trigger.call
        tasks.each(&:value)
        parked.join
        trigger.call
      end
    end
  RUBY

  slow "it collects garbage at each allocation"
  def test_every_wait_under_gc_stress
    assert_equal "done\n", assert_ruby(WAITS + <<~RUBY)
      waits(-> {}) # triggers autoloads
      GC.stress = true
      waits(-> {})
      GC.stress = false
      puts "done"
    RUBY
  end

  slow "it collects garbage at each allocation"
  def test_every_wait_under_compaction
    assert_equal "done\n", assert_ruby(WAITS + <<~RUBY)
      5.times { waits(-> { GC.compact }) }
      GC.auto_compact = true
      20.times { waits(-> { GC.start }) }
      GC.verify_compaction_references(toward: :empty, expand_heap: true)
      5.times { waits(-> { GC.verify_compaction_references(toward: :empty) }) }
      puts "done"
    RUBY
  end

  # The scheduler is kept between runs, referenced by a Ruby object only.
  def test_compaction_between_runs
    assert_equal "ok\n", assert_ruby(<<~RUBY)
      require "neverblock"
      NeverBlock.run { sleep 0.001 }
      GC.verify_compaction_references(toward: :empty, expand_heap: true)
      NeverBlock.run do
        raise "moved" unless NeverBlock::Scheduler.current.equal?(Fiber.scheduler)
        NB.spawn { sleep 0.001 }.join
      end
      puts "ok"
    RUBY
  end

  def test_an_unreferenced_parked_fiber_is_not_collected
    in_loop do |scope|
      finished = 0
      200.times { scope.spawn { sleep 0.05 and finished += 1 } }
      NB.pass
      GC.start
      pass_until("200 ends") { finished == 200 }
    end
  end
end
