# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# The middleware that measures live: what it makes of requests and of the responses' headers.
class CacheTrafficRecorderTest < Minitest::Test
  # Headers of a response, and what follows: for all, for the client only, or the reason why not.
  {
    "for_everybody" => [{"cache-control" => "public, max-age=60"}, {}, [1, 0, nil]],
    "by_expires" => [{"expires" => "Wed, 26 Nov 2098 20:36:19 GMT"}, {}, [1, 0, nil]],
    "for_a_cdn" => [{"cache-control" => "private, max-age=60", "cdn-cache-control" => "max-age=60"}, {}, [1, 0, nil]],
    "as_rails_says_by_default" => [{"cache-control" => "max-age=0, private, must-revalidate", "etag" => 'W/"1"'}, {}, [0, 0, :private]],
    "for_a_browser" => [{"cache-control" => "private, max-age=60"}, {}, [0, 1, :private]],
    "for_a_browser_by_expires" => [{"cache-control" => "private", "expires" => "Wed, 26 Nov 2098 20:36:19 GMT"}, {}, [0, 1, :private]],
    "without_a_lifetime" => [{}, {}, [0, 0, :no_freshness]],
    "not_to_be_stored" => [{"cache-control" => "no-store, max-age=60"}, {}, [0, 0, :no_store]],
    "to_be_validated" => [{"cache-control" => "no-cache", "etag" => '"1"'}, {}, [0, 0, :no_cache]],
    "with_a_cookie" => [{"cache-control" => "max-age=60", "set-cookie" => "a=1"}, {}, [0, 1, :set_cookie]],
    "for_a_request_with_a_cookie" => [{"cache-control" => "public, max-age=60"}, {"HTTP_COOKIE" => "a=1"}, [0, 1, :cookie]],
    "that_varies_on_anything" => [{"cache-control" => "max-age=60", "vary" => "*"}, {}, [0, 0, :vary_any]],
    "with_an_error" => [{:status => 500, "cache-control" => "max-age=60"}, {}, [0, 0, :status]],
    "not_modified" => [{:status => 304, "cache-control" => "max-age=60"}, {}, [1, 0, nil]]
  }.each do |name, (headers, env, expected)|
    define_method(:"test_a_response_#{name}") do
      headers = headers.dup
      status = headers.delete(:status) || 200
      recorder { [status, headers, []] }
      assert_equal status, get("/a", **env).first
      assert_equal expected, [report.shared, report.browser_only, report.reasons.first&.fetch(:reason)]
    end
  end

  def test_requests_repeat
    recorder { [200, {"cache-control" => "max-age=60", "content-length" => "10"}, ["0123456789"]] }
    get("/a")
    get("/a", "REMOTE_ADDR" => "192.0.2.8")
    get("/a")
    get("/a", "QUERY_STRING" => "b=1")
    get("/a", "HTTP_USER_AGENT" => "another")
    assert_equal [5, 3, 1], [report.cacheable, report.repeats, report.same_client]
    assert_equal({gets: 50, known: 5, shared_cache: 30, browsers: 10}, report.bytes)
    assert_equal "http://example.org/a", report.urls.first[:url]
  end

  def test_the_age_of_a_response_counts
    recorder { [200, {"cache-control" => "max-age=60", "age" => "60"}, []] }
    2.times { get("/a") }
    assert_equal 0, report.repeats
  end

  def test_variants_of_a_response
    recorder { [200, {"cache-control" => "max-age=60", "vary" => "Accept-Language"}, []] }
    %w[de en de].each { |language| get("/a", "HTTP_ACCEPT_LANGUAGE" => language) }
    assert_equal 1, report.repeats
  end

  def test_an_unsafe_request_changes_the_resource
    recorder { [200, {"cache-control" => "max-age=60"}, []] }
    get("/a")
    get("/a", "REQUEST_METHOD" => "PUT")
    get("/a")
    assert_equal [3, 2, 0], [report.requests, report.gets, report.repeats]
  end

  def test_the_app_s_response_and_env_are_untouched
    body = ["body"]
    recorder do |env|
      env["HTTP_COOKIE"] = "added by the app"
      [200, {"cache-control" => "max-age=60"}, body]
    end
    assert_equal [200, {"cache-control" => "max-age=60"}, body], get("/a")
    assert_equal 1, report.shared
  end

  def test_an_app_that_raises
    recorder { raise IOError, "no" }
    assert_equal "no", assert_raises(IOError) { get("/a") }.message
    assert_equal [[:status, 1, 0]], report.reasons.map(&:values)
  end

  def test_an_error_of_the_recorder_does_not_reach_the_response
    recorder(client: ->(_) { raise TypeError }) { [200, {"cache-control" => "max-age=60"}, []] }
    assert_equal 200, get("/a").first
    assert_includes report.notes, "1 request could not be judged (TypeError)."
  end

  def test_a_client_as_the_app_tells_it
    recorder(client: ->(env) { env["HTTP_X_FORWARDED_FOR"] }) { [200, {"cache-control" => "max-age=60"}, []] }
    %w[a b a].each { |name| get("/a", "HTTP_X_FORWARDED_FOR" => name) }
    assert_equal [2, 1], [report.repeats, report.same_client]
  end

  def test_a_report_now_and_then
    reports = []
    recorder(every: 1e-9, told: reports) { [200, {}, []] }
    2.times { get("/a") }
    assert_equal [1, 2], reports.map(&:requests)
    recorder(every: 1_000, told: reports) { [200, {}, []] }
    get("/a")
    assert_equal 2, reports.size
  end

  def test_options_of_the_cache
    recorder(credentials: :ignore, ignore_params: ["utm"]) { [200, {"cache-control" => "public, max-age=60"}, []] }
    2.times { |number| get("/a", "HTTP_COOKIE" => "a=1", "QUERY_STRING" => "utm=#{number}") }
    assert_equal [2, 1], [report.shared, report.repeats]
    assert_match(/has no option :colour/, assert_raises(NeverBlock::ConfigurationError) { recorder(colour: 1) {} }.message)
    assert_match(/\Aevery: 0 is not/, assert_raises(NeverBlock::ConfigurationError) { recorder(every: 0) {} }.message)
  end

  # The verdict is the cache's own: what the report calls sharable is stored.
  def test_it_agrees_with_the_cache
    app = ->(env) { [200, {"cache-control" => env["HTTP_X_WISH"], "content-type" => "text/plain"}, ["a"]] }
    ["max-age=60", "private, max-age=60", "no-store", "s-maxage=1", "public", "max-age=60, no-cache"].each do |wish|
      cache = NeverBlock::Cache.new(app)
      recorder = NeverBlock::Cache::Traffic::Recorder.new(cache)
      2.times { recorder.call(env_of("HTTP_X_WISH" => wish))[2].each {} }
      shared = recorder.traffic.report.shared
      assert_equal cache.stats[:entries] * 2, shared, wish
    end
  end

  private

  def recorder(told: nil, **options, &app)
    @recorder = NeverBlock::Cache::Traffic::Recorder.new(app, NeverBlock::Cache::Traffic.new, **options) { |report| told << report }
  end

  def env_of(**env)
    {"REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/a", "QUERY_STRING" => "", "HTTP_HOST" => "example.org",
     "rack.url_scheme" => "http", "REMOTE_ADDR" => "192.0.2.7", **env}
  end

  def get(path, **env) = @recorder.call(env_of("PATH_INFO" => path, **env))

  def report = @recorder.traffic.report
end
