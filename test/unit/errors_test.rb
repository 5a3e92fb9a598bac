# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class ErrorsTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def errors
    NeverBlock.constants.map { |name| NeverBlock.const_get(name) }.select { |found| found.is_a?(Class) && found <= Exception }
  end

  def test_error_is_a_module_that_all_but_cancelled_include
    assert_instance_of Module, NeverBlock::Error
    assert_operator errors.size, :>, 5
    assert_equal [NeverBlock::Cancelled], errors.reject { |error| error.include?(NeverBlock::Error) }
  end

  def test_superclasses
    assert_operator NeverBlock::TimeoutError, :<, Timeout::Error
    assert_operator NeverBlock::ConfigurationError, :<, ArgumentError
    assert_equal Exception, NeverBlock::Cancelled.superclass
    (errors - [NeverBlock::Cancelled]).each { |error| assert_operator error, :<, StandardError }
  end

  def test_rescuing_the_module
    caught = begin
      in_run { NeverBlock.timeout(1) { sleep } }
    rescue NeverBlock::Error => error
      error
    end
    assert_kind_of NeverBlock::TimeoutError, caught
  end

  def test_a_resource_limit_names_limit_and_remedy
    error = NeverBlock::ResourceLimitError.fibers(31_000, RuntimeError.new("can't set a guard page"))
    assert_match(/31000 .*vm\.max_map_count.*can't set a guard page.*FiberPool.*sysctl -w vm\.max_map_count/, error.message)
    refute_match(/\[\]/, NeverBlock::ResourceLimitError.fibers(1, nil).message)
  end

  # ---- Failure ----
  def test_attach
    first, second, third = Array.new(3) { |n| RuntimeError.new(n.to_s) }
    assert_same first, NeverBlock::Failure.attach(first, [second])
    assert_equal [second], first.errors
    NeverBlock::Failure.attach(first, [third, second, first])
    assert_equal [second, third], first.errors
    assert_empty NeverBlock::Failure.attach(RuntimeError.new, []).errors
  end

  def test_attach_skips_frozen_exceptions_and_own_errors_methods
    frozen = RuntimeError.new.freeze
    assert_same frozen, NeverBlock::Failure.attach(frozen, [RuntimeError.new])
    refute_respond_to frozen, :errors
    own = Class.new(StandardError) { def errors = :own }.new
    assert_equal :own, NeverBlock::Failure.attach(own, [RuntimeError.new]).errors
  end

  def test_an_engine_that_does_not_exist
    error = assert_raises(NeverBlock::ConfigurationError) { NeverBlock::Scheduler.new(engine: "kqueue") }
    assert_match(/"kqueue".*NEVERBLOCK_ENGINE.*no such engine exists\. Choose one of .*poll/, error.message)
  end

  def test_no_handler_prints_cancelled
    _, printed = capture_io { in_run { |scope| parked(scope.spawn { sleep }).cancel } }
    assert_empty printed
  end
end
