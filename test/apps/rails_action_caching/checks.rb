# frozen_string_literal: true

# Action caching, in a Rails app of this process: test/programs/rails_action_caching_test.rb runs it with each Rails'
# gems.
require_relative "action_caching_case"
require_relative "crossing_checks"
require_relative "attack_checks"
require_relative "response_checks"

class ActionCachingChecks < ActionCachingCase
  def test_a_page_is_rendered_once
    encodings = Array.new(3) do
      get "/pages/plain"
      assert_equal ["plain 1 ", 200], [body, status]
      body.encoding
    end
    assert_equal 1, encodings.uniq.size
    assert_match(/\A\d+\z/, response.headers["age"])
    assert_equal "text/plain; charset=utf-8", response.headers["content-type"]
  end

  def test_a_page_in_words_of_all_languages
    ApplicationController.steps["own"] = -> { render plain: "größer, größte, 最大" }
    assert_equal ["größer, größte, 最大"], Array.new(2) { get("/pages/own") && body.dup.force_encoding("UTF-8") }.uniq
    assert_equal 1, calls["own"]
  end

  def test_filters_run_for_each_request
    values = Array.new(3) { get("/pages/plain") && response.headers["x-filter"] }
    assert_equal 3, values.uniq.size
  end

  def test_the_browser_has_304_without_the_action
    get "/pages/plain"
    etag = response.headers["etag"]
    get "/pages/plain", headers: {"If-None-Match" => etag}
    assert_equal [304, "", etag], [status, body, response.headers["etag"]]
    get "/pages/plain", headers: {"If-None-Match" => 'W/"other"'}
    assert_equal [200, "plain 1 "], [status, body]
    get "/pages/validated"
    assert_equal "validated 1 ", body
    get "/pages/validated", headers: {"If-Modified-Since" => Time.utc(2026, 1, 2).httpdate}
    assert_equal 304, status
    assert_equal 1, calls["validated"]
  end

  def test_another_worker_has_the_same_store
    get "/pages/plain"
    etag = response.headers["etag"]
    reader, writer = IO.pipe
    child = fork do
      get "/pages/plain", headers: {"If-None-Match" => etag}
      writer.write([status, calls["plain"]].join(" "))
      exit!(0)
    end
    writer.close
    Process.wait(child)
    assert_equal "304 1", reader.read
  end

  def test_the_lifetime
    2.times { get "/pages/declared" }
    assert_equal ["declared 1 ", "max-age=60, public"], [body, response.headers["cache-control"]]
    2.times { get "/pages/undeclared" }
    assert_equal "undeclared 2 ", body
    2.times { get "/pages/refused" }
    assert_equal 2, calls["refused"]
    get "/pages/short"
    get "/pages/short" until body == "short 2 "
  end

  def test_conditions
    2.times { get "/pages/chosen" }
    assert_equal 1, calls["chosen"]
    [{params: {draft: "1"}}, {params: {off: "1"}}, {headers: {"X-Preview" => "1"}}].each do |request|
      calls.clear
      2.times { get "/pages/chosen", **request }
      assert_equal 2, calls["chosen"], request.to_s
    end
  end

  def test_the_log_says_what_became_of_a_request
    lines = logged do
      2.times { get "/pages/plain" }
      get "/pages/cookie"
      get "/pages/chosen", params: {off: "1"}
    end
    assert_equal ["miss; stored for 60.0 s", "hit", "miss; the response can't be stored: set_cookie",
      "not used, since if: or unless: says so"], lines.grep(/Action cache: /) { $'.chomp }
  end

  def test_what_is_not_stored
    {"streamed" => nil, "file" => nil, "missing" => 404, "cookie" => nil}.each do |name, expected|
      3.times { get "/pages/#{name}" }
      assert_equal [expected || 200, 3], [status, calls[name]], name
    end
    3.times { assert_raises(IOError) { get "/pages/failing" } }
    assert_equal 3, calls["failing"]
    3.times {
      begin
        post "/pages/plain", headers: {"Sec-Fetch-Site" => "same-origin"}
      rescue
        nil
      end
    }
    get "/pages/own", headers: {"Range" => "bytes=0-1"}
    get "/pages/own"
    assert_equal "own 2 ", body
  end

  def test_head
    head "/pages/plain"
    assert_equal [200, 1], [status, calls["plain"]]
    get "/pages/plain"
    head "/pages/plain"
    assert_equal [200, 2], [status, calls["plain"]]
  end

  def test_the_key
    ["/pages/plain", "/pages/plain?a=1", "/pages/plain?a=2", "/pages/plain?a=1&b=2", "/pages/plain/1"].each { |path| get path }
    get "/pages/plain", headers: {"Host" => "other.example"}
    get "/pages/plain", headers: {"Accept" => "application/xml"}
    https!
    get "/pages/plain"
    assert_equal 8, calls["plain"]
    https!(false)
    get "/pages/varied?a=b"
    I18n.with_locale(:de) { get "/pages/varied?a=b" } if I18n.available_locales.include?(:de)
    get "/pages/varied?a=b"
    assert_equal "varied 1 ", body
    settings.revision = "r2"
    get "/pages/plain"
    assert_equal 9, calls["plain"]
  ensure
    settings.revision = nil
  end

  def test_what_belongs_to_one_user_is_not_stored
    %w[form nonce flashed reading jar raw].each do |name|
      2.times { get "/pages/#{name}" }
      assert_equal 2, calls[name], name
    end
  end

  def test_what_belongs_to_one_user_raises_in_development
    settings.guard = :raise
    {"form" => "form_authenticity_token", "nonce" => "content_security_policy_nonce", "flashed" => "flash",
     "reading" => "session", "jar" => "cookies", "raw" => "session"}.each do |name, used|
      error = assert_raises(StandardError) { get "/pages/#{name}" }
      error = error.cause while error.cause
      assert_kind_of NeverBlock::ActionCaching::PersonalError, error, name
      assert_match(/\APagesController##{name} is cached, and uses #{used}, which is one user's/, error.message)
      assert_match(/app\.rb:\d+/, error.message) unless %w[form nonce flashed].include?(name)
    end
    get "/pages/plain"
    assert_equal 200, status
  end

  def test_a_message_in_the_flash_is_shown_once_and_not_stored
    settings.guard = :raise
    get "/pages/noticed"
    assert_equal "noticed 1 ", body
    other = open_session
    2.times { other.get("/pages/noticed") && assert_equal("noticed 1 ", other.body) }
    get "/pages/notify/ann"
    follow_redirect!
    assert_equal "noticed 2 saved by ann", body
    other.get "/pages/noticed"
    get "/pages/noticed"
    assert_equal ["noticed 1 "] * 2, [body, other.body]
  end

  def test_it_raises_without_caching_too
    settings.guard = :raise
    ActionController::Base.perform_caching = false
    assert_raises(NeverBlock::ActionCaching::PersonalError) { get "/pages/reading" }
    2.times { get "/pages/plain" }
    assert_equal "plain 2 ", body
  ensure
    ActionController::Base.perform_caching = true
  end

  def test_authentication_comes_first
    as("ann") { |session| session.get("/users/board") }
    get "/users/board"
    assert_equal [302, nil], [status, body[/board/]]
  end

  def test_a_shared_page_is_one_for_all_users
    bodies = %w[ann bob eve].map { |user| as(user) { |session| session.get("/users/board") } }
    assert_equal ["board 1 "], bodies.uniq
  end

  def test_a_shared_page_that_uses_a_user_is_not_stored
    %w[greeting direct current].each do |name|
      bodies = %w[ann bob ann].map { |user| as(user) { |session| session.get("/users/#{name}") } }
      assert_equal ["#{name} 1 ann", "#{name} 2 bob", "#{name} 3 ann"], bodies
    end
    settings.guard = :raise
    %w[greeting direct current].each do |name|
      assert_raises(NeverBlock::ActionCaching::PersonalError) { as("ann") { |session| session.get("/users/#{name}") } }
    end
  end

  def test_a_page_for_each_user
    bodies = %w[ann bob ann bob].map { |user| as(user) { |session| session.get("/users/mine") } }
    assert_equal ["mine 1 ann", "mine 2 bob", "mine 1 ann", "mine 2 bob"], bodies
    2.times { as("ann") { |session| session.get("/users/unowned") } }
    assert_equal 2, calls["unowned"]
  end

  def test_a_page_behind_a_login_is_not_stored_by_default
    bodies = %w[ann bob].map { |user| as(user) { |session| session.get("/users/default") } }
    assert_equal ["default 1 ", "default 2 "], bodies
    2.times { get "/pages/plain", headers: {"Authorization" => "Basic YTpi"} }
    assert_equal 2, calls["plain"]
  end

  def test_what_a_page_depends_on
    as("ann") do |session|
      [{}, {"Turbo-Frame" => "a"}, {"Turbo-Frame" => "b"}, {"X-Requested-With" => "XMLHttpRequest"}, {"Turbo-Frame" => "a"}]
        .each { |headers| session.get("/users/parts", headers:) }
    end
    assert_equal 4, calls["parts"]
    as("ann") { |session| 2.times { session.get("/users/depends") } }
    assert_equal 2, calls["depends"], "a Vary that the key does not have"
    as("ann") { |session| Time.use_zone("Tokyo") { session.get("/users/board") } }
    as("ann") { |session| Time.use_zone("UTC") { session.get("/users/board") } }
    assert_equal 2, calls["board"]
  end

  def test_tags
    get "/pages/tagged/1"
    get "/pages/tagged/2"
    NeverBlock::ActionCaching.purge_tag("page-1")
    get "/pages/tagged/1"
    assert_equal "tagged 3 ", body
    get "/pages/tagged/2"
    assert_equal "tagged 2 ", body
    NeverBlock::ActionCaching.purge_tag("pages")
    get "/pages/tagged/2"
    assert_equal "tagged 4 ", body
    assert_raises(ArgumentError) { NeverBlock::ActionCaching.purge_tag(:pages) }
  end

  def test_a_purge_while_the_action_runs
    ApplicationController.steps["tagged"] = -> { NeverBlock::ActionCaching.purge_tag("pages") if ApplicationController.calls["tagged"] == 1 }
    3.times { get "/pages/tagged/1" }
    assert_equal "tagged 2 ", body
  end

  def test_all_caches_of_the_process_are_purged
    get "/pages/tagged/1"
    NeverBlock::Cache.purge_tag("pages")
    get "/pages/tagged/1"
    assert_equal "tagged 2 ", body
  end

  def test_concurrent_misses_are_one_call
    gate = Thread::Queue.new
    ApplicationController.steps["plain"] = -> { gate.pop }
    bodies = NeverBlock.run do |scope|
      clients = Array.new(20) { scope.spawn { open_session.tap { |session| session.get("/pages/plain") }.body } }
      sleep 0.001 until gate.num_waiting == 1
      NeverBlock.pass
      gate.close
      clients.map(&:value)
    end
    assert_equal [["plain 1 "], 1], [bodies.uniq, calls["plain"]]
  end

  def test_concurrent_requests_of_a_page_that_is_not_stored
    bodies = NeverBlock.run do |scope|
      Array.new(20) { |n| scope.spawn { as("user#{n}") { |session| session.get("/users/greeting") } } }.map(&:value)
    end
    assert_equal Array.new(20) { |n| "user#{n}" }, bodies.map { |text| text[/\w+\z/] }
  end

  def test_a_store_that_fails_is_an_empty_one
    store = Rails.cache
    broken = Object.new
    def broken.method_missing(*) = raise(IOError, "the store is down")

    def broken.respond_to_missing?(*) = true
    settings.store = broken
    2.times { get "/pages/tagged/1" }
    assert_equal "tagged 2 ", body
    settings.store = store
    store.write(store_key = key_of("/pages/plain"), {"format" => 1, "body" => 5})
    get "/pages/plain"
    assert_equal "plain 2 ", body, "what is damaged is not used"
    assert store.read(store_key)["until"]
  ensure
    settings.store = nil
  end

  def test_wrong_options
    {{expires: 1} => /has no option :expires; its options are/, {expires_in: -1} => /expires_in: -1 is not a number of seconds/,
     {shared: 1} => /shared: 1 is neither/, {shared: true, per: -> {}} => /use one of them/, {per: 5} => /per: 5 is neither/,
     {tags: [5]} => /tags: 5 is not a String/}.each do |options, message|
      error = assert_raises(NeverBlock::ConfigurationError) { PagesController.caches_action(:x, **options) }
      assert_match(message, error.message)
    end
    assert_raises(NeverBlock::ConfigurationError) { PagesController.caches_action }
    assert_raises(NeverBlock::ConfigurationError) { Class.new { include NeverBlock::ActionCaching } }
  end

  private

  # The key under which a request is stored.
  def key_of(path)
    get path
    stored_keys.first || flunk("nothing is stored")
  end

  def as(user, &) = logged_in("/users/login", {user:}, &)
end
