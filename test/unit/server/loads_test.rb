# frozen_string_literal: true

require "test_helper"
require "neverblock/server"

# The results of loading an app, and the callers that wait for them.
class ServerLoadsTest < Minitest::Test
  def setup
    @loads = NeverBlock::Server::Loads.new
  end

  def test_a_load_answers_the_requests_before_its_begin
    before = @loads.ask
    @loads.begin
    after, joined = @loads.ask, @loads.join(false)
    @loads.over(:failed, "no way")
    assert_equal [[:failed, "no way"]] * 2, [before, joined].map { |answer| answer.pop(timeout: 0) }
    assert_equal [:failed, "no way"], @loads.join(false).pop(timeout: 0)
    assert_empty after
    last = @loads.join(true)
    @loads.begin
    assert_equal :loading, @loads.to_h[:result]
    @loads.over(:loaded, "all")
    assert_equal [[:loaded, "all"]] * 2, [after, last].map { |answer| answer.pop(timeout: 0) }
    assert_equal({result: :loaded, message: "all"}, @loads.to_h.except(:at))
  end

  def test_the_first_load_goes_on_from_the_start
    answer = @loads.join(false)
    assert_empty answer
    @loads.over(:loaded, "all")
    assert_equal [:loaded, "all"], answer.pop(timeout: 0)
  end

  def test_another_program_has_the_answer
    asked = @loads.ask
    @loads.begin
    more = @loads.ask
    @loads.pass_on
    assert([asked, more, @loads.ask, @loads.join(false)].all?(&:closed?))
    @loads.over(:failed, "it can't be started")
    assert_equal [:failed, "it can't be started"], @loads.join(false).pop(timeout: 0)
    refute_predicate @loads.ask, :closed?
  end

  def test_nothing_is_loaded_any_more
    asked = @loads.ask
    @loads.close("the end")
    assert_equal [[:failed, "the end"]] * 2, [asked, @loads.ask].map { |answer| answer.pop(timeout: 0) }
  end
end
