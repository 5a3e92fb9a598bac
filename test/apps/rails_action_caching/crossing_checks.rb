# frozen_string_literal: true

# Whatever an action reads of one client never reaches another client: a part of checks.rb.
require_relative "action_caching_case"
require_relative "app/crossings"

class ActionCachingCrossings < ActionCachingCase
  OF_CLIENT = {
    "kept" => "Cookie", "rack_kept" => "Cookie", "rack_cookies" => "Cookie", "cookie_header" => "Cookie", "jar_built" => "Cookie",
    "partial" => "Cookie", "child" => "Cookie", "blank" => "Cookie", "list" => "Cookie", "person" => "Cookie",
    "agent" => "User-Agent", "accept_language" => "Accept-Language", "forwarded" => "X-Forwarded-For",
    "address" => "X-Forwarded-For", "authorization" => "Authorization", "region" => "X-Region"
  }.freeze

  OF_CLIENT.each do |action, header|
    define_method(:"test_no_crossing_by_#{action}") do
      shown = %w[ann bob].zip(%w[1.1.1.1 2.2.2.2]).map do |name, address|
        value = {"Cookie" => "name=#{name}", "X-Forwarded-For" => address}.fetch(header, name)
        open_session.then { |client| client.get("/crossings/#{action}", headers: {header => value}) && [client.body, *client.headers.values].join }
      end
      refute_match(/ann|1\.1\.1\.1/, shown.last)
      assert_match(/ann|1\.1\.1\.1/, shown.first, "the first client did not see it either")
    end
  end

  def test_the_error_names_what_where_and_a_remedy
    settings.guard = :raise
    {"partial" => ["cookies", "app/crossings.rb:7"], "token" => ["form_authenticity_token", "layouts/crossings.html.erb:1"],
     "script" => ["content_security_policy_nonce", "script.html.erb:1"], "agent" => ["the header User-Agent", "app/crossings.rb"],
     "address" => ["the header Remote-Addr", "app/crossings.rb"], "authorization" => ["the header Authorization", "app/crossings.rb"],
     "person" => ["PersonCurrent.user", "app/crossings.rb"], "session_id" => ["session", "app/crossings.rb"],
     "masked" => ["form_authenticity_token", "app/crossings.rb"], "owned_form" => ["form_authenticity_token", "inline|app/crossings.rb"]}.each do |name, (what, where)|
      error = assert_raises(NeverBlock::ActionCaching::PersonalError, name) { get "/crossings/#{name}" }
      assert_match(/\ACrossingsController##{name} is cached, and uses #{what}, which is one user's \(.*(?:#{where})/, error.message)
      assert_match(/\)\. [A-Z].*\.\z/, error.message, "a remedy")
    end
  end

  def test_a_rescue_of_the_controller_can_render
    settings.guard = :raise
    CrossingsController.rescue_from(NeverBlock::ActionCaching::PersonalError) { render plain: "rescued" }
    get "/crossings/agent"
    assert_equal "rescued", body
  ensure
    CrossingsController.rescue_handlers = []
  end

  def test_it_is_logged_once_for_each_action
    lines = []
    log, settings.log = settings.log, ->(line) { lines << line }
    3.times { get "/crossings/logged" }
    assert_equal 1, lines.size
    assert_match(/CrossingsController#logged is cached, and uses session, .* is not stored/, lines.first)
  ensure
    settings.log = log
  end

  def test_a_page_of_an_app_without_protection_from_forgery_is_stored
    2.times { get "/crossings/tokenless" }
    assert_equal 1, calls["tokenless"]
  end

  def test_plain_cookies_that_a_filter_reads_belong_to_the_key
    bodies = %w[ann bob ann bob].map { |name| with_cookie("name=#{name}", "/crossings/kept") }
    assert_equal ["kept 1 ann", "kept 2 bob", "kept 1 ann", "kept 2 bob"], bodies
    long = "x" * 300
    2.times { with_cookie("name=#{long}", "/crossings/kept") }
    assert_equal 4, calls["kept"]
  end

  def test_signed_cookies_that_a_filter_reads_are_signs_of_a_user
    bodies = %w[ann bob].map { |name| open_session.then { |one| one.get("/crossings/sign?name=#{name}") && one.get("/crossings/signed") && one.body } }
    assert_equal ["signed 1 ann", "signed 2 bob"], bodies
    2.times { get "/crossings/signed" }
    assert_equal 3, calls["signed"], "clients without the cookie share a page"
  end

  def test_a_session_in_which_a_filter_finds_something_is_a_sign_of_a_user
    3.times { get "/crossings/empty_session" }
    assert_equal 1, calls["empty_session"]
    open_session.then { |one| one.get("/crossings/sign?name=ann") && 2.times { one.get("/crossings/empty_session") } }
    assert_equal 3, calls["empty_session"]
  end

  def test_a_header_that_vary_reads_is_allowed
    settings.guard = :raise
    bodies = ["Mobile a", "Other", "Mobile b", "Another"].map { |agent| get("/crossings/mobile", headers: {"User-Agent" => agent}) && body }
    assert_equal ["mobile 1 true", "mobile 2 false", "mobile 1 true", "mobile 2 false"], bodies
  end

  def test_what_forbids_to_store
    %w[no_store no_cache private_header jar_writes nonce_kept region].each do |action|
      2.times { get "/crossings/#{action}", headers: {"X-Region" => "south"} }
      assert_equal 2, calls[action], action
    end
    2.times { assert_match(/seen/, open_session.then { |one| one.get("/crossings/sets") && one.headers["set-cookie"].to_s }) }
    get "/crossings/silent"
    2.times { get "/crossings/silent?quiet=1" }
    assert_equal [3, "no-store"], [calls["silent"], headers["cache-control"]]
  end

  def test_headers_that_the_action_removes_and_that_filters_add_afterwards
    2.times { get "/crossings/framed" }
    assert_equal [1, nil], [calls["framed"], headers["x-frame-options"]]
    assert_equal 2, Array.new(2) { get("/crossings/after") && headers["x-after"] }.uniq.size
    assert_equal 1, calls["after"]
  end

  def test_what_browsers_and_other_caches_are_told
    get "/crossings/aged"
    first = headers.to_h
    get "/crossings/aged"
    assert_equal first.values_at("cache-control", "date"), headers.to_h.values_at("cache-control", "date")
    assert_equal "max-age=300, public, stale-if-error=3600, s-maxage=600", headers["cache-control"]
    assert_match(/\A\d+\z/, headers["age"])
    2.times { get "/crossings/tagged" }
    assert_equal "crossings", headers["cache-tag"]
  end

  def test_a_miss_is_stored_although_the_browser_has_the_page
    get "/crossings/fresh"
    conditions = {"If-None-Match" => headers["etag"], "If-Modified-Since" => headers["last-modified"]}
    Rails.cache.clear
    get "/crossings/fresh", headers: conditions
    assert_equal [304, "", conditions["If-None-Match"]], [status, body, headers["etag"]]
    get "/crossings/fresh"
    assert_equal [200, "fresh 2 "], [status, body]
    get "/crossings/fresh", headers: conditions
    assert_equal [304, 2], [status, calls["fresh"]]
  end

  def test_an_api_controller
    2.times { get "/api" }
    assert_equal %({"calls":1}), body
    get "/api", headers: {"If-None-Match" => headers["etag"]}
    assert_equal 304, status
    refute ActionController::API.method_defined?(:flash)
  end

  def test_what_is_stored_is_plain_data
    get "/crossings/aged"
    classes = ->(value) { [value.class, *((Enumerable === value) ? value.to_a.flatten.flat_map { |one| classes.call(one) } : [])] }
    assert_equal [Hash, String], classes.call(Rails.cache.read(stored_name)).uniq.sort_by(&:name)
  end

  def test_what_is_malformed_in_the_store_is_a_miss
    get "/crossings/aged"
    name = stored_name
    good = Rails.cache.read(name)
    bad = [5, "text", [], {}, good.except("body"), {**good, "headers" => {"a" => 1}}, {**good, "headers" => [["a", 5]]},
      {**good, "headers" => [["a"]]}, {**good, "control" => [["extras", "5"]]}, {**good, "control" => [["unknown", "5"]]},
      {**good, "at" => "soon"}, {**good, "until" => 5}, {**good, "tags" => [["a", nil]]}, {**good, "tags" => [["a", "b"]]},
      {**good, "form" => "0"}, {**good, "gone" => nil}, {**good, "body" => 5}, {**good, "vary" => []}]
    bad.each_with_index do |value, index|
      Rails.cache.write(name, value)
      get "/crossings/aged"
      assert_equal [200, "aged #{index + 2} "], [status, body], value.inspect[0, 200]
    end
  end

  def test_after_a_purge_no_request_waits_for_what_began_before
    gate, entered = Thread::Queue.new, Thread::Queue.new
    ApplicationController.steps["tagged"] = -> { (entered << 1) && gate.pop if ApplicationController.calls["tagged"] == 1 }
    bodies = NeverBlock.run do |scope|
      first = scope.spawn { open_session.tap { |one| one.get("/crossings/tagged") }.body }
      entered.pop
      NeverBlock::ActionCaching.purge_tag("crossings")
      second = scope.spawn { open_session.tap { |one| one.get("/crossings/tagged") }.body }
      second_body = second.value
      gate << 1
      [first.value, second_body]
    end
    assert_equal ["tagged 1 ", "tagged 2 "], bodies
    get "/crossings/tagged"
    assert_equal "tagged 2 ", body
  end

  # A store that loses connections says so, or only returns false.
  def test_a_purge_that_the_store_does_not_take
    get "/crossings/tagged"
    store = Rails.cache
    failing = false
    settings.store = SimpleDelegator.new(store).tap do |one|
      one.define_singleton_method(:write) { |*arguments, **options| failing ? false : store.write(*arguments, **options) }
    end
    get "/crossings/tagged"
    assert_equal "tagged 1 ", body
    failing = true
    assert_raises(NeverBlock::ActionCaching::Tags::Unpurged) { NeverBlock::ActionCaching.purge_tag("crossings") }
    get "/crossings/tagged"
    assert_equal "tagged 2 ", body, "this process uses no page with the tag"
    failing = false
    2.times { get "/crossings/tagged" }
    assert_equal "tagged 3 ", body, "the purge is made up for"
  ensure
    settings.store = nil
  end

  def test_an_error_of_one_request_is_not_another_ones
    gate = Thread::Queue.new
    ApplicationController.steps["plain"] = -> { gate.pop && raise(IOError, "only mine") if ApplicationController.calls["plain"] == 1 }
    NeverBlock.run do |scope|
      first = scope.spawn { assert_raises(IOError) { open_session.get("/pages/plain") } }
      NeverBlock.pass until gate.num_waiting == 1
      others = Array.new(5) { scope.spawn { open_session.tap { |one| one.get("/pages/plain") }.status } }
      NeverBlock.pass
      gate << 1
      first.value
      assert_equal [200] * 5, others.map(&:value)
    end
  end

  def test_an_action_that_asks_for_its_own_page
    ApplicationController.steps["plain"] = lambda do
      render plain: open_session_of_test.body if ApplicationController.calls["plain"] == 1
    end
    test = self
    PagesController.define_method(:open_session_of_test) { test.open_session.tap { |one| one.get("/pages/plain") } }
    get "/pages/plain"
    assert_equal "plain 2 ", body
  ensure
    PagesController.remove_method(:open_session_of_test)
  end

  private

  def with_cookie(cookie, path) = open_session.then { |one| one.get(path, headers: {"Cookie" => cookie}) && one.body }

  def stored_name
    stored_keys.first || flunk("nothing is stored")
  end
end
