# frozen_string_literal: true

require "test_helper"
require "neverblock"

# Checks of arguments, directives and options.
class ValueTypeTest < Minitest::Test
  ValueType = NeverBlock::ValueType

  def test_a_setting_of_an_app
    assert_equal 3, ValueType.count.setting(3) { "size:" }
    error = assert_raises(NeverBlock::ConfigurationError) { ValueType.count.setting(-3) { "size:" } }
    assert_equal "size: -3 is not a whole number, 0 or more", error.message[/\A.*? more/]
  end

  def test_a_value_that_fits_is_kept
    assert_equal [3, nil, 0, 65_536, "a"], [ValueType.count(least: 1).check(3), ValueType.time_limit.check(nil), ValueType.seconds(zero: true).check(0), ValueType.bytes.check("64 KiB"), ValueType.text.check("a")]
    assert_equal [3, nil, 2.5, :a, true], [ValueType.count.check_text("3"), ValueType.count.optional.check_text("nil"), ValueType.time_limit.check_text("2.5"), ValueType.one_of(:a, :b).check_text("a"), ValueType.flag.check_text("yes")]
  end

  def test_a_value_that_does_not_is_told_with_what_is_allowed_and_the_remedy
    assert_equal "size: 0 is not a whole number, 1 or more. For example: size: 5", refusal { ValueType.count(least: 1).check(0, "For example: size: 5") { "size:" } }
    assert_equal "size: \"x\" is not a whole number, 1 or more", refusal { ValueType.count(least: 1).check_text("x") { "size:" } }
    assert_equal "on: :c is not one of :a, :b", refusal { ValueType.one_of(:a, :b).check(:c) { "on:" } }
  end

  def test_a_type_may_say_more
    type = ValueType.new("an even number") { |value| value.even? ? value : raise(ValueType::Invalid, "it is odd") }
    assert_equal "n 3: it is odd. Add one", refusal { type.check(3, "Add one") { "n" } }
  end

  def test_valid_limits
    limit = ValueType.time_limit
    [nil, 0, 1.5, 2r, Float::INFINITY].each { |value| assert_equal [value], [limit.take(value)] }
    [-1, "5", Float::NAN, 1i, false].each { |value| assert_same ValueType::REFUSED, limit.take(value) }
  end

  # Its constants are used in every loop.
  def test_arguments_are_checked_in_a_ractor
    outcome = run_ruby(<<~RUBY)
      require "neverblock"
      ractor = Ractor.new do
        NeverBlock::Options.seconds("timeout", -1)
      rescue ArgumentError => error
        error.message
      end
      puts ractor.respond_to?(:value) ? ractor.value : ractor.take
    RUBY
    assert_equal "timeout: -1 is not a number of seconds, 0 or more, or nil for no limit\n", outcome.stdout
  end

  private

  include NeverBlockTest::Helpers

  def refusal(&) = assert_raises(ArgumentError, &).message
end
