# frozen_string_literal: true

require "test_helper"
require "support/fronted"
require "neverblock/cache"

# Interim responses of a fetch reach the client that has begun the fetch, as they come, and no other client.
class CacheInterimTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Fronted

  FRESH = {"cache-control" => "max-age=60", "content-type" => "text/plain"}.freeze
  LINK = {"link" => "</a.css>; rel=preload"}.freeze
  LINE = LINK.first.freeze

  def test_all_kinds_reach_the_client_that_began_the_fetch
    cached do |env|
      env["rack.early_hints"].call(LINK)
      [[102, nil], [103, {"link" => %w[</a> </b>]}], [104, {"upload-offset" => 5}]].each { |status, headers| env["neverblock.interim"].call(status, headers) }
      ok
    end
    answer = ask(get("/a"))
    assert_equal [[103, [LINE]], [102, []], [103, [%w[link </a>], %w[link </b>]]], [104, [%w[upload-offset 5]]]], interim_of(answer)
    assert_equal [200, "content"], [answer.status, answer.body]
    refute answer["link"], "they are no part of the response"
    answer = ask(get("/a"))
    assert_equal [[], "content", 1], [interim_of(answer), answer.body, @calls], "a hit has none"
  end

  def test_each_comes_at_once
    proceed = gate
    cached { |env| 2.times { env["rack.early_hints"].call(LINK) || proceed.pop } && ok }
    wire = connect << get("/a")
    2.times do
      assert_equal 103, wire.read_head.status
      assert_predicate wire, :quiet?
      proceed << 1
    end
    assert_equal 200, wire.answer.status
  end

  def test_followers_have_none
    proceed = gate
    cached { |env| env["rack.early_hints"].call(LINK) || proceed.pop && env["rack.early_hints"].call(LINK) || ok }
    first = connect << get("/a")
    assert_equal 103, first.read_head.status
    others = Array.new(3) { connect << get("/a") }
    wait_until("the wait of each") { @cache.stats[:waiting] == 4 }
    proceed << 1
    assert_equal [103, "content"], first.answer.then { |answer| [answer.interim.first.status, answer.body] }
    assert_equal [[[], "content"]] * 3, others.map { |wire| wire.answer.then { |answer| [answer.interim, answer.body] } }
    assert_equal 1, @calls
  end

  def test_the_first_client_leaves_after_an_interim_response
    [true, false].each do |cancel|
      proceed = gate
      cached(server: {cancel_on_disconnect: cancel}) { |env| 3.times { env["rack.early_hints"].call(LINK) || proceed.pop } && ok }
      first = connect << get("/a")
      assert_equal 103, first.read_head.status
      other = connect << get("/a")
      wait_until("the wait of both") { @cache.stats[:waiting] == 2 }
      first.reset
      wait_until("the end of the first one") { @ended == 1 } if cancel
      3.times { proceed << 1 }
      assert_equal [200, [], "content"], other.answer.then { |answer| [answer.status, answer.interim, answer.body] }
      assert_equal ["content", 1], [ask(get("/a")).body, @calls], "it is stored"
      assert_empty proxy_log
      wires.each(&:close)
    end
  end

  def test_the_only_client_leaves_and_the_fetch_goes_on
    proceed = gate
    cached(server: {cancel_on_disconnect: true}) { |env| env["rack.early_hints"].call(LINK) || proceed.pop && env["rack.early_hints"].call(LINK) || ok }
    first = connect << get("/a")
    assert_equal 103, first.read_head.status
    first.reset
    wait_until("the end of the request") { @ended == 1 }
    proceed << 1
    wait_until("the end of the fetch") { @cache.stats[:fetching].zero? }
    assert_equal ["content", 1], [ask(get("/a")).body, @calls]
  end

  # What does not fit is dropped: the fetch does not wait for the client.
  def test_a_client_that_takes_them_slowly_does_not_hold_up_the_fetch
    entered, proceed, decided = gate, gate, gate
    slow = ->(_) { entered << 1 and proceed.pop }
    taken = 0
    cached(wrap: ->(cache) { ->(env) { cache.call(env.merge("rack.early_hints" => ->(headers) { (taken += 1) && slow.call(headers) })) } }) do |env|
      env["rack.early_hints"].call(LINK)
      entered.pop
      100.times { env["rack.early_hints"].call(LINK) }
      decided << 1
      ok
    end
    wire = connect << get("/a")
    decided.pop(timeout: 10) or flunk("the fetch waits for its client")
    wait_until("the end of the fetch") { @cache.stats[:fetching].zero? }
    assert_equal "content", ask(get("/a")).body, "the others have the response already"
    proceed.close
    assert_equal "content", wire.answer.body
    assert_equal [17, 1], [taken, @calls]
  end

  # More than the sockets take. The client's fiber waits in the middle of one.
  def test_a_client_that_reads_nothing_does_not_hold_up_the_fetch
    large = {"x" => "y" * 60_000}
    cached { |env| 300.times { env["rack.early_hints"].call(large) || sleep(0) } && ok }
    slow = connect(receive: 4_096) << get("/a")
    wait_until("the end of the fetch") { @calls == 1 && @cache.stats[:fetching].zero? }
    assert_equal [0, 1], [@ended, @calls], "the first one still takes interim responses"
    assert_equal "content", ask(get("/a")).body
    answer = slow.answer
    assert_equal [200, "content", 1], [answer.status, answer.body, @calls]
    assert_operator answer.interim.size, :<, 300
  end

  # The client's way is its request's: it belongs to the fiber that serves the request.
  def test_the_fiber_is_the_clients
    fibers = {}
    cached(wrap: ->(cache) { ->(env) { cache.call(env.merge("rack.early_hints" => ->(_) { fibers[:hints] = Fiber.current }, "x" => fibers[:client] = Fiber.current)) } }, allow_env: ["x"]) do |env|
      fibers[:fetch] = Fiber.current
      env["rack.early_hints"].call(LINK)
      ok
    end
    assert_equal "content", ask(get("/a")).body
    assert_same fibers[:client], fibers[:hints]
    refute_same fibers[:fetch], fibers[:hints]
  end

  def test_the_app_may_change_its_headers_afterwards
    cached do |env|
      headers = {"link" => +"</a>", "x" => [+"y"]}
      env["rack.early_hints"].call(headers)
      headers.each_value { |value| Array(value).each(&:clear) }
      headers.clear
      ok
    end
    assert_equal [[103, [%w[link </a>], %w[x y]]]], interim_of(ask(get("/a")))
  end

  # As in the server: an app may leave a header out in this way.
  def test_a_header_without_a_value_is_no_field
    cached { |env| env["rack.early_hints"].call("link" => nil, "x" => "y") || ok }
    assert_equal [[103, [%w[x y]]]], interim_of(ask(get("/a")))
  end

  def test_what_the_server_refuses_is_dropped_with_a_line
    cached { |env| env["neverblock.interim"].call(100, {}) || env["rack.early_hints"].call("a" => "\0") || env["rack.early_hints"].call(LINK) || ok }
    assert_equal [[103, [LINE]]], interim_of(ask(get("/a")))
    assert_equal 2, proxy_log.scan("NeverBlock::Cache: an interim response is not sent").size
  end

  # The server's way is for its own thread alone.
  def test_a_client_that_is_served_on_another_thread_has_none
    cached(wrap: ->(cache) { ->(env) { Thread.new { cache.call(env) }.value } }) { |env| env["rack.early_hints"].call(LINK) || ok }
    assert_equal [[], 200, "content"], ask(get("/a")).then { |answer| [interim_of(answer), answer.status, answer.body] }
  end

  def test_too_late_is_dropped
    cached { |env| [200, {**FRESH}, Enumerator.new { |chunks| env["rack.early_hints"].call(LINK) || chunks << "content" }] }
    assert_equal [[], "content"], ask(get("/a")).then { |answer| [answer.interim, answer.body] }
  end

  def test_a_client_of_http_1_0_has_none
    cached { |env| env["rack.early_hints"].call(LINK) || env["neverblock.interim"].call(102, {}) || ok }
    assert_equal [[], "content"], ask(get("/a", version: "1.0")).then { |answer| [answer.interim, answer.body] }
  end

  def test_the_fetch_has_what_the_client_has
    [%w[rack.early_hints], %w[neverblock.interim], %w[rack.early_hints neverblock.interim], []].each do |names|
      found = nil
      cached(wrap: ->(cache) { ->(env) { cache.call(env.except(*(%w[rack.early_hints neverblock.interim] - names))) } }) do |env|
        found = env.keys & %w[rack.early_hints neverblock.interim]
        ok
      end
      assert_equal "content", ask(get("/a")).body
      assert_equal names, found
    end
  end

  def test_a_response_for_one_client_and_a_failure_have_them_too
    cached do |env|
      env["rack.early_hints"].call(LINK)
      raise "away" if env["PATH_INFO"] == "/failure"
      [200, {"cache-control" => "no-store"}, ["mine"]]
    end
    assert_equal [[[103, [LINE]]], "mine"], ask(get("/a")).then { |answer| [interim_of(answer), answer.body] }
    assert_equal [[[103, [LINE]]], 500], ask(get("/failure")).then { |answer| [interim_of(answer), answer.status] }
    assert_match(/away/, await_log.join)
  end

  def test_a_refresh_in_the_background_has_none
    found = gate
    cached do |env|
      found << env.key?("rack.early_hints")
      [200, {"cache-control" => "max-age=0, stale-while-revalidate=60"}, ["content"]]
    end
    2.times { assert_equal [[], "content"], ask(get("/a")).then { |answer| [answer.interim, answer.body] } }
    assert_equal [true, false], [found.pop(timeout: 10), found.pop(timeout: 10)]
    wait_until("the end of the fetch") { @cache.stats[:fetching].zero? }
  end

  # ---- through the proxy ----

  HEAD = "HTTP/1.1 102 x\r\nX: 1\r\n\r\nHTTP/1.1 103 x\r\nLink: </a>\r\nConnection: y\r\nY: 2\r\n\r\nHTTP/1.1 104 x\r\n\r\n"
  INTERIM = [[102, [%w[x 1]]], [103, [%w[link </a>]]], [104, []]].freeze
  STORED = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok"

  def test_through_the_proxy
    proxied { |peer| peer << HEAD << STORED while peer.request }
    assert_equal [INTERIM, "ok"], ask(get("/a")).then { |answer| [interim_of(answer), answer.body] }
    assert_equal [[], "ok"], ask(get("/a")).then { |answer| [interim_of(answer), answer.body] }
    assert_equal 1, scripted.requests.size
    assert_equal [[], "ok"], ask(get("/b", version: "1.0")).then { |answer| [interim_of(answer), answer.body] }
  end

  def test_a_validation_through_the_proxy
    proxied do |peer|
      peer.request and peer << HEAD << "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"1\"\r\nContent-Length: 2\r\n\r\nok"
      peer << HEAD << "HTTP/1.1 304 x\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\n\r\n" while peer.request
    end
    2.times { assert_equal [INTERIM, "ok"], ask(get("/a")).then { |answer| [interim_of(answer), answer.body] } }
    assert_match(/^if-none-match: "1"/i, sent)
    assert_equal [[], "ok"], ask(get("/a")).then { |answer| [interim_of(answer), answer.body] }
    assert_equal 2, scripted.requests.size
  end

  def test_a_client_leaves_the_proxy_and_another_follows
    proceed = gate
    proxied { |peer| peer.request and peer << HEAD and proceed.pop and peer << HEAD << STORED }
    first = connect << get("/a")
    assert_equal 102, first.read_head.status
    other = connect << get("/a")
    wait_until("the wait of both") { @cache.stats[:waiting] == 2 }
    first.reset
    wait_until("the end of the first one") { @ended == 1 }
    proceed << 1
    assert_equal [[], "ok"], other.answer.then { |answer| [answer.interim, answer.body] }
    assert_equal [[], "ok", 1], ask(get("/a")).then { |answer| [answer.interim, answer.body, scripted.requests.size] }
  end

  private

  def cached(server: {}, wrap: nil, **options, &app)
    @calls = 0
    @cache = NeverBlock::Cache.new(->(env) { (@calls += 1) && app.call(env) }, **options)
    wrapped = counted(wrap ? wrap.call(@cache) : @cache)
    said = @proxy_log = StringIO.new
    serve(->(env) { wrapped.call(env.merge!("rack.errors" => said)) }, **server)
  end

  def proxied(&script) = front(script, wrap: ->(proxy) { counted(@cache = NeverBlock::Cache.new(proxy)) })

  # Counts the requests that are over, as far as the app is concerned.
  def counted(app)
    @ended = 0
    lambda do |env|
      app.call(env)
    ensure
      @ended += 1
    end
  end

  def ok = [200, {**FRESH}, ["content"]]

  def interim_of(answer) = answer.interim.map { |one| [one.status, one.fields.map { |name, value| [name.downcase, value] }] }
end
