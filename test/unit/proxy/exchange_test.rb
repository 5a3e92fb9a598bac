# frozen_string_literal: true

require "test_helper"
require "stringio"
require "support/proxied"

# What comes of a response: its content, trailers, interim responses, an upgrade; and what is sent of a request.
class ProxyExchangeTest < Minitest::Test
  include NeverBlockTest::Proxied

  # Responds to one request with these bytes, each cut on its own, and closes.
  def respond(*pieces, wait: false)
    play(->(peer) do
      next unless peer.request
      pieces.each { |piece| peer << piece }
      peer.ended? if wait
    end)
  end

  def test_a_length
    respond("HTTP/1.1 200 Fine\r\nContent-Length: 5\r\nETag: a\r\nVary: b\r\nVary: c\r\n\r\nhello", wait: true)
    response = ask
    assert_equal [200, "1.1", "Fine", 5, "a", "b, c", nil], [response.status, response.version, response.phrase, response.length, response["etag"], response["vary"], response["x"]]
    assert_equal %w[content-length etag vary vary], response.fields.map(&:first)
    assert_equal "hello", content(response)
    assert_predicate response, :ended?
    assert_nil response.read
  end

  def test_each_byte_by_itself
    respond(*"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nDigest: x\r\n\r\n".chars, wait: true)
    response = ask
    assert_equal "hello", content(response)
    assert_equal [%w[digest x]], response.trailers
  end

  def test_content_that_is_larger_than_all_buffers
    long = Random.bytes(1 << 20)
    chunked = long.scan(/.{1,10007}/mn).map { |piece| "#{piece.bytesize.to_s(16)}\r\n#{piece}\r\n" }.join
    heads = ["Content-Length: #{long.bytesize}", "Transfer-Encoding: chunked", "A: b"]
    contents = [long, "#{chunked}0\r\n\r\n", long]
    play(*heads.zip(contents).map { |field, bytes| ->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\nConnection: close\r\n#{field}\r\n\r\n" << bytes } })
    3.times do
      response = ask
      pieces = response.to_a
      assert_operator pieces.map(&:bytesize).max, :<=, 65_536
      assert_equal long, pieces.join.b
    end
  end

  def test_responses_without_content
    play(->(peer) do
      while (request = peer.request)
        peer << (request.start_with?("HEAD") ? "HTTP/1.1 200 x\r\nContent-Length: 5\r\n\r\n" : "HTTP/1.1 #{request[/\d\d\d/]} x\r\n\r\n")
      end
    end)
    shown = ->(response) { [response.status, response.read, response.ended?] }
    assert_equal [204, nil, true], shown.call(ask("GET", "/204"))
    assert_equal [304, nil, true], shown.call(ask("GET", "/304"))
    assert_equal [200, nil, true], shown.call(ask("HEAD", "/"))
    assert_equal 5, ask("HEAD").length
    assert_equal 1, scripted.connections
  end

  def test_what_has_come_with_the_head
    {"Content-Length: 5\r\n\r\nhe" => "he", "Content-Length: 2\r\n\r\nhe" => "he", "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n" => "he", "A: b\r\n\r\nhe" => "he",
     "Content-Length: 5\r\n\r\n" => nil, "Transfer-Encoding: chunked\r\n\r\n" => nil, "Transfer-Encoding: chunked\r\n\r\n2" => nil, "A: b\r\n\r\n" => nil}.each do |rest, ahead|
      respond("HTTP/1.1 200 OK\r\n#{rest}", wait: true)
      response = ask
      assert_equal [ahead, rest.include?(": 2")], [response.read_ahead, response.ended?], rest
      response.close
      pool.close
      scripted.close
    end
  end

  def test_what_has_come_with_the_head_may_be_invalid
    respond("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    assert_held_none_after(Proxy::InvalidResponse) { ask.read_ahead }
  end

  # TLS is read without a wait: the end may be there.
  def test_an_end_that_has_come_with_the_head
    head = ->(delimiter) { Proxy::ResponseHead.new([200, 1, "OK", [], delimiter, 5, true, false, 0]) }
    ended = Struct.new(:unread, :drained?, :receive_now) { def lost(text, phase) = raise(Proxy::ConnectionLost.new(text, phase:)) }
    assert_raises(Proxy::ConnectionLost) { Proxy::Content.new(ended.new("", false, false), head.call(:length), nil).ahead }
    assert_nil Proxy::Content.new(ended.new("", false, nil), head.call(:length), nil).ahead
    assert_nil Proxy::Content.new(ended.new("", true, false), head.call(:length), nil).ahead
    content = Proxy::Content.new(ended.new("", false, false), head.call(:close), nil)
    assert_equal [nil, true], [content.ahead, content.ended?]
  end

  # The first response ended; the second one never came.
  def test_an_exchange_that_is_called_again
    play(->(peer) { peer.request and peer << "HTTP/1.1 204 x\r\nConnection: close\r\n\r\n" }, ->(peer) { peer.request })
    exchange = Proxy::Exchange.new(pool, Proxy::Request.new("GET", "/"))
    assert_equal 204, exchange.call(&:status)
    assert_held_none_after(Proxy::ConnectionLost) { exchange.call(&:status) }
  end

  def test_a_block_closes_the_response
    respond("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", wait: true)
    exchange = NeverBlock::Proxy::Exchange.new(pool, NeverBlock::Proxy::Request.new("GET", "/"))
    kept = nil
    assert_equal "he", exchange.call { |response| (kept = response).read }
    assert_raises(NeverBlock::ClosedError) { kept.read }
    assert_equal 0, pool.stats[:open]
  end

  def test_nothing_is_read_ahead
    long = 8 << 20
    written = 0
    writer = nil
    play(->(peer) do
      writer = Thread.current
      peer.request
      peer << "HTTP/1.1 200 OK\r\nContent-Length: #{long}\r\n\r\n"
      while written < long
        written += peer.io.write_nonblock("x" * 65_536, exception: false).then { |count| (Integer === count) ? count : (peer.io.wait_writable && 0) }
      end
      peer.ended?
    end)
    response = ask
    first = response.read
    settle(writer)
    assert_operator written, :<, long
    assert_equal long, first.bytesize + response.sum(&:bytesize)
  end

  # ---- interim responses and upgrades ----
  def test_interim_responses_reach_the_caller_in_order
    respond("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nLink: </a>\r\n\r\n", "HTTP/1.1 102 x\r\n\r\n#{OK}", wait: true)
    seen = []
    response = ask(on_interim: ->(status, fields) { seen << [status, fields] })
    assert_equal [[100, []], [103, [%w[link </a>]]], [102, []]], seen
    assert_equal "ok", content(response)
    assert_equal 1, pool.stats[:idle]
  end

  def test_endless_interim_responses_end_the_exchange
    play(->(peer) { peer.request and loop { peer << "HTTP/1.1 103 x\r\n\r\n" * 99 } })
    assert_match(/more than 32 interim/, assert_held_none_after(Proxy::InvalidResponse) { ask }.message)
  end

  def test_an_error_of_the_callback_ends_the_exchange
    respond("HTTP/1.1 103 x\r\n\r\n#{OK}", wait: true)
    assert_held_none_after(KeyError) { ask(on_interim: ->(*) { raise KeyError }) }
  end

  SWITCH = "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n"

  def test_an_upgrade_hands_over_the_socket_and_what_came_with_the_head
    play(->(peer) { peer.head and peer << "#{SWITCH}early" and peer << peer.io.readpartial(10).upcase })
    response = ask("GET", "/", upgrade: "websocket")
    assert_predicate response, :upgraded?
    assert_nil response.read
    io, bytes = response.detach
    assert_equal 0, pool.stats[:open]
    assert_raises(NeverBlock::ClosedError) { response.detach }
    response.close
    bytes += io.readpartial(10) while bytes.bytesize < 5
    assert_equal "early", bytes
    io.write("hello")
    assert_equal "HELLO", io.readpartial(10)
    io.close
  end

  def test_an_upgrade_that_is_not_taken_is_closed
    play(->(peer) { peer.head and peer << SWITCH and peer.ended? })
    ask("GET", "/", upgrade: "websocket").close
    assert_equal 0, pool.stats[:open]
  end

  {
    "no_upgrade_was_asked_for" => [{}, SWITCH],
    "another_protocol" => [{upgrade: "h2c"}, SWITCH],
    "two_protocols" => [{upgrade: "websocket"}, SWITCH.sub("WebSocket", "websocket\r\nUpgrade: h2c")],
    "a_list_of_protocols" => [{upgrade: "websocket"}, SWITCH.sub("WebSocket", "websocket, h2c")],
    "no_protocol" => [{upgrade: "websocket"}, "HTTP/1.1 101 x\r\nConnection: upgrade\r\n\r\n"],
    "a_connection_that_does_not_list_it" => [{upgrade: "websocket"}, "HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n"]
  }.each do |name, (options, bytes)|
    define_method("test_101_with_#{name}_is_no_tunnel") do
      play(->(peer) { peer.head and peer << bytes and peer.ended? })
      assert_match(/: 101 /, assert_held_none_after(Proxy::InvalidResponse) { ask("GET", "/", **options) }.message)
    end
  end

  def test_an_upgrade_that_is_refused_is_a_usual_response
    play(KEEP)
    assert_equal "ok", content(ask("GET", "/", upgrade: "websocket"))
    assert_equal 1, pool.stats[:idle]
  end

  # ---- requests with content ----
  def test_content_of_each_kind
    play(KEEP)
    content(ask("POST", "/", body: "abc"))
    content(ask("POST", "/", body: StringIO.new("abc"), length: 3))
    content(ask("POST", "/", body: StringIO.new("abc")))
    content(ask("POST", "/", body: %w[ab c]))
    assert_equal %w[abc abc], scripted.requests.first(2).map { |request| request.split("\r\n\r\n", 2).last }
    assert_equal ["3\r\nabc\r\n0\r\n\r\n", "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"], scripted.requests.last(2).map { |request| request.split("\r\n\r\n", 2).last }
    assert_equal 1, scripted.connections
  end

  slow "collects garbage at each allocation"
  def test_an_exchange_under_gc_stress
    respond("HTTP/1.1 103 x\r\nLink: a\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", "llo\r\n0\r\nDigest: x\r\n\r\n", wait: true)
    seen = []
    GC.stress = 1 # without full collections, which take as long as all that other tests have left is large
    response = ask("POST", "/", body: StringIO.new("abc"), on_interim: ->(status, fields) { GC.start || seen << [status, fields] })
    GC.start
    text = response.each.map { |piece| GC.start || piece }.join
    GC.stress = false
    assert_equal [[[103, [%w[link a]]]], "hello", [%w[digest x]]], [seen, text, response.trailers]
  ensure
    GC.stress = false
  end

  def test_content_that_is_larger_than_all_buffers_is_sent
    long = Random.bytes(4 << 20)
    play(KEEP)
    content(ask("PUT", "/", body: StringIO.new(long)))
    assert_operator scripted.requests.last.bytesize, :>, long.bytesize
    assert_equal 1, pool.stats[:idle]
  end

  def test_an_early_response_while_the_socket_is_full
    play(->(peer) { peer.head and peer << "HTTP/1.1 413 x\r\nContent-Length: 3\r\n\r\nbig" and peer.hold })
    response = ask("POST", "/", body: StringIO.new("x" * (16 << 20)))
    assert_equal [413, "big"], [response.status, content(response)]
    assert_equal 0, pool.stats[:open]
  end

  def test_an_early_response_between_two_pieces
    gate = Thread::Queue.new
    play(->(peer) { peer.head and peer << "HTTP/1.1 401 x\r\nContent-Length: 0\r\n\r\n" and gate << 1 and peer.ended? and gate << 2 })
    taken = 0
    body = Enumerator.new do |pieces|
      pieces << "first"
      gate.pop
      loop { (taken += 1) && (pieces << "more") }
    end
    assert_equal 401, ask("POST", "/", body: body).status
    assert_operator taken, :<, 1_000_000
    assert_equal 0, pool.stats[:open]
  end

  def test_an_early_response_and_a_connection_that_is_then_closed
    read = Thread::Queue.new
    play(->(peer) { peer.head and peer << "HTTP/1.1 413 x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" and peer.io.close_write and read.pop })
    assert_equal 413, ask("POST", "/", body: StringIO.new("x" * (8 << 20))).status
    read << true
    assert_equal 0, pool.stats[:open]
  end

  def test_interim_responses_while_content_is_sent
    play(->(peer) { peer.head and peer << "HTTP/1.1 102 x\r\n\r\n" and peer.io.read("5\r\nhello\r\n0\r\n\r\n".bytesize) and peer << OK and peer.ended? })
    seen = []
    body = Enumerator.new do |pieces|
      wait_until { !scripted.requests.empty? }
      pieces << "hello"
    end
    assert_equal "ok", content(ask("POST", "/", body:, on_interim: ->(status, _) { seen << status }))
    assert_equal [102], seen
    assert_equal 1, pool.stats[:idle]
  end

  def test_an_expectation_waits_for_its_consent
    play(->(peer) do
      peer.head
      peer << "HTTP/1.1 100 Continue\r\n\r\n"
      scripted.requests << peer.io.readpartial(10)
      peer << OK
      peer.ended?
    end)
    assert_equal "ok", content(ask("POST", "/", body: "abc", expect_continue: true))
    assert_equal "abc", scripted.requests.last
    assert_equal 1, pool.stats[:idle]
  end

  def test_an_expectation_that_is_refused_sends_no_content
    play(->(peer) { peer.head and peer << "HTTP/1.1 417 x\r\nContent-Length: 0\r\n\r\n" and scripted.requests << peer.ended? })
    assert_equal 417, ask("POST", "/", body: "abc", expect_continue: true).status
    wait_until { scripted.requests.size == 2 }
    assert_equal true, scripted.requests.last
    assert_equal 0, pool.stats[:open]
  end

  slow "waits for a second"
  def test_an_expectation_without_an_answer_is_given_up
    play(KEEP)
    assert_equal "ok", content(ask("POST", "/", body: "abc", expect_continue: true))
  end

  def test_a_source_that_fails_or_lies_leaves_no_connection
    play(KEEP)
    assert_held_none_after(KeyError) { ask("POST", "/", body: Enumerator.new { |pieces| (pieces << "a") && raise(KeyError) }) }
    assert_held_none_after(Proxy::InvalidBody) { ask("POST", "/", body: StringIO.new("abc"), length: 4) }
    assert_held_none_after(Proxy::InvalidBody) { ask("POST", "/", body: StringIO.new("abc"), length: 2) }
    refute(scripted.requests.any? { |request| request.end_with?("abc") && request.include?("Content-Length: 2") })
  end

  class Outside < self
    include NeverBlockTest::Proxied::Outside
  end
end
