# frozen_string_literal: true

# Ways to answer, ways to be an action, and leaders that end early: a part of checks.rb.
require_relative "action_caching_case"
require_relative "app/responses"

class ActionCachingResponses < ActionCachingCase
  def setup
    super
    settings.guard = :raise
  end

  def test_what_is_stored_and_what_not
    {"streamed" => [200, 2], "redirected" => [302, 2], "created" => [201, 2], "empty" => [200, 1], "none" => [204, 2], "nothing" => [200, 1],
     "implicit" => [200, 1], "fragments" => [200, 1]}.each do |name, expected|
      answers = Array.new(2) { get("/responses/#{name}") && [status, headers["content-type"], headers["location"]] }
      assert_equal expected, [status, calls[name]], name
      assert_equal 1, answers.uniq.size, name
    end
    assert_equal 1, calls["part"]
    2.times { get "/overriding/missing_action" }
    assert_equal "missing_action 1 missing_action", body
    2.times { get("/live") && assert_equal("live", body) }
    assert_equal 2, calls["live"]
    2.times { assert_raises(AbstractController::DoubleRenderError) { get "/responses/twice" } }
  end

  def test_formats
    accepts = ["text/html", "application/json", "text/html,application/xhtml+xml,*/*;q=0.8", "*/*", "application/json"]
    types = accepts.map { |accept| get("/responses/typed", headers: {"Accept" => accept}) && [response.media_type, body] }
    html, json = ["text/html", "html"], ["application/json", {format: "json"}.to_json]
    assert_equal [html, json, html, html, json], types
    get "/responses/typed.json"
    assert_equal json, [response.media_type, body]
    2.times { get("/responses/typed", xhr: true, headers: {"Accept" => "text/javascript"}) && assert_equal("js", body) }
    2.times { assert_raises(ActionController::UnknownFormat) { get "/responses/typed", headers: {"Accept" => "image/png"} } }
    2.times { assert_raises(Mime::Type::InvalidMimeType) { get "/responses/typed", headers: {"Accept" => "text/"} } }
  end

  def test_subclasses
    2.times { get "/inheriting/inherited" }
    assert_equal "inherited 1 InheritingController", body
    get "/responses/inherited"
    assert_equal "inherited 2 ResponsesController", body
    2.times { get "/inheriting/own" }
    assert_equal 1, calls["own"]
    refute_includes ResponsesController.neverblock_cached_actions, "own"
    assert_raises(NeverBlock::ActionCaching::PersonalError) { get "/overriding/inherited" }
  end

  def test_no_method_of_action_caching_is_an_action
    get "/responses/inherited"
    methods = [ResponsesController, InheritingController, CrossingApi].flat_map { |one| one.clear_action_methods! || one.action_methods.to_a }
    assert_empty methods & %w[fresh_when current_user process_action send_action flash purge_tag]
  end

  def test_a_validator_of_the_user_is_noticed
    assert_raises(NeverBlock::ActionCaching::PersonalError) { get "/responses/tagged_by_user?user=ann" }
  end

  def test_a_session_that_a_filter_resets
    settings.guard = :skip
    2.times { get("/responses/resets?reset=1") && assert_equal(200, status) }
    get "/crossings/sign?name=ann"
    get "/responses/resets?reset=1"
    assert_equal 200, status
  end

  def test_an_app_without_sessions
    2.times do
      answer = ResponsesController.action(:symbol).call(Rack::MockRequest.env_for("/"))
      assert_equal [200, "symbol 1 "], [answer[0], answer[2].each.to_a.join]
    end
    disabled = Rack::MockRequest.env_for("/")
    ActionDispatch::Request::Session.disabled(ActionDispatch::Request.new(disabled)).then { |session| disabled["rack.session"] = session }
    assert_equal 200, ResponsesController.action(:symbol).call(disabled)[0]
  end

  def test_head_has_the_headers_of_get
    get "/responses/implicit"
    get "/responses/implicit"
    names = %w[content-type etag cache-control vary]
    first = headers.to_h.values_at(*names)
    head "/responses/implicit"
    assert_equal [200, "", first], [status, body, headers.to_h.values_at(*names)]
    assert_equal 1, calls["implicit"]
  end

  def test_both_conditions
    get "/pages/validated"
    etag, modified = headers.to_h.values_at("etag", "last-modified")
    {[etag, modified] => 304, [etag, nil] => 304, [nil, modified] => 304, ['"other"', modified] => 200,
     [etag, Time.utc(2020).httpdate] => 304, ["*", nil] => 304, [%("x", #{etag}), nil] => 304, ["garbage", "garbage"] => 200}.each do |(tag, time), expected|
      get "/pages/validated", headers: {"If-None-Match" => tag, "If-Modified-Since" => time}.compact
      stored = status
      assert_equal expected, stored, [tag, time].inspect
    end
    assert_equal 1, calls["validated"]
  end

  def test_a_leader_that_is_cancelled
    assert_equal ["waiting 2 "] * 5, bodies_after(nil) { |leader| leader.cancel }
  end

  def test_a_leader_that_is_too_slow
    assert_equal ["waiting 2 "] * 5, bodies_after(0.05) { nil }
  end

  def test_a_leader_in_a_thread_that_is_killed
    gate, entered = Thread::Queue.new, Thread::Queue.new
    ApplicationController.steps["waiting"] = -> { (entered << 1) && gate.pop if ApplicationController.calls["waiting"] == 1 }
    leader = Thread.new { open_session.get("/responses/waiting") }
    entered.pop
    others = Array.new(3) { Thread.new { open_session.tap { |one| one.get("/responses/waiting") }.body } }
    Thread.pass until others.all? { |one| one.status == "sleep" }
    leader.kill
    assert_equal [true] * 3, others.map { |one| one.value.match?(/\Awaiting [234] \z/) }
  end

  def test_a_functional_test
    test = Class.new(ActionController::TestCase) { tests ResponsesController }.new("x")
    test.instance_variable_set(:@routes, ActionCachingApp.routes)
    test.setup_controller_request_and_response
    bodies = Array.new(2) { test.get(:symbol).body }
    assert_equal ["symbol 1 "], bodies.uniq
    test.get(:symbol, session: {name: "ann"})
    assert_equal 2, calls["symbol"]
  end

  private

  # What others get who wait for a request that ends early.
  def bodies_after(limit)
    gate, entered = Thread::Queue.new, Thread::Queue.new
    ApplicationController.steps["waiting"] = -> { (entered << 1) && gate.pop if ApplicationController.calls["waiting"] == 1 }
    NeverBlock.run do |scope|
      leader = scope.spawn do
        open_session.get("/responses/waiting", env: {"test.limit" => limit})
      rescue Timeout::Error
        nil
      end
      entered.pop
      others = Array.new(5) { scope.spawn { open_session.tap { |one| one.get("/responses/waiting") }.body } }
      NeverBlock.pass
      yield leader
      others.map(&:value)
    end
  end
end
