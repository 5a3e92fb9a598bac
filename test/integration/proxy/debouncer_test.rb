# frozen_string_literal: true

require "test_helper"
require "net/http"
require "support/fronted"
require "support/peer"

# The request debouncer of 2013 gave one response to all that asked for a URL at the same time, and for 20 s after.
# `neverblock proxy --ttl 20 --collapse=same-url` does so too. Each hole of the old one is a test by its name.
class DebouncerTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Fronted

  PLAIN = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"

  # @param options [Hash] of the cache
  def debounce(*scripts, cache: {}, **)
    wrap = ->(proxy) { @cache = NeverBlock::Cache.new(proxy, default_ttl: 20, same_url: true, **cache).then { |inner| ->(env) { proxy.refuse(env) || inner.call(env) } } }
    front(*scripts, wrap:, **)
  end

  # Responds to each request, with its number as the content.
  def numbered(*lines, status: "200 OK")
    count = 0
    ->(peer) do
      while peer.request
        text = (count += 1).to_s
        peer << ["HTTP/1.1 #{status}", *lines, "Content-Length: #{text.bytesize}", "", text].join("\r\n")
      end
    end
  end

  # Responds when the test says so.
  def held(response = OK)
    @gate = gate
    ->(peer) { peer << response while peer.request && @gate.pop }
  end

  def bodies(*requests) = requests.map { |bytes| ask(bytes).body }

  def await_waiting(count)
    wait_until("#{count} requests in flight") { server.stats.values_at(:in_flight, :streams).sum == count && scripted.requests.size >= 1 }
  end

  # ---- what it is for ----

  def test_simultaneous_requests_for_one_url_are_one_request
    debounce(held)
    clients = Array.new(50) { |number| connect << get("/report", "User-Agent: #{number}", "X-Number: #{number}") }
    await_waiting(50)
    @gate << 1
    assert_equal ["ok"], clients.map { |wire| wire.answer.body }.uniq
    assert_equal 1, scripted.requests.size
  end

  def test_the_response_is_used_again
    debounce(numbered)
    assert_equal %w[1 1 1], bodies(get, get("/", "X-Number: 2"), get("/", "Referer: x"))
  end

  def test_other_methods_pass
    debounce(numbered)
    assert_equal %w[1 2 3 4], bodies(post("/", "x"), post("/", "x"), request("PUT", "/", body: "x"), request("DELETE", "/"))
  end

  # ---- the key was method and URL only ----

  def test_hole_the_key_has_no_host
    debounce(numbered)
    assert_equal %w[1 2 1], bodies(get("/", host: "a"), get("/", host: "b"), get("/", host: "A"))
  end

  def test_hole_the_key_has_no_scheme
    wrap = ->(proxy) do
      cache = NeverBlock::Cache.new(proxy, default_ttl: 20, same_url: true)
      ->(env) { cache.call(env.merge("rack.url_scheme" => env["PATH_INFO"].delete("/").then { |one| one.empty? ? "http" : one }, "PATH_INFO" => "/", "REQUEST_URI" => "/")) }
    end
    front(numbered, wrap:)
    assert_equal %w[1 2 1 2], bodies(get("/http"), get("/https"), get("/http"), get("/https"))
  end

  def test_hole_the_key_has_no_params
    debounce(numbered)
    assert_equal %w[1 2 3 1], bodies(get("/?a=1"), get("/?a=2"), get("/"), get("/?a=1"))
  end

  # ---- it stored everything ----

  def test_hole_every_status_was_cached
    %w[400 401 403 404 410 429 500 501 502 503 504 302 303 307].each do |status|
      debounce(numbered(status: "#{status} x"))
      assert_equal %w[1 2], bodies(get, get), status
      proxy.close
      scripted.close
    end
  end

  def test_hole_cache_control_was_ignored
    ["private", "no-store", "no-cache", "max-age=0", "private, max-age=60", "no-store, s-maxage=60", "bad=\"", "public, max-age=x"].each do |value|
      debounce(numbered("Cache-Control: #{value}"))
      assert_equal %w[1 2], bodies(get, get), value
      proxy.close
      scripted.close
    end
  end

  def test_hole_expires_and_pragma_were_ignored
    ["Expires: 0", "Expires: Thu, 01 Jan 1970 00:00:00 GMT", "Pragma: no-cache"].each do |line|
      debounce(numbered(line))
      assert_equal %w[1 2], bodies(get, get), line
      proxy.close
      scripted.close
    end
  end

  def test_hole_vary_was_ignored
    debounce(numbered("Vary: Accept-Language, X-Theme"))
    # The first was asked for without the header.
    assert_equal %w[2 3 2], bodies(get("/", "Accept-Language: de"), get("/", "Accept-Language: en"), get("/", "Accept-Language: de"))
    assert_equal "en", sent_fields["accept-language"]
    dark = bodies(get("/", "X-Theme: dark"), get("/", "X-Theme: light"), get("/", "X-Theme: dark"))
    assert_equal [dark.first], dark.values_at(0, 2).uniq
    refute_equal dark[0], dark[1]
  end

  # An upstream that negotiates and does not say so: one client's header would decide for all.
  def test_a_client_does_not_choose_the_form_for_others
    debounce(numbered("Content-Type: text/plain"))
    lines = ["Accept: application/json", "Accept-Language: de", "Accept-Encoding: zstd", "Accept-Charset: x"]
    assert_equal %w[1 1], bodies(get("/", *lines), get("/", "Accept: text/html"))
    assert_empty sent_fields.keys.grep(/accept/)
  end

  def test_without_same_url_each_form_is_kept_by_itself
    debounce(numbered, cache: {same_url: false})
    ["Accept: a/b", "Accept-Language: de", "Accept-Encoding: zstd", "Accept-Charset: x"].each.with_index(1) do |line, number|
      assert_equal [number.to_s] * 2, bodies(get("/", line), get("/", line)), line
      name, value = line.downcase.split(": ")
      assert_equal value, sent_fields[name]
    end
    assert_equal %w[5 5], bodies(get, get)
    assert_nil ask(get)["vary"]
  end

  def test_without_same_url_those_that_wait_get_their_own_form
    debounce(held, cache: {same_url: false})
    clients = %w[a/a b/b a/a b/b].map { |type| connect << get("/", "Accept: #{type}") }
    await_waiting(4)
    4.times { @gate << 1 }
    assert_equal [200], clients.map { |wire| wire.answer.status }.uniq
    assert_equal %w[a/a b/b], scripted.requests.map { |text| text[/^accept: (.*)\r/, 1] }.sort
  end

  def test_hole_vary_on_anything_was_ignored
    ["*", "Cookie", "Authorization"].each do |value|
      debounce(numbered("Vary: #{value}"))
      assert_equal %w[1 2], bodies(get, get), value
      proxy.close
      scripted.close
    end
  end

  def test_hole_authorization_and_cookies_were_ignored
    debounce(numbered)
    credentials = ["Authorization: Basic x", "Cookie: session=1", "X-Api-Key: 1", "X-Auth-Token: 1"]
    assert_equal %w[1 2 3 4], bodies(*credentials.map { |line| get("/", line) })
    assert_equal %w[5 5], bodies(get, get)
    assert_equal "6", ask(get("/", "Cookie: session=2")).body
    assert_equal "session=2", sent_fields["cookie"]
  end

  # While a request without credentials is under way, one with does not wait for it, nor the other way round.
  def test_hole_requests_with_credentials_waited_for_others
    debounce(held)
    plain = connect << get
    wait_until("the first request") { scripted.requests.size == 1 }
    own = connect << get("/", "Cookie: a=b")
    wait_until("the second request") { scripted.requests.size == 2 }
    2.times { @gate << 1 }
    assert_equal [200, 200], [plain, own].map { |wire| wire.answer.status }
  end

  def test_hole_set_cookie_was_shared
    debounce(numbered("Set-Cookie: session=secret"))
    assert_equal %w[1 2], bodies(get, get)
    debounce(held("HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 2\r\n\r\nok"))
    clients = Array.new(5) { connect << get("/cookie") }
    await_waiting(5)
    5.times { @gate << 1 }
    assert_equal [["a=b"]], clients.map { |wire| wire.answer.all("set-cookie") }.uniq
    assert_equal 5, scripted.requests.size
  end

  def test_what_forbids_to_share_is_not_removed_by_connection
    ["Set-Cookie: a=b", "Cache-Control: private", "Vary: Cookie"].each do |line|
      debounce(numbered(line, "Connection: #{line[/\A[^:]+/]}"))
      assert_equal %w[1 2], bodies(get, get), line
      proxy.close
      scripted.close
    end
  end

  # The content that the upstream means is another one.
  def test_a_response_whose_content_is_elsewhere_is_not_shared
    ["X-Accel-Redirect: /a", "X-Sendfile: /a", "X-Reproxy-URL: http://a"].each do |line|
      debounce(numbered(line, "Cache-Control: public, max-age=60"), cache: {details: true})
      assert_equal %w[1 2 3], bodies(get, get, get), line
      assert_match(/detail=unshared/, ask(get)["cache-status"])
      proxy.close
      scripted.close
    end
  end

  # ---- it held the whole content ----

  def test_hole_the_content_was_buffered_without_limit
    size = 4 << 20
    debounce(->(peer) { peer << "#{PLAIN}Transfer-Encoding: chunked\r\n\r\n" << "10000\r\n#{"x" * 65_536}\r\n" * (size >> 16) << "0\r\n\r\n" while peer.request },
      cache: {memory: "64 KiB", spool: 0, window: "256 KiB", store: "memory:1m"})
    2.times { assert_equal size, ask(get).body.bytesize }
    assert_equal 2, scripted.requests.size
  end

  # The first piece is there before the last one has come.
  def test_hole_nothing_was_sent_before_the_end
    @gate = gate
    debounce(->(peer) { peer.request and peer << "#{PLAIN}Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n" and @gate.pop and peer << "0\r\n\r\n" })
    wire = connect << get
    text = +""
    text << wire.socket.readpartial(1_000) until text.include?("first")
    @gate << 1
    assert_operator text + wire.socket.readpartial(100), :end_with?, "0\r\n\r\n"
  end

  # ---- its headers ----

  def test_hole_some_headers_of_the_response_were_missing
    lines = ["ETag: \"a\"", "Content-Language: de", "Link: </a>", "Link: </b>", "X-Own: 1", "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT", "Content-Type: text/x"]
    debounce(numbered(*lines, "Connection: x-hop", "X-Hop: 1", "Keep-Alive: 5"))
    first, second = Array.new(2) { ask(get) }
    [first, second].each do |answer|
      assert_equal ["\"a\"", "de", "1", "text/x", nil], %w[etag content-language x-own content-type x-hop].map { |name| answer[name] }
      assert_equal %w[</a> </b>], answer.all("link").flat_map { |value| value.split(", ") }
    end
    assert_match(/\ANeverBlock; hit/, second["cache-status"])
  end

  def test_hole_the_first_clients_headers_reached_the_origin_for_all
    debounce(numbered)
    ask(get("/", "User-Agent: one", "X-Forwarded-For: 1.1.1.1", "Referer: secret", "X-Own: 1"))
    assert_equal %w[host via x-forwarded-for x-forwarded-host x-forwarded-proto], sent_fields.keys.sort
  end

  # The upstream's peer is the proxy: of a fetch without an address it would say that its client is local.
  def test_a_fetch_is_of_no_local_client
    debounce(numbered)
    2.times { ask(get("/", "X-Forwarded-For: 127.0.0.1")) }
    assert_equal ["0.0.0.0", 1], [sent_fields["x-forwarded-for"], scripted.requests.size]
  end

  # An upstream may redirect the one to the other.
  def test_a_url_with_an_empty_query_is_fetched_as_the_one_without
    debounce(->(peer) do
      while (text = peer.request)
        peer << (text.start_with?("GET /a? ") ? "HTTP/1.1 301 x\r\nLocation: /a\r\nContent-Length: 0\r\n\r\n" : OK)
      end
    end)
    assert_equal [200, 200], [get("/a?"), get("/a")].map { |bytes| ask(bytes).status }
    assert_equal ["GET /a HTTP/1.1"], scripted.requests.map { |text| text.lines(chomp: true).first }
  end

  # Two of them ask each other: the first gets its own request, and would wait for itself.
  def test_a_ring_of_caching_proxies_is_a_loop
    other = nil
    back = ->(env) { other.call(env) }
    port = NeverBlockTest::Peer.free_port
    front_of("http://127.0.0.1:#{port}", wrap: ->(proxy) { ring(proxy) })
    second = NeverBlock::Proxy.new(server.addresses.first.sub("tcp:", "http:"), via: "there")
    other = ring(second)
    servers << NeverBlock::Server.new(back, bind: "tcp://127.0.0.1:#{port}", error_log: errors, request_body: :stream).start
    assert_equal 508, ask(get("/", "Via: 1.1 elsewhere")).status
  ensure
    second&.close
  end

  # The cache that `neverblock proxy` has in front.
  def ring(proxy)
    cache = NeverBlock::Cache.new(proxy, default_ttl: 20, same_url: true, pass_headers: ["via"])
    ->(env) { proxy.refuse(env) || cache.call(env) }
  end

  # ---- its failures ----

  def test_hole_a_first_client_that_left_gave_all_others_502
    debounce(held)
    first = connect << get
    wait_until("the first request") { scripted.requests.size == 1 }
    others = Array.new(10) { connect << get }
    await_waiting(11)
    first.close
    @gate << 1
    assert_equal [[200, "ok"]], others.map { |wire| wire.answer.then { |answer| [answer.status, answer.body] } }.uniq
    assert_equal 1, scripted.requests.size
  end

  # The timer of an old response removed the one that had taken its place.
  def test_hole_a_timer_removed_a_newer_response
    count = 0
    debounce(->(peer) { peer << "HTTP/1.1 200 OK\r\n#{"Cache-Control: max-age=1\r\n" if count.zero?}Content-Length: 1\r\n\r\n#{count += 1}" while peer.request })
    assert_equal "1", ask(get).body
    wait_until("a newer response") { ask(get).body == "2" }
    assert_equal %w[2 2 2], bodies(get, get, get)
  end

  def test_hole_any_number_of_requests_waited
    debounce(held, cache: {max_waiting: 5})
    clients = Array.new(9) { connect << get }
    wait_until("those beyond the limit, of #{scripted.requests.size}") { scripted.requests.size == 5 }
    5.times { @gate << 1 }
    assert_equal [200], clients.map { |wire| wire.answer.status }.uniq
    assert_equal 5, scripted.requests.size
  end

  def test_hole_each_process_had_responses_of_its_own
    Dir.mktmpdir do |folder|
      debounce(numbered, cache: {store: "file:#{folder}/cache?bytes=1m"})
      assert_equal "1", ask(get).body
      other = NeverBlock::Cache.new(->(_env) { flunk "the app was asked" }, default_ttl: 20, same_url: true, store: "file:#{folder}/cache?bytes=1m")
      env = {"REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/", "QUERY_STRING" => "", "HTTP_HOST" => "example.org", "rack.url_scheme" => "http"}
      assert_equal "1", other.call(env).last.to_enum.to_a.join
    end
  end

  # ---- beside it ----

  # A loop would wait for its own response.
  def test_a_loop_is_refused_before_the_cache
    debounce(numbered)
    assert_equal 508, ask(get("/", "Via: 1.1 here")).status
    assert_empty scripted.requests
  end

  def test_a_purge_by_a_client_is_an_unknown_method
    debounce(->(peer) { peer << (peer.request.to_s.start_with?("PURGE") ? "HTTP/1.1 405 x\r\nContent-Length: 0\r\n\r\n" : OK) until peer.io.closed? || peer.io.eof? })
    ask(get)
    assert_equal 405, ask(request("PURGE", "/")).status
    assert_match(/hit/, ask(get)["cache-status"])
  end

  def test_a_stream_of_events_is_for_one_client
    debounce(numbered("Content-Type: text/event-stream"))
    assert_equal %w[1 2], bodies(get, get)
  end

  def test_an_upstream_that_is_away_is_502_to_all_and_not_remembered
    up = false
    debounce(->(peer) { (peer << OK if up) while peer.request && up })
    assert_equal 502, ask(get).status
    up = true
    assert_equal 200, ask(get).status
  end
end
