# frozen_string_literal: true

require "test_helper"
require "support/suite/declarations"
require "tempfile"

# Declarations of test files and marks of tests (test/support/suite/declarations.rb, test/support/marks.rb).
class SuiteMarksTest < Minitest::Test
  Declarations = NeverBlockTest::Suite::Declarations
  Marks = NeverBlockTest::Marks

  # Tests that the runner never starts.
  class Sample < Minitest::Test
    def self.runnable_methods = []

    def test_plain = pass

    slow "it sleeps"
    def test_slow = pass

    chaos "random numbers"
    def test_chaos = pass

    slow "a mark waits for a test"
    def helper = nil

    define_method(:test_made) { pass }
  end

  def test_marks_of_tests
    assert_equal [nil, :slow, :chaos, :slow], %i[test_plain test_slow test_chaos test_made].map { |name| Marks.of(Sample, name) }
    assert_nil Marks.of(Class.new(Sample), :test_plain)
    assert_equal :slow, Marks.of(Class.new(Sample), :test_slow), "inherited"
    assert_raises(ArgumentError) { Class.new(Minitest::Test) { slow "" } }
  end

  def test_tests_that_are_left_out
    {[nil, nil] => [true, true, true], ["1", nil] => [true, false, false], [nil, "no"] => [true, true, false]}.each do |(fast, chaos), wanted|
      with_environment("NEVERBLOCK_TEST_FAST" => fast, "NEVERBLOCK_TEST_CHAOS" => chaos) do
        assert_equal(wanted, [nil, :slow, :chaos].map { |mark| Marks.wanted?(mark) })
      end
    end
  end

  def test_a_file_that_declares_nothing
    assert_equal "one", Declarations.new(File.join(NeverBlockTest::ROOT, "test/unit/task_test.rb")).engines
    assert_nil Declarations.of("test/unit/task_test.rb").slow
  end

  def test_a_file_that_declares_something
    declared("# engines: every - it asks\n# chaos: it is random\n") do |declared|
      assert_equal ["every", "it is random", "it is random"], [declared.engines, declared.slow, declared.chaos]
    end
    declared("# slow: it starts Rails\n") { |declared| assert_equal ["it starts Rails", nil], [declared.slow, declared.chaos] }
    declared("# slow: it starts Rails (60 s)\n") { |declared| assert_equal 60, declared.seconds }
    declared("# serial: it measures\n") { |declared| assert_equal ["it measures", nil], [declared.serial, declared.slow] }
    declared("class X\n# slow: no declaration\n") { |declared| assert_nil declared.slow }
  end

  def test_a_declaration_that_is_wrong_is_named
    error = assert_raises(ArgumentError) { declared("# engines: two - it parses\n") }
    assert_match(/declares the engines "two - it parses": "every - " and the reason/, error.message)
  end

  private

  def declared(text)
    Tempfile.create(["sample", "_test.rb"]) do |file|
      file.write("# frozen_string_literal: true\n\n#{text}\nrequire \"test_helper\"\n")
      file.close
      declarations = Declarations.new(file.path)
      yield declarations if block_given?
    end
  end

  def with_environment(variables)
    before = variables.keys.to_h { |name| [name, ENV[name]] }
    ENV.update(variables)
    yield
  ensure
    ENV.update(before)
  end
end
