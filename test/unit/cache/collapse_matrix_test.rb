# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/cached_app"

# What becomes of requests that wait for the same fetch: docs/cache.md has the table. Each case counts the calls of the
# app. Each client has a name, which the app shows where it sees it, so that a response of another client is noticed.
class CacheCollapseMatrixTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::CachedApp

  CLIENTS = 12
  FRESH = {"cache-control" => "max-age=60"}.freeze
  LANGUAGES = %w[en de fr].freeze

  # Cases of the table, and the calls of the app for so many clients. All tests are below, but for the last two:
  # test/integration/cache/server_test.rb, cache/redis_test.rb.
  CALLS = {
    "it may be shared" => "1",
    "10,000 requests" => "1",
    "the first client leaves" => "1",
    "the first request is killed" => "1",
    "all clients leave" => "1",
    "the app raises once" => "2",
    "the app raises again, or its status is 500, 502, 503 or 504" => "2",
    "the app's thread or fiber is killed" => "2",
    "an error, and `stale-if-error`" => "1",
    "the app hangs" => "1, then each",
    "`Set-Cookie`" => "each",
    "`private`, `no-store`, `no-cache`, or no lifetime" => "each",
    "`Vary: *`, `Vary: Cookie`" => "each",
    "`Vary: Accept-Language`" => "1 per language",
    "a status that is not stored" => "each",
    "a body that streams" => "each",
    "requests with `Authorization` or `Cookie`" => "each",
    "requests for ranges, or with HEAD" => "each",
    "a body that is cut off" => "1",
    "a body longer than `memory:` and `spool:`" => "1",
    "a purge during the fetch" => "1, then 1",
    "a fork during the fetch" => "1 per process",
    "more than `max_waiting:`" => "1, and each beyond",
    "`stale-while-revalidate`" => "1",
    "a client that reads slowly" => "1",
    "a store that fails or hangs" => "1"
  }.freeze

  TABLE = /## What becomes of requests that wait\n.*?(?=\n## )/m

  def test_the_table_in_the_documentation
    page = File.read(File.expand_path("../../../docs/cache.md", __dir__))
    rows = page[TABLE].scan(/^\| (.+?) \| (.+?) \|/).drop(1).reject { |cells| cells.first.start_with?("---") }
    assert_equal CALLS, rows.to_h
  end

  def test_it_may_be_shared = assert_shared("it may be shared", FRESH)

  def test_10_000_requests
    app { |_| shown(FRESH).tap { wait_here } }
    bodies = together(10_000) { |n| ask(n) }
    assert_equal ["call 1 for all"], bodies.uniq
    assert_calls "10,000 requests"
  end

  def test_the_first_client_leaves
    leaving(1) do |clients|
      assert_equal [:left, *["call 1 for all"] * (CLIENTS - 1)], clients
      assert_calls "the first client leaves"
    end
  end

  def test_all_clients_leave
    leaving(CLIENTS) do |clients|
      assert_equal [:left] * CLIENTS, clients
      assert_equal "call 1 for all", ask(99)
      assert_calls "all clients leave"
    end
  end

  def test_the_first_request_is_killed
    app { |_| shown(FRESH).tap { wait_here } }
    first = Thread.new { ask(0) }
    pass_until("the first call") { @calls == 1 }
    others = Array.new(3) { |n| Thread.new { ask(n + 1) } }
    pass_until("the wait of each") { @cache.stats[:waiting] == 4 }
    first.kill.join
    go_on
    assert_equal ["call 1 for all"] * 3, others.map(&:value)
    assert_calls "the first request is killed"
  end

  def test_the_app_raises_once
    app do |_|
      wait_here
      raise IOError, "away" if @calls == 1
      shown(FRESH)
    end
    assert_equal({"away" => 1, "call 2 for all" => CLIENTS - 1}, all.tally)
    assert_calls "the app raises once"
  end

  def test_the_app_raises_again
    app do |_|
      wait_here
      raise IOError, "away"
    end
    assert_equal ["away"] * CLIENTS, all
    assert_calls "the app raises again, or its status is 500, 502, 503 or 504"
  end

  def test_the_app_is_ill
    [500, 502, 503, 504].each do |status|
      app { |_| shown({}, status:).tap { wait_here } }
      assert_equal({"call 1 for all" => 1, "call 2 for all" => CLIENTS - 1}, all.tally)
      assert_calls "the app raises again, or its status is 500, 502, 503 or 504"
      refute_equal "call 2 for all", ask(99), "it is not stored"
    end
  end

  def test_the_apps_fiber_is_killed
    app do |_|
      wait_here
      Fiber.current.kill if @calls == 1
      shown(FRESH)
    end
    results = all
    assert_equal CLIENTS - 1, results.count("call 2 for all")
    assert_calls "the app's thread or fiber is killed"
  end

  def test_an_error_and_a_stale_response
    app { |_| (@calls == 1) ? shown({"cache-control" => "max-age=60, stale-if-error=60", "age" => "61"}) : wait_here || raise(IOError) }
    ask(0)
    assert_equal ["call 1 for all"] * CLIENTS, all
    assert_calls "an error, and `stale-if-error`", before: 1
  end

  def test_the_app_hangs
    in_run do |scope|
      app(wait: 1, max_released: 3) do |env|
        response = shown(FRESH, user: env["HTTP_USER_AGENT"])
        wait_here if @calls == 1
        NB.pass
        response
      end
      clients = spawn_all(scope)
      bodies = clients.drop(1).map(&:value)
      assert_equal CLIENTS - 1, bodies.uniq.size, "each has its own"
      assert_operator @most_at_once, :<=, 4
      go_on
      assert_own [clients.first.value, *bodies]
      assert_equal "call 1 for all", ask(99)
      assert_calls "the app hangs"
    end
  end

  {
    "`Set-Cookie`" => [{**FRESH, "set-cookie" => "id=1"}],
    "`private`, `no-store`, `no-cache`, or no lifetime" => [
      {"cache-control" => "private, max-age=60"}, {"cache-control" => "no-store, max-age=60"},
      {"cache-control" => "no-cache", "etag" => '"1"'}, {}
    ],
    "`Vary: *`, `Vary: Cookie`" => [{**FRESH, "vary" => "*"}, {**FRESH, "vary" => "cookie"}],
    "a status that is not stored" => [{status: 403, **FRESH}, {status: 429, **FRESH}, {status: 206, **FRESH}]
  }.each do |name, kinds|
    define_method(:"test_#{name.tr("^A-Za-z", "_").squeeze("_")}") { kinds.each { |headers| assert_not_shared(name, headers) } }
  end

  def test_a_body_that_streams
    assert_not_shared("a body that streams", FRESH) { |body| ->(stream) { stream << body.first } }
  end

  def test_requests_with_credentials
    {"HTTP_AUTHORIZATION" => "Basic ", "HTTP_COOKIE" => "session="}.each do |header, value|
      app do |env|
        wait_here
        ok("for #{env[header]}", **FRESH, "cache-control" => "public, max-age=60")
      end
      bodies = together(CLIENTS) { |n| get("/a", header => "#{value}#{n}").body }
      assert_equal Array.new(CLIENTS) { |n| "for #{value}#{n}" }, bodies
      assert_calls "requests with `Authorization` or `Cookie`"
      assert_equal 0, @cache.stats[:entries]
    end
  end

  def test_requests_for_ranges_or_with_head
    [["GET", {"HTTP_RANGE" => "bytes=0-3"}], ["HEAD", {}]].each do |method, headers|
      app { |env| shown(FRESH, user: env["HTTP_USER_AGENT"]).tap { wait_here } }
      assert_own(together(CLIENTS) { |n| request(method, "/a", "HTTP_USER_AGENT" => "client #{n}", **headers).body })
      assert_calls "requests for ranges, or with HEAD"
    end
  end

  def test_a_response_for_each_language
    app do |env|
      wait_here
      ok("in #{env["HTTP_ACCEPT_LANGUAGE"]}", "vary" => "accept-language", **FRESH)
    end
    bodies = together(CLIENTS) { |n| get("/a", "HTTP_ACCEPT_LANGUAGE" => LANGUAGES[n % 3]).body }
    assert_equal Array.new(CLIENTS) { |n| "in #{LANGUAGES[n % 3]}" }, bodies
    assert_calls "`Vary: Accept-Language`"
  end

  def test_a_body_that_is_cut_off
    app do |_|
      wait_here
      [200, {**FRESH, "content-length" => "9"}, ["part"]]
    end
    errors = all
    assert_equal CLIENTS, errors.grep(/cut off: .*4 of 9 bytes/).size
    assert_calls "a body that is cut off"
    assert_match(/cut off/, ask(99))
    assert_equal [2, 0], [@calls, @cache.stats[:entries]]
  end

  def test_a_body_longer_than_what_is_kept
    app(memory: 100, spool: 100, window: 50) do |_|
      wait_here
      [200, {**FRESH}, Array.new(100) { |n| "part #{n} of the body\n" }]
    end
    bodies = all
    whole = Array.new(100) { |n| "part #{n} of the body\n" }.join
    assert_equal [whole], bodies.grep_v(/cut off/).uniq
    assert_calls "a body longer than `memory:` and `spool:`"
    assert_equal 0, @cache.stats[:entries]
  end

  def test_a_purge_during_the_fetch
    [-> { @cache.purge("http://example.org/a") }, -> { @cache.purge_tag("page") }, -> { @cache.clear }].each do |purge|
      in_run do |scope|
        app { |_| shown({**FRESH, "cache-tag" => "page"}).tap { wait_here } }
        before = spawn_all(scope)
        purge.call
        after = spawn_all(scope)
        go_on
        assert_equal [["call 1 for all"] * CLIENTS, ["call 2 for all"] * CLIENTS], [before, after].map { |tasks| tasks.map(&:value) }
        assert_equal "call 2 for all", ask(99)
        assert_calls "a purge during the fetch"
      end
    end
  end

  def test_a_fork_during_the_fetch
    in_run do |scope|
      app { |_| ok("by #{Process.pid}", **FRESH).tap { wait_here } }
      clients = spawn_all(scope)
      child, said = forked do
        bodies = Array.new(3) { Thread.new { ask(0) } }.map(&:value)
        "#{bodies.uniq.join} #{@calls - 1} #{@cache.stats[:fetching]}"
      end
      assert_equal "by #{child} 1 0", said
      go_on
      assert_equal ["by #{Process.pid}"] * CLIENTS, clients.map(&:value)
      assert_calls "a fork during the fetch"
    end
  end

  # What the parent's requests hold is free in the child.
  def test_a_fork_while_requests_call_the_app
    app(max_waiting: 1, max_released: 1) { |_| shown({"cache-control" => "private"}).tap { wait_here } }
    clients = Array.new(2) { |n| Thread.new { ask(n) } }
    pass_until("the calls of both") { @calls == 2 }
    _, said = forked { Array.new(2) { |n| Thread.new { ask(n) } }.count { |client| client.join(NeverBlockTest::LIMIT) } }
    assert_equal "2", said
    go_on
    clients.each(&:join)
  end

  # A forked child inherits the fetch of a refresh too.
  def test_a_fork_during_a_refresh
    in_run do
      app { |_| (@calls == 1) ? shown({"cache-control" => "max-age=60, stale-while-revalidate=60", "age" => "61"}) : wait_here || ok("by #{Process.pid}", **FRESH) }
      2.times { ask(0) }
      child, said = forked { Thread.new { pass_until { (body = ask(0)).start_with?("by") && body } }.value }
      assert_equal "by #{child}", said
      go_on
    end
  end

  def test_more_than_may_wait
    in_run do |scope|
      app(max_waiting: 4) do |env|
        response = shown(FRESH, user: env["HTTP_USER_AGENT"])
        wait_here if @calls == 1
        response
      end
      waiting = Array.new(4) { |n| parked(scope.spawn { ask(n) }) }
      beyond = Array.new(CLIENTS - 4) { |n| ask(n + 4) }
      assert_equal beyond.size, beyond.uniq.size
      go_on
      assert_own waiting.map(&:value) + beyond
      assert_calls "more than `max_waiting:`"
    end
  end

  def test_a_stale_response_while_a_new_one_is_fetched
    app { |_| (@calls == 1) ? shown({"cache-control" => "max-age=60, stale-while-revalidate=60", "age" => "61"}) : shown(FRESH).tap { wait_here } }
    ask(0)
    assert_equal ["call 1 for all"] * CLIENTS, in_run { Array.new(CLIENTS) { |n| ask(n) }.tap { go_on } }
    assert_equal "call 2 for all", ask(99)
    assert_calls "`stale-while-revalidate`", before: 1
  end

  private

  def app(**options, &)
    cached(**options, &)
  end

  def shown(headers, user: nil, status: 200) = ok("call #{@calls} for #{user || "all"}", status:, **headers)

  # @return [String] the body that the client has got, or the error's message
  def ask(number)
    get("/a", "HTTP_USER_AGENT" => "client #{number}", "REMOTE_ADDR" => "192.0.2.#{number % 250}").body
  rescue => error
    error.message
  end

  # @return [Array<String>] what all clients have got that have asked at once
  def all = together(CLIENTS) { |n| ask(n) }

  def spawn_all(scope) = Array.new(CLIENTS) { |n| parked(scope.spawn { ask(n) }) }

  def leaving(number)
    in_run do |scope|
      app { |_| shown(FRESH).tap { wait_here } }
      clients = spawn_all(scope)
      clients.first(number).each { |client| client.cancel && client.join }
      go_on
      yield clients.map { |client| client.cancelled? ? :left : client.value }
    end
  end

  def assert_shared(name, headers)
    app { |env| shown(headers, user: env["HTTP_USER_AGENT"]).tap { wait_here } }
    assert_equal ["call 1 for all"] * CLIENTS, all
    assert_calls name
    assert_equal "call 1 for all", ask(99)
    assert_equal 1, @calls
  end

  # Also of those that come later, none waits for another one.
  def assert_not_shared(name, headers)
    app do |env|
      number = @calls
      wait_here
      NB.pass until number == 1 || @calls >= CLIENTS
      response = ok("call #{number} for #{env["HTTP_USER_AGENT"] || "all"}", **headers)
      block_given? ? [*response.first(2), yield(response.last)] : response
    end
    2.times do
      before = @calls
      bodies = block_given? ? together(CLIENTS) { |n| stream(n) } : all
      assert_equal CLIENTS, bodies.uniq.size, "#{headers}: each has its own"
      assert_own bodies
      assert_calls name, before:
    end
    assert_equal 0, @cache.stats[:entries]
  end

  def stream(number)
    _, _, body = @cache.call(env_of("GET", "/a", "HTTP_USER_AGENT" => "client #{number}"))
    body.call(text = +"")
    text
  end

  # The app has seen the client itself, or none.
  def assert_own(bodies)
    bodies.each_with_index { |body, n| assert_match(/\A\z|\Acall \d+ for (all|client #{n})\z/, body) }
  end

  # The app was called as often as the table tells.
  def assert_calls(name, before: 0)
    expected = case CALLS.fetch(name)
    when "1", "1 per process" then 1
    when "2", "1, then 1" then 2
    when "each", "1, then each" then CLIENTS
    when "1 per language" then LANGUAGES.size
    when "1, and each beyond" then 1 + CLIENTS - 4
    end
    assert_equal expected, @calls - before, name
  end
end
