# frozen_string_literal: true

require "test_helper"
require "support/starved"

# Fibers that can't be started because memory runs out. Ruby's own books are wrong after such a failure.
class StarterTest < Minitest::Test
  include NeverBlockTest::Starved

  slow "it starts a Ruby"
  def test_tasks_fail_and_the_loop_goes_on
    lines = starved_ruby(<<~RUBY)
      NeverBlock.run(on_error: ->(_) {}) do
        gate = Queue.new
        tasks = starve { Array.new(300) { NB.spawn { gate.pop } }.tap { NB.pass } }
        puts tasks.map(&:state).uniq.sort.join(" "), Fiber.blocking?
        puts tasks.find { |task| task.state == :failed }.error.message
        gate.close
        tasks.each { |task| task.join rescue nil }
        puts NeverBlock::Loops.stats.sum { |loop| loop[:tasks] }
        puts Array.new(300) { NB.spawn { sleep 0; Fiber.blocking? ? 0 : 1 } }.sum(&:value)
        starter = Fiber.current
        NB.spawn { starter.raise(IOError, "struck where it waits") }
        begin
          sleep
        rescue IOError => error
          puts error.message
        end
      end
    RUBY
    assert_equal ["failed running", "false", "1", "300", "struck where it waits"], lines.values_at(0, 1, 3..)
    assert_match(/Cannot allocate memory|can't set a guard page.*ulimit -v/, lines[2])
  end

  # The home fiber starts these.
  slow "it starts a Ruby"
  def test_tasks_of_another_thread_fail_and_the_loop_goes_on
    lines = starved_ruby(<<~RUBY)
      wanted, made = Queue.new, Queue.new
      NeverBlock.run(on_error: ->(_) {}) do |scope|
        Thread.new { made << scope.spawn { Queue.new.pop(timeout: 60) } while wanted.pop }
        tasks = []
        starve do
          until tasks.count { |task| task.state == :failed } == 3
            wanted << true
            tasks << made.pop
            NB.pass while tasks.last.state == :new
          end
        end
        puts Fiber.blocking?, tasks.count { |task| task.state == :failed }
        puts scope.spawn { [sleep(0), Fiber.blocking?].last }.value
        tasks.each(&:cancel)
        wanted.close
      end
      puts Fiber.blocking?
    RUBY
    assert_equal %w[false 3 false 1], lines
  end

  # Ruby takes such a task's fiber for one that resumes another, and can't resume it at its end.
  slow "it starts a Ruby"
  def test_a_task_whose_own_fiber_could_not_be_started
    lines = starved_ruby(<<~RUBY)
      NeverBlock.run do |scope|
        puts scope.spawn { starve { exhaust }[/\\A[^(]+/].tap { sleep 0 } }.value
        sleep 0
        $fibers = nil
        puts scope.spawn { [[1, 2].each.next, sleep(0)].first }.value
      end
    RUBY
    assert_equal "1", lines.last
    assert_match(/can't (alloc|set)/, lines.first)
  end

  # Nothing can repair Ruby's count, so that loop ends, with a reason, and its thread starts no other.
  slow "it starts a Ruby"
  def test_a_loop_whose_waits_ruby_does_not_tell_it_ends
    lines = starved_ruby(<<~RUBY)
      attempt = lambda do |&block|
        NeverBlock.run(&block)
      rescue NeverBlock::ResourceLimitError => error
        error.message
      end
      puts(attempt.call do |scope|
        scope.spawn { sleep }
        starve { Fiber.blocking { exhaust } }
        NB.pass
      end)
      puts attempt.call { abort "it ran" }
      puts Thread.new { attempt.call { |scope| scope.spawn { [sleep(0), 5].last }.value } }.value
    RUBY
    assert_match(/\Athis thread can't run a loop any more: .*ulimit -v/, lines[0])
    assert_equal lines[0], lines[1]
    assert_equal "5", lines[2]
  end
end
