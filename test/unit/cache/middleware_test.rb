# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/cached_app"
require "neverblock/server"

# The cache between other middleware, inside and outside.
class CacheMiddlewareTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::CachedApp

  begin
    require "rack"
    require "rack/lint"
    require "zlib"
  rescue LoadError
    nil # left out on preview Rubies
  end

  FRESH = {"cache-control" => "max-age=60", "content-type" => "text/plain"}.freeze

  def setup
    skip "rack is not among the gems here" unless defined?(Rack::Lint)
  end

  # Lint raises where a request or a response is not as the specification has it.
  def test_lint_on_both_sides
    app = Rack::Lint.new(Rack::Head.new(lambda { |env|
      @calls += 1
      case env["PATH_INFO"]
      when "/private" then [200, {"content-type" => "text/plain", "cache-control" => "private"}, ["private"]]
      when "/empty" then [204, {"cache-control" => "max-age=60"}, []]
      when "/moved" then [301, {"cache-control" => "max-age=60", "location" => "/", "content-length" => "0"}, []]
      when "/stale" then [200, {**FRESH, "cache-control" => "max-age=60, stale-while-revalidate=60", "age" => "61"}, ["stale"]]
      when "/validated" then env["HTTP_IF_NONE_MATCH"] ? [304, {"etag" => '"1"', **FRESH.except("content-type")}, []] : [200, {**FRESH, "cache-control" => "max-age=0", "etag" => '"1"'}, ["one"]]
      when "/stream" then [200, {"content-type" => "text/plain"}, ->(stream) { stream.write("x") and stream.close }]
      else [200, {**FRESH, "etag" => '"1"', "content-length" => "10"}, ["0123456789"]]
      end
    }))
    @calls = 0
    linted = Rack::Lint.new(NeverBlock::Cache.new(app))
    requests = %w[/a /private /empty /moved /stale /validated /stream].product(%w[GET HEAD POST], [
      {}, {"HTTP_RANGE" => "bytes=2-4"}, {"HTTP_RANGE" => "bytes=90-"}, {"HTTP_RANGE" => "bytes=0-1,3-4"}, {"HTTP_IF_NONE_MATCH" => '"1"'},
      {"HTTP_COOKIE" => "a=1"}, {"HTTP_CACHE_CONTROL" => "only-if-cached"}, {"HTTP_CACHE_CONTROL" => "no-cache"}
    ])
    3.times do
      requests.each do |path, method, headers|
        status, _, body = linted.call(Rack::MockRequest.env_for("http://example.org#{path}", method: method, **headers))
        assert_includes [200, 204, 206, 301, 304, 416, 504], status
        if body.respond_to?(:each)
          body.each {}
        else
          body.call(StringIO.new)
        end
      ensure
        body&.close if body.respond_to?(:close)
      end
    end
  end

  def test_middleware_inside
    app = lambda do |_|
      @calls += 1
      [200, {**FRESH}, ["a long text " * 100]]
    end
    inner = Rack::Builder.app do
      use Rack::ConditionalGet
      use Rack::ETag
      use Rack::Deflater
      run app
    end
    @calls = 0
    @cache = NeverBlock::Cache.new(inner)
    plain, zipped = Array.new(3) { [get("/a").body, get("/a", "HTTP_ACCEPT_ENCODING" => "gzip").body] }.transpose
    assert_equal ["a long text " * 100] * 3, plain
    assert_equal ["a long text " * 100] * 3, zipped.map { |text| Zlib.gunzip(text) }
    assert_equal 2, @calls
    tag = get("/a").headers["etag"]
    assert_equal 304, get("/a", "HTTP_IF_NONE_MATCH" => tag).status
  end

  def test_middleware_outside
    cached { |_| ok("a long text " * 100, **FRESH, "etag" => '"1"') }
    cache = @cache
    @cache = Rack::Builder.app do
      use Rack::Sendfile
      use Rack::ConditionalGet
      use Rack::ETag
      use Rack::Deflater
      use Rack::Head
      run cache
    end
    3.times do
      assert_equal "a long text " * 100, get("/a").body
      zipped = get("/a", "HTTP_ACCEPT_ENCODING" => "gzip")
      assert_equal "a long text " * 100, Zlib.gunzip(zipped.body)
      assert_equal "", request("HEAD", "/a").body
      assert_equal [304, ""], get("/a", "HTTP_IF_NONE_MATCH" => '"1"').then { |response| [response.status, response.body] }
    end
    assert_equal 1, @calls
    refute get("/a").headers.key?("content-encoding"), "what was changed outside is not stored"
  end

  # As middleware that adds to what there is.
  def test_middleware_outside_that_changes_headers_in_place
    cached { |_| ok("x", **FRESH, "vary" => "accept", "x-list" => %w[one]) }
    3.times do |n|
      headers = get("/a").headers
      begin
        headers["vary"] << ", cookie"
        headers["x-list"] << "user #{n}"
      rescue FrozenError
        nil
      end
      headers["set-cookie"] = "id=#{n}"
      headers.delete("content-type")
    end
    headers = get("/a").headers
    assert_equal ["accept", %w[one], nil, "text/plain"], headers.values_at("vary", "x-list", "set-cookie", "content-type")
  end

  # As of apps for Rack 2.
  def test_names_of_headers_in_upper_case
    cached { |_| [200, {"Cache-Control" => "max-age=60", "Set-Cookie" => "id=#{@calls}", "Content-Type" => "text/plain"}, ["x"]] }
    assert_equal %w[id=1 id=2], Array.new(2) { get("/a").headers["Set-Cookie"] }
    cached { |_| [200, {"Cache-Control" => "max-age=60", "Content-Type" => "text/plain"}, ["x"]] }
    2.times { assert_equal "x", get("/a").body }
    assert_equal 2, @calls, "doubtful, and not stored"
    cached { |_| [200, Rack::Headers["Cache-Control" => "max-age=60", "Content-Type" => "text/plain"], ["x"]] }
    2.times { assert_equal "x", get("/a").body }
    assert_equal 1, @calls, "these are in lower case"
  end

  def test_frozen_headers
    cached { |env| [200, {"content-type" => "text/plain"}.freeze, ["x"].freeze].freeze }
    [{}, {"HTTP_COOKIE" => "a=1"}].each { |headers| 2.times { assert_equal "x", get("/a", **headers).body } }
  end

  def test_what_belongs_to_one_connection_does_not_reach_the_app
    entries = {"rack.response_finished" => [], "rack.hijack" => -> {}, "rack.hijack?" => true, "rack.early_hints" => ->(_) {},
               "rack.input" => StringIO.new("secret"), "rack.protocol" => ["websocket"]}
    seen = nil
    cached { |env| ok("x", **FRESH).tap { seen = env } }
    get("/a", **entries)
    assert_equal %w[rack.early_hints rack.input], seen.slice(*entries.keys).keys.sort
    assert_equal "", seen["rack.input"].read
    refute_same entries["rack.early_hints"], seen["rack.early_hints"], "the client's own is called in its fiber alone"
  end

  def test_a_websocket_has_its_own_env
    cached do |env|
      assert_same @socket, env["rack.hijack"]
      [101, {"upgrade" => "websocket", "connection" => "upgrade"}, []]
    end
    @socket = -> {}
    response = get("/a", "HTTP_UPGRADE" => "websocket", "HTTP_CONNECTION" => "Upgrade", "rack.hijack" => @socket)
    assert_equal 101, response.status
    cached { |_| [-1, {}, []] }
    assert_equal(-1, get("/a", "HTTP_UPGRADE" => "websocket").status)
  end

  def test_a_partial_hijack
    cached { |_| [200, {**FRESH, "rack.hijack" => ->(_) {}}, []] }
    responses = Array.new(2) { get("/a") }
    responses.each { |response| assert_kind_of Proc, response.headers["rack.hijack"] }
    assert_equal 2, @calls
  end

  def test_several_threads_and_loops_at_once
    cached(store: "memory:200k") do |env|
      NB.pass if Fiber.scheduler
      ok(env["PATH_INFO"] * 500, **FRESH, "cache-tag" => "t#{env["PATH_INFO"].hash % 3}")
    end
    loops = Array.new(2) do |seed|
      Thread.new { NeverBlock.run { NeverBlock.concurrently(1..400, limit: 50) { |n| visit(Random.new(seed * 1_000 + n)) } } }
    end
    threads = Array.new(3) { |seed| Thread.new { 200.times { |n| visit(Random.new(seed * 5_000 + n)) } } }
    (loops + threads).each { |thread| assert thread.join(NeverBlockTest::LIMIT) }

    pass_until("the end of all") { @cache.stats[:fetching].zero? }
    assert_operator @cache.stats[:bytes], :<=, 200 << 10
  end

  def test_garbage_collection_at_each_step
    in_run do
      cached { |_| ok(%w[a page], **FRESH).tap { GC.start } }
      env = env_of("GET", "/a")
      GC.stress = 1 # without full collections, which take fifty times as long
      _, _, body = @cache.call(env)
      GC.stress = false
      GC.compact if GC.respond_to?(:compact)
      text = +""
      body.each { |chunk| text << chunk.tap { GC.start } }
      body.close
      assert_equal "apage", text
      assert_equal "apage", get("/a").body
      assert_equal 1, @calls
    ensure
      GC.stress = false
    end
  end

  private

  def visit(random)
    path = "/#{random.rand(40)}"
    case random.rand(20)
    when 0 then @cache.purge("http://example.org#{path}")
    when 1 then @cache.purge_tag("t#{random.rand(3)}")
    when 2 then @cache.clear
    else assert_equal path * 500, get(path, **(random.rand(3).zero? ? {"HTTP_CACHE_CONTROL" => "no-cache"} : {})).body
    end
  end
end
