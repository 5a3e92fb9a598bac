# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "tmpdir"

# test/support/suite.rb: the closing line must never look better than the runs.
class SuiteTest < Minitest::Test
  include NeverBlockTest::Helpers

  def setup
    FileUtils.mkdir_p(File.join(NeverBlockTest::ROOT, "tmp"))
    @folder = Dir.mktmpdir("suite", File.join(NeverBlockTest::ROOT, "tmp"))
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def test_the_runs_are_added_up
    outcome = suite({"one" => "def test_a = assert(true)\n def test_b = skip", "two" => "def test_a = assert(true)"})
    assert_predicate outcome.status, :success?, outcome.stderr
    assert_equal "2 passed, 0 failed, 1 skipped", outcome.stdout.lines.last.chomp
  end

  def test_a_failing_test_fails_the_whole
    outcome = suite({"one" => "def test_a = assert(false)\n def test_b = assert(true)"})
    assert_equal 1, outcome.status.exitstatus
    assert_equal "1 passed, 1 failed, 0 skipped", outcome.stdout.lines.last.chomp
  end

  def test_a_run_that_dies_is_a_failure
    outcome = suite({"one" => "def test_a = exit!(0)", "two" => "def test_a = Process.kill(:KILL, Process.pid)"})
    assert_equal 1, outcome.status.exitstatus
    assert_match(/\A0 passed, [12] failed, 0 skipped\Z/, outcome.stdout.lines.last)
  end

  def test_a_run_that_hangs_is_killed_and_its_test_named
    outcome = suite({"one" => "def test_that_hangs = sleep"}, limit: 6)
    assert_equal 1, outcome.status.exitstatus
    assert_includes outcome.stdout, "#test_that_hangs"
    assert_equal "0 passed, 1 failed, 0 skipped", outcome.stdout.lines.last.chomp
  end

  def test_nothing_run_is_no_success
    outcome = run_ruby(<<~RUBY)
      require "./test/support/suite"
      NeverBlockTest::Suite.new(selection: ["nothing is called this"]).finish
    RUBY
    assert_equal 1, outcome.status.exitstatus
  end

  private

  # Each file is a run of its own, without an engine.
  def suite(files, limit: 60)
    files.each do |name, body|
      File.write(File.join(@folder, "#{name}_test.rb"), <<~RUBY)
        require "test_helper"
        class #{name.capitalize}Test < Minitest::Test
          #{body}
        end
      RUBY
    end
    run_ruby(<<~RUBY, environment: {"NEVERBLOCK_TEST_LIMIT" => limit.to_s, "NEVERBLOCK_TALLY" => nil}, limit: 120)
      require "./test/support/suite"
      suite = NeverBlockTest::Suite.new
      #{files.keys.inspect}.each { |name| suite.run_files(name, "\#{#{@folder.inspect}.delete_prefix(Dir.pwd + "/")}/\#{name}_test.rb", engines: [nil]) }
      suite.finish
    RUBY
  end
end
