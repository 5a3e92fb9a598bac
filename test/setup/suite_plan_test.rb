# frozen_string_literal: true

require "test_helper"
require "support/suite/plan"
require "support/suite/selection"
require "tmpdir"

# The division of a test run, and the selection by a command line.
class SuitePlanTest < Minitest::Test
  Plan = NeverBlockTest::Suite::Plan
  Selection = NeverBlockTest::Suite::Selection
  FILES = %w[test/unit/scheduler/sleep_test.rb test/unit/task_test.rb test/unit/scope_test.rb test/unit/scheduler/timeout_test.rb].freeze

  def setup
    @folder = Dir.mktmpdir("nb")
    @path = File.join(@folder, "times.json")
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def test_chunks_have_every_file_once_and_are_about_as_long
    keep(18.0, 14.0, 11.0, 40.0)
    chunks = Plan.new(@path).chunks(FILES)
    assert_equal FILES.sort, chunks.flatten.sort
    assert_equal [[FILES[3]], [FILES[0], FILES[2]], [FILES[1]]], chunks
    assert_equal 70.0, Plan.new(@path).seconds([FILES[3], FILES[0], FILES[2]])
  end

  # They share the database of their process.
  def test_tests_of_postgresql_are_in_chunks_of_their_own
    files = %w[test/unit/task_test.rb test/integration/postgres_test.rb test/integration/postgres/pipeline_test.rb]
    assert_equal [files.first(1), files.drop(1).sort], Plan.new(@path).chunks(files).map(&:sort)
  end

  # A thread or server that another file leaves behind would make virtual time real.
  def test_files_on_virtual_time_share_no_process_with_others
    files = %w[test/unit/cli_test.rb test/unit/server/heartbeat_test.rb test/unit/patches_test.rb]
    assert_includes Plan.new(@path).chunks(files), files.values_at(1)
  end

  # Otherwise the tests of one file would replace those of another.
  def test_a_chunk_never_loads_two_classes_of_the_same_name
    names = Dir[File.join(NeverBlockTest::ROOT, "test/**/*_test.rb")].flat_map { |path| File.read(path).scan(/^class (\w+Test)\b/) }
    assert_empty names.tally.select { |_, count| count > 1 }
    assert_operator names.size, :>, 300
  end

  # With several engines the slowest counts; slow tests are left out of a fast run.
  def test_times_are_kept
    plan = Plan.new(@path)
    plan.keep([["unit epoll", 1.0, nil], ["unit poll", 2.0, nil], ["unit poll", 3.0, "slow"]].map { |run, seconds, mark| {"run" => run, "file" => FILES[0], "test" => "x", "seconds" => seconds, "mark" => mark} })
    assert_equal [6.0, 3.0], [true, false].map { |all| Plan.new(@path).seconds([FILES[0]], all:) }
    assert_operator Plan.new(@path).seconds([FILES[1]]), :>, 1, "a guess"
    assert_operator Plan.new(@path).seconds(["test/programs/rails_commands_test.rb"]), :>, 60, "what the file declares"
  end

  def test_a_file_of_times_that_cannot_be_read_is_none
    File.write(@path, "{")
    assert_equal FILES.sort, Plan.new(@path).chunks(FILES).flatten.sort
  end

  def test_files_folders_and_names
    selection = Selection.new(%w[test/unit/task_test.rb timeout])
    assert_equal [["test/unit/task_test.rb"], ["timeout"], ["-n", "/timeout/"]], [selection.files, selection.patterns, selection.options]
    assert_includes Selection.new(["test/setup"]).files, "test/setup/suite_plan_test.rb"
    refute_predicate Selection.new([]), :any?
  end

  def test_a_line_of_a_file
    path = "test/setup/suite_plan_test.rb"
    selection = Selection.new(["#{path}:#{__LINE__}"])
    assert_equal [[path], ["\\Atest_a_line_of_a_file\\z"]], [selection.files, selection.patterns]
    assert_match(/no test begins above line 3 of #{path}/, assert_raises(ArgumentError) { Selection.new(["#{path}:3"]) }.message)
  end

  private

  def keep(*seconds)
    Plan.new(@path).keep(FILES.zip(seconds).map { |file, time| {"run" => "unit", "file" => file, "test" => "x", "seconds" => time, "mark" => nil} })
  end
end
