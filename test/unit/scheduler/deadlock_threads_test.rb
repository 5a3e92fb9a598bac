# frozen_string_literal: true

require "test_helper"
require "support/loops"

# Deadlocks of a loop beside other threads, which are checked several times, a second apart. The programs run in
# parallel, since they wait most of the time.
class DeadlockThreadsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  # A5 of the second attack on the runtime. If no thread can continue, Ruby without NeverBlock aborts the program.
  DEADLOCKS = {
    "another joins it" => "Thread.new { looping }.join",
    "another waits for the same queue" => "Thread.new { looping }; QUEUE.pop",
    "another waits for a thread that waits for it" => "thread = Thread.new { looping }; Thread.new { thread.join }.join",
    "another's loop waits for the same queue" => "Array.new(2) { Thread.new { looping } }.each(&:join)",
    "another's loop waits for it" => "thread = Thread.new { looping }; Thread.new { looping(thread) }.join"
  }.freeze

  WAYS_OUT = {
    "another sleeps" => "sleep 4; QUEUE << 1; LOOP.join",
    "another waits with a limit" => "Queue.new.pop(timeout: 4); QUEUE << 1; LOOP.join",
    "another waits within a timeout" => "begin; Timeout.timeout(4) { LOOP.join }; rescue Timeout::Error; QUEUE << 1; end; LOOP.join",
    "another's loop sleeps" => "Thread.new { NeverBlock.run { sleep 4; QUEUE << 1 } }; LOOP.join",
    "another's loop sleeps without an end" => "Thread.new { NeverBlock.run { sleep } }; spawn(\"sleep 4; kill -INT \#{Process.pid}\"); begin; LOOP.join; rescue Interrupt; QUEUE << 1; end; LOOP.join",
    "another's loop reads" => "Thread.new { NeverBlock.run { QUEUE << IO.popen('sleep 4; echo 1').gets.to_i } }; LOOP.join",
    "another's loop passes it on" => "other = Queue.new; Thread.new { NeverBlock.run { QUEUE << other.pop } }; sleep 4; other << 1; LOOP.join",
    "another reads" => "IO.popen('sleep 4; echo 1').read; QUEUE << 1; LOOP.join",
    "a trap is set" => "trap('USR1') { QUEUE << 1 }; spawn(\"sleep 4; kill -USR1 \#{Process.pid}\"); LOOP.join"
  }.freeze

  slow "it looks several times, a second apart"
  def test_deadlocks
    outputs(DEADLOCKS, <<~RUBY).each { |name, output| assert_equal "NeverBlock::DeadlockError\n", output, name }
      def looping(thread = nil)
        NeverBlock.run { thread ? thread.join : QUEUE.pop }
      rescue NeverBlock::DeadlockError => error
        puts error.class
        QUEUE.close
      end
    RUBY
  end

  slow "it looks several times, a second apart"
  def test_ways_out
    outputs(WAYS_OUT, "LOOP = Thread.new { p NeverBlock.run { QUEUE.pop } }").each { |name, output| assert_equal "1\n", output, name }
  end

  # Each look at the other threads takes as long as there are threads, and fibers.
  def test_a_thread_that_feeds_a_task_does_not_cause_a_look_for_each_item
    looks, began = 0, now
    in_loop do
      Fiber.scheduler.define_singleton_method(:alone?) { (looks += 1) && super() }
      requests, items = Queue.new, Queue.new
      feeder = Thread.new { items << 1 while requests.pop }
      200.times { requests.push(1) && items.pop }
      requests.close
      feeder.join
    end
    assert_operator looks, :<=, (now - began).ceil
  end

  private

  # @return [Hash{String=>String}] the output of each program
  def outputs(programs, beginning)
    threads = programs.transform_values do |code|
      Thread.new { assert_ruby(<<~RUBY) }
        require "neverblock"
        require "timeout"
        QUEUE = Queue.new
        #{beginning}
        #{code}
      RUBY
    end
    threads.transform_values(&:value)
  end
end
