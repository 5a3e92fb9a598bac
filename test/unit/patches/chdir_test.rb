# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "tmpdir"

# The directory of the process, which threads can't change during another thread's block of Dir.chdir.
class ChdirTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  CONFLICT = "conflicting chdir during another chdir block"

  def setup
    @before = Dir.pwd
    @folder = File.realpath(Dir.mktmpdir)
  end

  def teardown
    assert_equal @before, Dir.pwd
    Dir.rmdir(@folder)
  end

  def outcome
    yield
  rescue RuntimeError => error
    error.message
  end

  # A task that stands in a block of Dir.chdir until the test's block has ended.
  def during_a_block(&block)
    in_run do |scope|
      gate = Queue.new
      inside = scope.spawn { Dir.chdir(@folder) { [gate.pop, Dir.pwd] } }
      parked(inside)
      block.call
      gate << :end
      assert_equal [:end, @folder], inside.value
    end
  end

  CHANGES = {
    chdir: -> { Dir.chdir("/") {} },
    chdir_without_a_block: -> { Dir.chdir("/") },
    chdir_of_an_open_one: -> { Dir.open("/") { |dir| dir.chdir } },
    fchdir: -> { Dir.open("/") { |dir| Dir.fchdir(dir.fileno) {} } }
  }.freeze

  CHANGES.each do |name, change|
    define_method(:"test_#{name}_is_refused_to_another_task") do
      during_a_block { assert_equal CONFLICT, outcome(&change) }
    end
  end

  def test_threads_are_refused_with_the_same_error
    error = Dir.chdir(@folder) { Thread.new { outcome(&CHANGES[:chdir]) }.value }
    assert_equal CONFLICT, error
  end

  def test_a_task_nests_its_own_and_returns_the_values_of_blocks
    in_run do
      paths = Dir.chdir(@folder) { |path| [path, Dir.chdir("/") { sleep(0) && Dir.pwd }, Dir.pwd] }
      assert_equal [@folder, "/", @folder], paths
      assert_equal [@folder, @folder], [Dir.chdir(@folder) { |path| path }, Dir.chdir(@folder) { Dir.pwd }]
      assert_equal 0, Dir.chdir(@before)
    end
  end

  def test_one_task_after_another
    in_run { |scope| 2.times { assert_equal @folder, scope.spawn { Dir.chdir(@folder) { sleep(0) && Dir.pwd } }.value } }
  end

  def test_a_block_around_the_loop_does_not_concern_its_tasks
    Dir.chdir(@folder) { NeverBlock.run { |scope| assert_equal "/", scope.spawn { Dir.chdir("/") { Dir.pwd } }.value } }
  end

  def test_an_error_and_a_cancellation_end_the_block
    in_run do |scope|
      failed = scope.spawn { outcome { Dir.chdir(@folder) { raise "given up" } } }
      assert_equal "given up", failed.value
      cancelled = parked(scope.spawn { Dir.chdir(@folder) { sleep } })
      cancelled.cancel
      cancelled.join
      assert_equal "/", Dir.chdir("/") { Dir.pwd }
    end
  end

  def test_a_block_that_was_dropped_with_its_task_refuses_nothing
    assert_equal "/\n", assert_ruby(<<~RUBY) # Ruby itself never learns that the block has ended
      require "neverblock"
      NeverBlock.run do |scope|
        scope.spawn { Enumerator.new { |out| Dir.chdir("/usr") { out << 1 } }.next }.join
        Dir.chdir("/") { puts Dir.pwd }
      end
    RUBY
  end
end
