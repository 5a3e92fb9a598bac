# frozen_string_literal: true

require "test_helper"
require "support/cached_app"
require "support/runs"

# The cache inside of middleware that reads sessions and cookies, as with Rails' config.middleware.use.
class CacheEnvGuardTest < Minitest::Test
  include NeverBlockTest::CachedApp
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  SESSION = "rack.session"
  COOKIES = "action_dispatch.cookies"
  FRESH = {"cache-control" => "public, max-age=60"}.freeze

  # Of Rails: what was set is written to a response.
  Jar = Struct.new(:set) do
    def write(response) = set.each { |name, value| response.set_cookie(name, value) }
  end

  # A session as those of Rack: loaded when first used.
  LazySession = Struct.new(:loaded, :values) do
    def loaded? = loaded

    def empty? = values.empty?
  end

  def test_a_page_without_a_user_is_shared
    cached { |env| ok("#{env[SESSION]["user"].inspect} #{env[SESSION].key?("user")} #{env[SESSION].to_h}", **FRESH) }
    assert_equal ["nil false {}"] * 3, Array.new(3) { get("/a", SESSION => {}, "action_dispatch.request_id" => _1.to_s).body }
    assert_equal 1, @calls
  end

  def test_each_client_keeps_what_the_app_writes_into_its_session
    cached do |env|
      wait_here
      env[SESSION]["seen"] = env["QUERY_STRING"]
      ok("hello", **FRESH)
    end
    sessions = Array.new(20) { {} }
    bodies = together(20) { |n| get("/a", SESSION => sessions[n]).body }
    assert_equal ["hello"] * 20, bodies
    assert_equal [{"seen" => ""}] * 20, sessions
    assert_equal [21, 0], [@calls, @cache.stats[:entries]]
    assert_equal 1, @cache.stats[:uncollapsible]
  end

  def test_what_changes_a_session_is_for_one_client
    changes = {
      store: ->(session) { session.store(:a, 1) }, update: ->(session) { session.update("a" => 1) },
      delete: ->(session) { session.delete("a") }, clear: ->(session) { session.clear },
      destroy: ->(session) { session.destroy }, id: ->(session) { session.respond_to?(:id) && session.id || session[:id] = 1 },
      default: ->(session) { session["a"] ||= 1 }
    }
    changes.each do |name, change|
      cached do |env|
        change.call(env[SESSION].tap { |session| def session.destroy = clear if Hash === session })
        ok("x", **FRESH)
      end
      2.times { get("/a", SESSION => {}) }
      assert_equal [3, 0], [@calls, @cache.stats[:entries]], name
    end
  end

  def test_a_session_that_is_replaced_is_for_one_client
    cached do |env|
      env[SESSION] = {}
      ok("x", **FRESH)
    end
    2.times { get("/a", SESSION => {}) }
    assert_equal [3, 0], [@calls, @cache.stats[:entries]]
  end

  def test_an_error_after_a_write_into_the_session_is_no_error_of_the_cache
    cached do |env|
      env[SESSION]["a"] = 1
      raise IOError, "no such method in the cache's session" unless Hash === env[SESSION]
      ok("x", **FRESH)
    end
    assert_equal "x", get("/a", SESSION => {}).body
  end

  def test_a_session_with_values_keeps_a_request_apart
    cached { |env| ok("of #{(Hash === env[SESSION]) ? env[SESSION]["user"] : "nobody"}", **FRESH) }
    assert_equal "of 7", get("/a", SESSION => {"user" => 7}).body
    assert_equal "of nobody", get("/a", SESSION => LazySession.new(false, {"user" => 8})).body
    assert_equal 1, @cache.stats[:entries]
    cached { |_| ok("x", **FRESH) }
    2.times { get("/a", SESSION => LazySession.new(true, {"user" => 8})) }
    assert_equal [2, 0], [@calls, @cache.stats[:entries]]
  end

  # Rails writes the token into the session in the middleware of sessions: test/programs/rails_cache_test.rb.
  def test_a_token_of_a_form
    cached do |env|
      env["action_controller.csrf_token"] = "t"
      ok("x", **FRESH)
    end
    2.times { get("/a", SESSION => {}) }
    assert_equal [3, 0], [@calls, @cache.stats[:entries]]
  end

  def test_a_body_that_writes_into_the_session_is_not_stored
    cached do |env|
      [200, FRESH, Enumerator.new { |lines| lines << (env[SESSION]["a"] = "x") }]
    end
    get("/a", SESSION => {})
    assert_equal 0, @cache.stats[:entries]
  end

  def test_cookies_that_an_outer_middleware_would_send
    sent = []
    cached do |env|
      env[COOKIES] = Jar.new({"a" => "1"})
      sent << env
      ok("x", **FRESH)
    end
    2.times { get("/a", SESSION => {}) }
    assert_equal [3, 0], [@calls, @cache.stats[:entries]]
    cached do |env|
      env[COOKIES] = Jar.new({}) # one that was only read
      ok("x", **FRESH)
    end
    2.times { get("/b", SESSION => {}) }
    assert_equal [1, 1], [@calls, @cache.stats[:entries]]
  end

  def test_a_policy_that_the_action_changes
    name = "action_dispatch.content_security_policy"
    cached do |env|
      env[name] = Object.new if env["PATH_INFO"] == "/changed"
      ok("x", **FRESH)
    end
    2.times { get("/a", SESSION => {}, name => @cache) }
    assert_equal 1, @calls
    2.times { get("/changed", SESSION => {}, name => @cache) }
    assert_equal [4, 1], [@calls, @cache.stats[:entries]]
  end

  def test_a_nonce_is_for_one_response
    cached do |env|
      env["action_dispatch.content_security_policy_nonce"] = "n#{@calls}"
      ok("n#{@calls}", **FRESH)
    end
    assert_equal %w[n1 n2], Array.new(2) { get("/a").body }, "outside of all, the first client has the response itself"
    assert_equal %w[n4 n5], Array.new(2) { get("/b", SESSION => {}).body }
    assert_equal 0, @cache.stats[:entries]
  end
end
