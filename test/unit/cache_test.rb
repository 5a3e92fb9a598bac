# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require "support/runs"
require "support/cached_app"
require "support/virtual_time"

# The middleware as a whole: what it asks the app for, and what each client gets.
class CacheTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::CachedApp

  def test_a_response_with_a_lifetime_is_stored
    cached { |env| ok("for all", "cache-control" => "max-age=60") }
    assert_equal ["for all"] * 2, Array.new(2) { get("/a").body }
    assert_equal 1, @calls
    assert_match(/\ANeverBlock; hit; ttl=(60|59)\z/, get("/a").headers["cache-status"])
    assert_equal "NeverBlock; fwd=uri-miss; fwd-status=200; stored", get("/b").headers["cache-status"]
  end

  def test_many_that_ask_at_the_same_time_cost_one_call
    cached { |_| ok("for all", "cache-control" => "max-age=60").tap { wait_here } }
    assert_equal ["for all"] * 100, together(100) { get("/a").body }
    assert_equal 1, @calls
  end

  # What is not for everybody: each client has its own, and all of them are under way at once.
  {
    "no cache-control" => {},
    "private" => {"cache-control" => "private, max-age=60"},
    "no-store" => {"cache-control" => "no-store, max-age=60"},
    "no-cache" => {"cache-control" => "no-cache", "etag" => '"1"'},
    "set-cookie" => {"cache-control" => "max-age=60", "set-cookie" => "id=1"},
    "vary: *" => {"cache-control" => "max-age=60", "vary" => "*"},
    "vary: cookie" => {"cache-control" => "max-age=60", "vary" => "cookie"},
    "status 403" => {:status => 403, "cache-control" => "max-age=60"}
  }.each do |name, headers|
    define_method(:"test_each_has_its_own_response_with_#{name.tr(" :*-", "_")}") do
      cached do |_|
        number = @calls
        wait_here
        NB.pass until number == 1 || @calls >= 20 # those that waited for the first are let go all at once
        ok("page #{number}", **headers)
      end
      assert_equal 20, together(20) { get("/a").body }.uniq.size
      assert_equal 20, @calls
      before = @calls
      assert_equal 20, together(20) { get("/a").body }.uniq.size
      assert_equal 20, @calls - before
      assert_equal 20, @most_at_once, "none of them has waited for another one"
    end
  end

  def test_requests_with_credentials_neither_get_nor_make_shared_responses
    cached { |env| ok("of #{env["HTTP_COOKIE"] || env["HTTP_AUTHORIZATION"] || "nobody"}", "cache-control" => "public, max-age=60") }
    assert_equal "of a=1", get("/a", "HTTP_COOKIE" => "a=1").body
    assert_equal "of nobody", get("/a").body
    assert_equal "of Basic x", get("/a", "HTTP_AUTHORIZATION" => "Basic x").body
    assert_equal "of nobody", get("/a").body
    assert_equal 3, @calls
    assert_equal "NeverBlock; fwd=bypass", get("/a", "HTTP_COOKIE" => "a=1").headers["cache-status"].sub("; fwd-status=200", "")
  end

  def test_a_response_for_each_language
    cached { |env| ok("in #{env["HTTP_ACCEPT_LANGUAGE"]}", "cache-control" => "max-age=60", "vary" => "Accept-Language").tap { wait_here } }
    languages = %w[en de fr]
    bodies = together(30) { |n| [languages[n % 3], get("/a", "HTTP_ACCEPT_LANGUAGE" => languages[n % 3]).body] }
    bodies.each { |language, body| assert_equal "in #{language}", body }
    assert_equal 3, @calls
    languages.each { |language| assert_equal "in #{language}", get("/a", "HTTP_ACCEPT_LANGUAGE" => language).body }
    assert_equal 3, @calls
  end

  def test_what_a_client_alone_says_does_not_reach_the_app
    seen = nil
    cached { |env| ok("x", "cache-control" => "max-age=60").tap { seen = env } }
    get("/a", "HTTP_X_FORWARDED_FOR" => "10.0.0.1", "HTTP_USER_AGENT" => "curl", "HTTP_IF_NONE_MATCH" => '"a"', "REMOTE_ADDR" => "10.0.0.1")
    assert_equal "0.0.0.0", seen["REMOTE_ADDR"]
    assert_empty seen.keys & %w[HTTP_X_FORWARDED_FOR HTTP_USER_AGENT HTTP_IF_NONE_MATCH]
  end

  def test_a_header_that_the_response_varies_on_reaches_the_app
    cached { |env| ok("for #{env["HTTP_USER_AGENT"]}", "cache-control" => "max-age=60", "vary" => "User-Agent") }
    assert_equal ["for phone", "for desk", "for phone"], %w[phone desk phone].map { |agent| get("/a", "HTTP_USER_AGENT" => agent).body }
    assert_equal 3, @calls, "one was made without the header"
  end

  # A client that can't decode it has no use for it.
  def test_an_encoded_response_that_does_not_say_so_depends_on_the_encodings
    cached { |env| ok("for #{env["HTTP_ACCEPT_ENCODING"]}", "cache-control" => "max-age=60", **{"content-encoding" => env["HTTP_ACCEPT_ENCODING"]}.compact) }
    bodies = ["gzip", "br", "gzip", nil].map { |codings| get("/a", **{"HTTP_ACCEPT_ENCODING" => codings}.compact).body }
    assert_equal ["for gzip", "for br", "for gzip", "for "], bodies
  end

  # An app that shows a header, and does not say so.
  def test_an_unusual_header_is_part_of_the_key
    cached { |env| ok("hello #{env["HTTP_X_NAME"]}", "cache-control" => "max-age=60") }
    assert_equal "hello <script>", get("/a", "HTTP_X_NAME" => "<script>").body
    assert_equal "hello ", get("/a").body
    assert_equal "hello <script>", get("/a", "HTTP_X_NAME" => "<script>").body
    assert_equal 2, @calls
  end

  def test_an_entry_of_an_outer_middleware_keeps_a_request_apart
    cached { |env| ok("of #{env["current_user"] || "nobody"}", "cache-control" => "max-age=60") }
    assert_equal ["of nobody", "of 7", "of nobody"], [nil, "7", nil].map { |user| get("/a", **{"current_user" => user}.compact).body }
  end

  def test_each_request_is_told_why_a_response_is_not_shared
    cached(details: true) { |_| ok("mine", "cache-control" => "private, max-age=60") }
    details = Array.new(3) { get("/a").headers["cache-status"][/detail=(\w+)/, 1] }
    assert_equal ["private"] * 3, details
    assert_includes @cache.explain(env_of("GET", "/a")).to_s, "its last response could not be shared (private)"
  end

  # Rails has both in env when the outermost middleware is called: settings, and later a request's state.
  def test_settings_of_rails_are_no_state
    cached { |env| ok("#{env["action_dispatch.cookies_serializer"]} #{env.key?("ROUTES_16_SCRIPT_NAME")}", "cache-control" => "max-age=60") }
    assert_equal "json true", get("/a", "action_dispatch.cookies_serializer" => "json", "ROUTES_16_SCRIPT_NAME" => "").body
    assert_equal 1, @cache.stats[:entries]
    %w[action_dispatch.cookies action_dispatch.request.flash_hash warden].each { |name| get("/b", name => {}) }
    get("/b", "rack.session" => {"user" => 7})
    assert_equal [5, 1], [@calls, @cache.stats[:entries]]
  end

  def test_an_app_that_raises_costs_two_calls
    cached do |_|
      wait_here
      raise IOError, "no such report"
    end
    errors = together(20) { assert_raises(IOError) { get("/a") }.message }
    assert_equal ["no such report"] * 20, errors
    assert_equal 2, @calls
  end

  def test_an_error_that_several_share_is_not_said_to_be_stored
    cached { |_| ok("away", status: 502).tap { wait_here } }
    statuses = together(5) { get("/a").headers["cache-status"] }
    assert_equal [2, 0], [@calls, @cache.stats[:entries]]
    assert_equal 3, statuses.grep(/collapsed/).size
    assert_empty statuses.grep(/stored/)
  end

  def test_an_app_that_raises_once_spoils_nobody_else
    cached do |_|
      wait_here
      raise IOError, "only once" if @calls == 1
      ok("for all", "cache-control" => "max-age=60")
    end
    results = together(20) do
      get("/a").body
    rescue IOError
      :raised
    end
    assert_equal({:raised => 1, "for all" => 19}, results.tally)
    assert_equal 2, @calls
  end

  def test_an_ill_app_is_asked_twice_and_nothing_is_stored
    cached { |_| ok("sorry", status: 503).tap { wait_here } }
    assert_equal [503] * 20, together(20) { get("/a").status }
    assert_equal 2, @calls
    get("/a")
    assert_equal 3, @calls
  end

  def test_an_ill_app_that_sets_cookies_shares_nothing
    cached { |_| ok("sorry #{@calls}", :status => 503, "set-cookie" => "id=#{@calls}").tap { wait_here } }
    assert_equal 20, together(20) { get("/a").headers["set-cookie"] }.uniq.size
    assert_equal 20, @calls
  end

  def test_a_stale_response_instead_of_an_error
    cached { |_| (@calls == 1) ? ok("good", "cache-control" => "max-age=60, stale-if-error=60", "age" => "61") : raise(IOError, "away") }
    assert_equal ["good"] * 3, Array.new(3) { get("/a").body }
    assert_equal 3, @calls
  end

  def test_a_stale_response_while_a_new_one_is_fetched
    in_run do
      cached { |_| ok("version #{@calls}", "cache-control" => "max-age=60, stale-while-revalidate=60", "age" => (@calls == 1) ? "61" : "0").tap { wait_here if @calls == 2 } }
      assert_equal ["version 1"] * 4, Array.new(4) { get("/a").body }
      assert_equal 2, @calls
      go_on
      pass_until("the new version") { get("/a").body == "version 2" }
      assert_equal 2, @calls
    end
  end

  def test_a_body_that_streams_belongs_to_one_client
    cached { |_| [200, {"cache-control" => "max-age=60"}, ->(stream) { stream << "part" }] }
    status, headers, stream = @cache.call(env_of("GET", "/a"))
    stream.call(out = [])
    assert_equal [200, ["part"], "NeverBlock; fwd=uri-miss; fwd-status=200"], [status, out, headers["cache-status"]]
    assert_equal 1, @calls
  end

  def test_a_fetch_under_way_is_not_waited_for_too_long
    NeverBlockTest::VirtualTime.during do |clock|
      in_run do |scope|
        cached(wait: 30) { |_| ok("page #{@calls}", "cache-control" => "max-age=60").tap { wait_here if @calls == 1 } }
        first = parked(scope.spawn { get("/a").body })
        before = clock.elapsed
        assert_equal "page 2", get("/a").body
        assert_in_delta 30, clock.elapsed - before, 1e-5
        go_on
        assert_equal "page 1", first.value
      end
    end
  end

  def test_more_than_may_wait_ask_the_app
    in_run do |scope|
      cached(max_waiting: 2) { |_| ok("page #{@calls}", "cache-control" => "max-age=60").tap { wait_here if @calls == 1 } }
      waiting = Array.new(2) { parked(scope.spawn { get("/a").body }) }
      assert_equal "page 2", get("/a").body
      go_on
      assert_equal ["page 1"] * 2, waiting.map(&:value)
    end
  end

  # How many at once call the app, of those that were let go.
  def test_those_that_are_let_go_do_not_storm_the_app
    cached(max_released: 3, uncollapsible_ttl: 0) do |_|
      wait_here
      NB.pass
      ok("page", "set-cookie" => "a=#{@calls}")
    end
    together(30) { get("/a") }
    assert_equal [30, 3], [@calls, @most_at_once]
  end

  def test_without_collapsing
    cached(collapse: false) { |_| ok("page", "cache-control" => "max-age=60").tap { wait_here } }
    together(5) { get("/a") }
    assert_equal 5, @calls
    get("/a")
    assert_equal 5, @calls, "it is stored nevertheless"
  end

  def test_a_url_that_can_be_shared_again
    cached { |_| ok("page", "cache-control" => (@calls == 1) ? "private" : "max-age=60") }
    get("/a")
    assert_equal 1, @cache.stats[:uncollapsible]
    get("/a")
    assert_equal 0, @cache.stats[:uncollapsible]
    2.times { get("/a") }
    assert_equal 3, @calls
  end

  def test_by_threads_without_a_loop
    cached { |_| ok("for all", "cache-control" => "max-age=60").tap { wait_here } }
    clients = Array.new(5) { Thread.new { get("/a").body } }
    pass_until("the wait of each") { @cache.stats[:waiting] == 5 }
    go_on
    assert_equal ["for all"] * 5, clients.map(&:value)
    assert_equal 1, @calls
  end

  def test_a_forked_child_waits_for_no_fetch_of_its_parent
    in_run do |scope|
      cached { |_| ok("by #{Process.pid}", "cache-control" => "max-age=60").tap { wait_here } }
      first = parked(scope.spawn { get("/a").body })
      child, said = forked { Thread.new { get("/a").body }.value }
      assert_equal "by #{child}", said
      go_on
      assert_equal "by #{Process.pid}", first.value
    end
  end

  def test_an_explanation
    cached { |_| ok("x", "cache-control" => "max-age=60", "vary" => "accept-language") }
    explain = ->(**env) { @cache.explain(env_of("GET", "/a", **env)).to_s }
    assert_equal "key: http://example.org/a\nthe app is asked, and its response stored if it may be shared", explain.call
    get("/a", "HTTP_ACCEPT_LANGUAGE" => "de")
    assert_match(/accept-language "de".*\na stored response is used: fresh for (60|59) s/m, explain.call("HTTP_ACCEPT_LANGUAGE" => "de"))
    assert_match(/headers of the key: no accept-language\nthe app is asked.*; for other headers a response is stored\z/, explain.call)
    assert_match(/not shared: cookie\z/, explain.call("HTTP_COOKIE" => "a=1"))
    assert_match(/not shared: env \(my.user in Rack's env\)/, explain.call("my.user" => 7))
    assert_equal 1, @calls
  end

  def test_a_first_client_that_leaves_spoils_nobody
    in_run do |scope|
      cached { |_| ok("for all", "cache-control" => "max-age=60").tap { wait_here } }
      first = scope.spawn { get("/a") }
      parked(first)
      others = Array.new(5) { scope.spawn { get("/a").body } }
      first.cancel
      go_on
      assert_equal ["for all"] * 5, others.map(&:value)
      assert_equal 1, @calls
    end
  end

  def test_a_truncated_body_is_not_stored
    cached { |_| ok(["abc"], "cache-control" => "max-age=60", "content-length" => "5") }
    error = assert_raises(NeverBlock::Cache::Fill::Truncated) { get("/a") }
    assert_match(/3 of 5 bytes/, error.message)
    assert_raises(NeverBlock::Cache::Fill::Truncated) { get("/a") }
    assert_equal 2, @calls
  end

  def test_a_purge_during_a_fetch
    in_run do |scope|
      cached { |_| ok("version #{@calls}", "cache-control" => "max-age=60").tap { wait_here if @calls == 1 } }
      old = scope.spawn { get("/a").body }
      parked(old)
      @cache.purge("http://example.org/a")
      assert_equal "version 2", get("/a").body, "it does not join the fetch that began before"
      go_on
      assert_equal "version 1", old.value
      assert_equal "version 2", get("/a").body
      assert_equal 2, @calls
    end
  end

  def test_a_stale_response_is_validated
    cached do |env|
      next [304, {"etag" => '"1"', "cache-control" => "max-age=60"}, []] if env["HTTP_IF_NONE_MATCH"] == '"1"'
      ok("for all", "cache-control" => "max-age=0, must-revalidate", "etag" => '"1"')
    end
    assert_equal ["for all"] * 3, Array.new(3) { get("/a").body }
    assert_equal 2, @calls
    assert_equal 304, get("/a", "HTTP_IF_NONE_MATCH" => 'W/"1"').status
  end

  def test_a_validation_that_makes_a_response_private
    cached do |env|
      next [304, {"etag" => '"1"', "cache-control" => "private"}, []] if env["HTTP_IF_NONE_MATCH"]
      ok("of #{@calls}", "cache-control" => (@calls == 1) ? "max-age=0" : "private", "etag" => '"1"')
    end
    assert_equal ["of 1", "of 3"], Array.new(2) { get("/a").body }
    assert_match(/of [45]/, get("/a").body)
  end

  def test_a_purge_by_tag
    cached { |_| ok("version #{@calls}", "cache-control" => "max-age=60", "cache-tag" => "reports, users") }
    assert_equal "version 1", get("/a").body
    assert_equal [0, 1], %w[others users].map { |tag| @cache.purge_tag(tag) }
    assert_equal "version 2", get("/a").body
  end

  def test_stores_of_files
    Dir.mktmpdir do |folder|
      File.chmod(0o700, folder)
      cached(store: "file:#{folder}?bytes=10m") { |_| ok("for all", "cache-control" => "max-age=60") }
      assert_equal ["for all"] * 3, Array.new(3) { get("/a").body }
      assert_equal 1, @calls
      pass_until("the end of the fetch") { @cache.stats[:fetching].zero? }
      cached(store: "file:#{folder}?bytes=10m") { |_| ok("asked", "cache-control" => "max-age=60") }
      assert_equal "for all", get("/a").body, "another process finds it"
    end
  end

  def test_an_unsafe_method_invalidates
    cached { |env| ok("version #{@calls}", **((env["REQUEST_METHOD"] == "GET") ? {"cache-control" => "max-age=60"} : {})) }
    assert_equal "version 1", get("/a").body
    request("POST", "/a")
    assert_equal "version 3", get("/a").body
  end

  def test_heads_and_ranges_of_a_stored_response
    cached { |_| ok("0123456789", "cache-control" => "max-age=60") }
    get("/a")
    head = request("HEAD", "/a")
    assert_equal ["", "10"], [head.body, head.headers["content-length"]]
    part = get("/a", "HTTP_RANGE" => "bytes=2-4")
    assert_equal [206, "234", "bytes 2-4/10"], [part.status, part.body, part.headers["content-range"]]
    assert_equal 416, get("/a", "HTTP_RANGE" => "bytes=20-").status
    assert_equal 1, @calls
  end

  def test_only_if_cached
    cached { |_| ok("x", "cache-control" => "max-age=60") }
    assert_equal 504, get("/a", "HTTP_CACHE_CONTROL" => "only-if-cached").status
    assert_equal 0, @calls
  end

  def test_an_unknown_option
    error = assert_raises(NeverBlock::ConfigurationError) { NeverBlock::Cache.new(->(_) {}, colapse: true) }
    assert_match(/has no option :colapse\. Its options are store, collapse/, error.message)
  end
end
