# frozen_string_literal: true

# engines: every - it is about the engine of this run

require "test_helper"
require "support/loops"

# The engine that a scheduler gets, and its description.
class SchedulerEnginesTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  def test_every_engine_of_this_build_that_this_system_allows
    NeverBlock::Scheduler.backends.each do |name|
      scheduler = begin
        NeverBlock::Scheduler.new(engine: name)
      rescue NeverBlock::ConfigurationError
        assert_equal "uring", name, "only io_uring may be forbidden"
        next
      end
      assert_equal name, scheduler.engine_name
      assert_match(/asks for it/, scheduler.engine_reason)
      scheduler.close
    end
  end

  def test_the_default_engine
    scheduler = NeverBlock::Scheduler.new(engine: nil)
    assert_equal NeverBlock::Scheduler.backends.first, scheduler.engine_name
    scheduler.close
  end

  def test_the_engine_of_a_loop_and_the_one_that_a_loop_would_get
    inside = in_loop { NeverBlock.engine }
    assert_equal inside.name, NeverBlock.engine.name
    assert_includes NeverBlock::Scheduler.backends, inside.name
    assert_equal ["#{inside.name}: #{inside.reason}", "#<NeverBlock::Engine #{inside.name}: #{inside.reason}>"], [inside.to_s, inside.inspect]
  end

  def test_an_unknown_engine_is_refused_by_name
    error = assert_raises(NeverBlock::ConfigurationError) { NeverBlock::Scheduler.new(engine: "kqueue") }
    assert_match(/"kqueue".*Choose one of .*poll/, error.message)
    outcome = run_ruby('require "neverblock"; NeverBlock.run {}', engine: "nonsense")
    refute_predicate outcome.status, :success?
    assert_match(/"nonsense".*NEVERBLOCK_ENGINE/, outcome.stderr)
  end

  def test_two_engines_in_two_threads
    engines = NeverBlock::Scheduler.backends & %w[epoll poll]
    threads = engines.map do |name|
      Thread.new do
        reader, writer = IO.pipe
        Fiber.set_scheduler(NeverBlock::Scheduler.new(engine: name))
        Fiber.schedule { reader.read(1) and Thread.current.thread_variable_set(:engine, Fiber.scheduler.engine_name) }
        writer << "x"
        Fiber.set_scheduler(nil)
        [reader, writer].each(&:close)
        Thread.current.thread_variable_get(:engine)
      end
    end
    assert_equal engines, threads.map(&:value)
  end

  def test_inspect_and_statistics
    standalone do |scheduler|
      fiber = Fiber.schedule { Queue.new.pop(timeout: 0.001) }
      assert_match(/\A#<NeverBlock::Scheduler (epoll|uring|poll), 2 tasks>\z/, scheduler.inspect)
      statistics = scheduler.statistics
      assert_equal [2, 1], statistics.values_at(:tasks, :timers)
      NB.pass while fiber.alive?
      assert_operator scheduler.statistics[:switches], :>, statistics[:switches]
    end
    closed = NeverBlock::Scheduler.new.tap(&:close)
    assert_equal "#<NeverBlock::Scheduler closed>", closed.inspect
  end

  def test_current_and_of_thread
    in_loop do
      assert_same Fiber.scheduler, NeverBlock::Scheduler.current
      Fiber.blocking do
        assert_nil NeverBlock::Scheduler.current
        assert_same Fiber.scheduler, NeverBlock::Scheduler.of_thread
      end
      assert_nil Thread.new { NeverBlock::Scheduler.of_thread }.value
    end
    assert_nil NeverBlock::Scheduler.current
  end
end
