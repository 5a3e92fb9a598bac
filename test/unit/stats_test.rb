# frozen_string_literal: true

require "test_helper"
require "support/runs"

# NeverBlock.stats and the sizes of the pools.
class StatsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  def test_loops_pools_and_tasks_register_themselves
    in_run do |scope|
      parked(scope.spawn { sleep })
      stats = NeverBlock.stats
      mine = stats[:loops].find { |loop| loop[:engine] == Fiber.scheduler.engine_name && loop[:tasks] == 2 }
      assert mine, stats[:loops].inspect
      assert_equal %i[limit threads idle queued], stats[:pools][:files].keys
      assert_operator stats[:tasks][:unfinished], :>=, 2
      assert_operator stats[:tasks][:oldest], :>, 0
      scope.cancel
    end
  end

  def test_a_pool_counts_running_and_queued_calls
    gate = Thread::Queue.new
    in_run do |scope|
      calls = Array.new(18) { scope.spawn { NB.offload { gate.pop } } }
      pass_until(-> { "the calls (#{NeverBlock.stats[:pools][:offload]} of #{Thread.list.filter_map { |t| [t.status, t.backtrace&.first(4)] if t.name&.start_with?("neverblock") }})" }) { NeverBlock.stats[:pools][:offload].values_at(:threads, :idle, :queued) == [16, 0, 2] }
      gate.close
      calls.each(&:join)
    end
  end

  def test_each_pool_has_a_size_of_its_own
    names = %w[THREADS FILE_THREADS NAME_THREADS WAIT_THREADS OPERATION_THREADS OPEN_THREADS].map { |name| "NEVERBLOCK_#{name}" }
    assert_equal "[1, 3, 2, 5, 7, 9]\n", assert_ruby(<<~RUBY, environment: names.zip(%w[1 3 2 5 7 9]).to_h)
      require "neverblock"
      NeverBlock.run do
        NB.offload {}
        NeverBlock::ThreadPool.operations.call {}
        NeverBlock::ThreadPool.opens.call {}
        p NeverBlock.stats[:pools].values_at(:offload, :files, :names, :waits, :operations, :opens).map { |pool| pool[:limit] }
      end
    RUBY
  end

  def test_a_size_beyond_the_largest_count
    assert_equal "[2147483647, 2147483647, 1]\n", assert_ruby(<<~RUBY, environment: {"NEVERBLOCK_THREADS" => "9" * 30, "NEVERBLOCK_FILE_THREADS" => "3000000000"})
      require "neverblock"
      p [*NeverBlock.run { NeverBlock.stats[:pools].values_at(:offload, :files).map { |pool| pool[:limit] } }, NeverBlock.run { NB.offload { 1 } }]
    RUBY
  end

  def test_an_invalid_size_is_named
    outcome = run_ruby('require "neverblock"; NeverBlock.run {}', environment: {"NEVERBLOCK_FILE_THREADS" => "some"})
    refute_predicate outcome.status, :success?
    assert_match(/NEVERBLOCK_FILE_THREADS=some: must be a positive number of threads; the default is 8/, outcome.stderr)
  end

  def test_registered_sources
    source = Module.new { def self.stats = {hits: 3} }
    NeverBlock::Stats.register(:test_cache, source)
    assert_equal({hits: 3}, NeverBlock.stats[:test_cache])
    assert_match(/must respond to stats/, assert_raises(ArgumentError) { NeverBlock::Stats.register(:test_other, 1) }.message)
  ensure
    NeverBlock::Stats.remove(:test_cache)
  end

  def test_in_another_ractor
    assert_equal "[:loops, :pools, :tasks]\n", assert_ruby(<<~RUBY)
      Warning[:experimental] = false
      require "neverblock"
      ractor = Ractor.new { NeverBlock.run { NeverBlock.stats.keys } }
      p ractor.respond_to?(:value) ? ractor.value : ractor.take
    RUBY
  end

  # Calls that wait for nested calls take no thread that those need, whatever the pools' sizes.
  def test_nested_offloads_never_wait_for_one_another
    assert_equal "6\n", assert_ruby(<<~RUBY, environment: {"NEVERBLOCK_THREADS" => "1"})
      require "neverblock"
      deeper = ->(n) { n.zero? ? 0 : NeverBlock.run { NB.offload { Thread.new { deeper.call(n - 1) }.value + 1 } } }
      puts NeverBlock.run { NeverBlock.concurrently(1..2) { deeper.call(3) }.sum }
    RUBY
  end
end
