# frozen_string_literal: true

require "test_helper"
require "support/suite/failure"

# The line of a failed test.
class SuiteFailureTest < Minitest::Test
  Failure = NeverBlockTest::Suite::Failure

  def test_a_test_has_its_seed_and_its_command
    failure = failed(variables: {"NEVERBLOCK_ENGINE" => "uring", "NEVERBLOCK_TEST_FAST" => nil})
    assert_equal "ATest#test_x: Expected 1 (seed 7; NEVERBLOCK_ENGINE=uring bin/ruby -Itest test/unit/a_test.rb -n 'ATest#test_x' --seed 7)", failure.to_s
    assert_equal "ATest#test_x: Expected 1 (seed 7; bin/ruby -Itest test/unit/a_test.rb -n 'ATest#test_x' --seed 7; by itself it passes 2 of 3 times)",
      failed.rerun(2, 3).to_s
  end

  def test_another_build_of_the_extension_is_named
    command = failed(variables: {"NEVERBLOCK_ENGINE" => "poll", "NEVERBLOCK_TEST_LIBRARY" => "/a b/lib"}).to_s
    assert_includes command, "NEVERBLOCK_ENGINE=poll NEVERBLOCK_TEST_LIBRARY=/a\\ b/lib bin/ruby -I/a\\ b/lib -Itest test/unit/a_test.rb"
  end

  def test_a_name_with_quotes
    assert_includes failed(test: "ATest#test_it's").to_s, " -n ATest\\#test_it\\'s --seed 7"
  end

  def test_a_run_has_its_message_only
    refute_predicate Failure.new(message: "ended badly"), :test?
    assert_equal "ended badly", Failure.new(message: "ended badly").to_s
  end

  def test_a_long_message_is_cut_and_the_command_is_not
    text = failed(message: "a\n" * 1000).to_s
    assert_match(/\A(a ){170} … \(seed 7; .* --seed 7\)\z/, text)
  end

  private

  def failed(**values) = Failure.new(message: "ATest#test_x: Expected 1", file: "test/unit/a_test.rb", test: "ATest#test_x", seed: 7, **values)
end
