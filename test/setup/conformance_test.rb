# frozen_string_literal: true

require "test_helper"
%w[source_tree suite exclusion test_process proofs file_run].each { |name| require_relative "../conformance/#{name}" }

# How the run of Ruby's own tests judges: on a file of its own, in a copy of the running Ruby's source tree.
class ConformanceTest < Minitest::Test
  FILE = "test/ruby/test_sample.rb"

  def setup
    @folder = Dir.mktmpdir("nb")
    real = Conformance::SourceTree.find.path
    FileUtils.mkdir_p(File.join(@folder, "test/ruby"))
    %w[include tool version.h test/fiber test/lib test/runner.rb].each { |path| FileUtils.ln_s(File.join(real, path), File.join(@folder, path)) }
    # Unlike Ruby's tests, these tell where they run.
    @inside = "!Fiber.current.blocking?"
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  slow "it starts test runs"
  def test_what_passes_what_does_not_apply_and_what_fails_without_us_too
    judge <<~RUBY
      def test_passes = assert_equal(4, 2 + 2)
      def test_in_a_fiber_of_ours = assert(#{@inside} && NeverBlock::Task.current)
      def test_skips = omit("not here")
      def test_broken = flunk("broken")
      def teardown = Dir.children(Dir.tmpdir)
    RUBY
    assert_equal({"test_passes" => "passed", "test_in_a_fiber_of_ours" => "passed", "test_skips" => "skipped", "test_broken" => "stock"}, kinds)
    assert_includes reason_of("test_broken"), "broken"
    assert_equal 2, @run.assertions - 1 # flunk counts as one as well
  end

  slow "it starts test runs"
  def test_a_test_that_fails_only_inside_fails
    judge "def test_blocking = refute(#{@inside}, 'not so in a fiber')"
    assert_equal({"test_blocking" => "failed"}, kinds)
    assert_includes reason_of("test_blocking"), "not so in a fiber"
  end

  slow "it starts test runs"
  def test_a_failing_tear_down_fails_its_test
    judge "def test_x = assert(true)\ndef teardown = (flunk('torn') if #{@inside})"
    assert_equal({"test_x" => "failed"}, kinds)
  end

  slow "it starts test runs"
  def test_a_test_that_passes_the_second_time_is_listed
    mark = File.join(@folder, "mark")
    judge "def test_x = assert(File.exist?(#{mark.dump}) || !File.write(#{mark.dump}, ''))"
    assert_equal({"test_x" => "unsteady"}, kinds)
  end

  slow "it starts test runs"
  def test_the_others_run_when_one_ends_the_process
    judge <<~RUBY
      def test_a = assert(true)
      def test_b_ends_it = #{@inside} && exit!(3)
      def test_c = assert(true)
      def test_d_raises_in_main = #{@inside} && Thread.new { Thread.main.raise("gone") } && sleep
      def test_e = assert(true)
    RUBY
    assert_equal({"test_a" => "passed", "test_b_ends_it" => "failed", "test_c" => "passed",
      "test_d_raises_in_main" => "failed", "test_e" => "passed"}, kinds)
    assert_match(/exit 3/, reason_of("test_b_ends_it"))
    assert_match(/gone \(RuntimeError\)/, reason_of("test_d_raises_in_main"))
  end

  slow "it starts test runs"
  def test_a_test_that_is_not_for_every_run
    judge "def test_a = assert(true)\ndef test_b = assert(false)", ci: true
    assert_equal({"test_a" => "passed"}, kinds)
  end

  slow "it starts test runs"
  def test_a_hanging_test_is_killed
    judge "def test_hangs = #{@inside} && Thread::Queue.new.then { |queue| Thread.new { sleep } && queue.pop }", limit: 2
    assert_equal({"test_hangs" => "failed"}, kinds)
    assert_match(/did not end within 2 s/, reason_of("test_hangs"))
  end

  def test_a_file_that_cannot_be_loaded_fails
    File.write(File.join(@folder, FILE), "require 'there/is/no/such/file'")
    run_file
    assert_equal ["failed"], @run.verdicts.map(&:kind)
  end

  slow "it starts test runs"
  def test_an_exclusion_holds_while_test_and_proof_fail
    judge "def test_root = assert(Fiber.current.blocking?)", exclude: {"test_root" => ["sample"]}
    assert_equal({"test_root" => "excluded"}, kinds)
  end

  slow "it starts test runs"
  def test_an_excluded_test_that_passes_fails_the_run
    judge "def test_x = assert(true)", exclude: {"test_x" => ["sample"]}
    assert_equal({"test_x" => "failed"}, kinds)
    assert_match(/excluded, but passes/, reason_of("test_x"))
  end

  slow "it starts test runs"
  def test_an_exclusion_needs_a_proof_that_holds
    judge "def test_x = refute(defined?(NeverBlock))", exclude: {"test_x" => ["sample"]}
    assert_match(/passes in the surroundings "sample"/, reason_of("test_x"))
    judge "def test_x = refute(#{@inside})", exclude: {"test_x" => ["async"]}
    assert_match(/no record/, reason_of("test_x"))
  end

  slow "it starts test runs"
  def test_an_exclusion_of_no_test_fails_the_run
    judge "def test_x = assert(true)", exclude: {"test_gone" => ["sample"]}
    assert_equal({"test_x" => "passed", "test_gone" => "failed"}, kinds)
  end

  def test_exclusions_are_complete
    good = {"file" => FILE, "test" => "TestX#test_x", "reason" => "asks for the main thread", "proof" => ["sample"]}
    assert Conformance::Exclusion.new(good)
    [{"reason" => "no"}, {"proof" => []}, {"proof" => ["hearsay"]}, {"test" => "test_x"}, {"color" => "red"}].each do |change|
      assert_raises(ArgumentError, change.inspect) { Conformance::Exclusion.new(good.merge(change)) }
    end
    assert Conformance::Exclusion.new(good.merge("ruby" => ">= 3.0")).applies?("epoll")
    refute Conformance::Exclusion.new(good.merge("ruby" => "< 3.0")).applies?("epoll")
    refute Conformance::Exclusion.new(good.merge("engine" => "poll")).applies?("epoll")
  end

  def test_the_source_must_be_that_of_the_running_ruby
    FileUtils.rm(File.join(@folder, "version.h"))
    File.write(File.join(@folder, "version.h"), "#define RUBY_VERSION_TEENY 99\n")
    error = assert_raises(Conformance::SourceTree::Missing) { Conformance::SourceTree.new(@folder) }
    assert_includes error.message, ".99, but Ruby #{RUBY_VERSION} is running"
    error = assert_raises(Conformance::SourceTree::Missing) { Conformance::SourceTree.new(File.join(@folder, "test")) }
    assert_match(/no source tree of Ruby/, error.message)
  end

  private

  # Runs a test class with this body.
  def judge(body, exclude: {}, **)
    File.write(File.join(@folder, FILE), "require 'test/unit'\nclass TestSample < Test::Unit::TestCase\n#{body}\nend\n")
    run_file(exclude.map { |test, proof|
      Conformance::Exclusion.new("file" => FILE, "test" => "TestSample##{test}", "reason" => "an example of one", "proof" => proof, "limit" => 5)
    }, **)
  end

  def run_file(exclusions = [], ci: false, **)
    tree = Conformance::SourceTree.new(@folder)
    suite = Conformance::Suite.new(tree, {"name" => "Sample", "files" => [FILE], "ci" => [FILE], "not_in_ci" => ["TestSample#test_b"]}, ci:, only: [])
    @run = Conformance::FileRun.new(tree, suite, FILE, exclusions:, proofs: Conformance::Proofs.new, extensions: @folder, **).call
  end

  def kinds = @run.verdicts.to_h { |verdict| [verdict.test.delete_prefix("TestSample#"), verdict.kind] }

  def reason_of(test) = @run.verdicts.find { |verdict| verdict.test.end_with?(test) }.message
end
