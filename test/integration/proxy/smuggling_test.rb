# frozen_string_literal: true

# slow: starts servers

require "test_helper"
require "support/fronted"
require "support/recorded_back_ends"

# Messages that two readers could see as different messages do not pass the proxy, in neither direction.
class ProxySmugglingTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Fronted
  include NeverBlockTest::RecordedBackEnds

  FROM_CLIENTS = {
    "two ways to end" => "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths" => "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "a list of lengths" => "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 5\r\n\r\nabcde",
    "a signed length" => "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\nabcd",
    "an unknown coding" => "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked not last" => "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked twice" => "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon" => "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "a folded line" => "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "a bare LF" => "POST / HTTP/1.1\r\nHost: a\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "a bare CR" => "POST / HTTP/1.1\r\nHost: a\r\nX: a\rTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\nabcd",
    "a NUL" => "GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
    "two hosts" => "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "a chunk's size too long" => "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1ffffffffffffffff\r\n",
    "a chunk's size with a sign" => "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    "a chunk without its end" => "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX0\r\n\r\n"
  }.freeze

  FROM_UPSTREAMS = {
    "two ways to end" => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths" => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
    "a signed length" => "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab",
    "a folded line" => "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "a bare LF" => "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "a space before the colon" => "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
    "a NUL" => "HTTP/1.1 200 OK\r\nX: a\0\r\nContent-Length: 0\r\n\r\n",
    "an unknown coding" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a flood of interim responses" => "HTTP/1.1 102 x\r\n\r\n" * 100 + OK,
    "101 that was not asked for" => "HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "a status of two digits" => "HTTP/1.1 20 OK\r\n\r\n",
    "a version of its own" => "HTTP/2.0 200 OK\r\n\r\n"
  }.freeze

  INNER = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
  # What an app says about its content, and the content.
  LIES = {
    "a length that is too large" => [{"content-length" => "9"}, ["abc"]],
    "a length that is too small" => [{"content-length" => "3"}, ["abcHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"]],
    "a content of 204" => [{":status" => "204"}, ["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"]],
    "a content of 304" => [{":status" => "304"}, ["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"]],
    "chunks that are none" => [{"transfer-encoding" => "chunked"}, ["0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"]],
    "fields of the connection" => [{"connection" => "content-length, keep-alive", "keep-alive" => "timeout=100"}, ["abc"]]
  }.freeze

  # ---- from clients, to servers that read in ways of their own ----

  NeverBlockTest::RecordedBackEnds::NAMES.each do |name|
    define_method("test_no_client_smuggles_a_request_to_#{name}") do
      front_of(start_back_end(name))
      FROM_CLIENTS.each do |what, bytes|
        wire = connect
        wire << bytes + INNER
        assert_includes [400, 501], wire.answer.status, what
        assert_predicate wire, :ended?, what
        log
      end
      wire = connect
      wire << post("/one", INNER) << post_chunks("/two", [INNER]) << get("/three", "Content-Length: #{INNER.bytesize}") + INNER << get("/four")
      wait_until("the last one") { seen.last == "/four" }
      assert_equal %w[/one /two /three /four], seen.last(4)
      refute_includes seen, "/smuggled"
    end
  end

  # ---- from apps, by servers that believe them ----

  %w[ours puma].each do |name|
    define_method("test_no_app_smuggles_a_response_by_#{name}") do
      app = ->(env) do
        fields, content = LIES[env["HTTP_X_LIE"]]
        next [200, {}, [env["PATH_INFO"]]] unless fields
        [fields.fetch(":status", "200").to_i, fields.except(":status"), content]
      end
      front_of(start_back_end(name, app), timeouts: {idle: 0.2})
      LIES.each_key.with_index do |what, number|
        3.times { connect << get("/", "X-Lie: #{what}") }
        wait_until("the end of it") { proxy.stats.values.first[:in_flight].zero? && seen.count("/") == 3 * number + 3 }
        5.times { |turn| assert_equal "/own/#{turn}", ask(get("/own/#{turn}")).body, what }
      end
      log
    end
  end

  def test_underscores_do_not_pass_for_dashes
    front(KEEP)
    ask(get("/", "X_Forwarded_For: 1.1.1.1", "Content_Length: 5", "Transfer_Encoding: chunked"))
    assert_equal "127.0.0.1", sent_fields["x-forwarded-for"]
    refute_match(/length|encoding/i, sent)
  end

  def test_connection_can_not_take_away_what_the_proxy_adds
    front(KEEP)
    ask(get("/", "Connection: X-Forwarded-For, X-Forwarded-Proto, Via, Host, Content-Length"))
    assert_equal ["127.0.0.1", "http", "1.1 here", "example.org"], sent_fields.values_at("x-forwarded-for", "x-forwarded-proto", "via", "host")
  end

  # ---- from upstreams of any kind ----

  def test_no_upstream_smuggles_a_response
    FROM_UPSTREAMS.each do |what, bytes|
      front(->(peer) { peer.request and peer << bytes and peer.ended? })
      answer = ask(get)
      assert_equal [502, "here; error=http_protocol_error"], [answer.status, answer["proxy-status"]], what
      proxy.close
      scripted.close
    end
  end

  # They would be the response to the next client's request.
  def test_surplus_bytes_close_the_connection
    surplus = OK + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"
    front(->(peer) { peer << surplus while peer.request }, KEEP)
    assert_equal "ok", ask(get).body
    assert_equal "ok", ask(get).body
    assert_equal 2, scripted.connections
  end

  def test_bytes_between_two_responses_close_the_connection
    more = gate
    front(->(peer) { peer.request and peer << OK and more.pop and peer << "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen" and more.pop }, KEEP)
    assert_equal "ok", ask(get).body
    more << 1
    wait_until("the surplus bytes") { more.num_waiting == 1 && more.empty? }
    assert_equal "ok", ask(get).body
    assert_equal 2, scripted.connections
  end

  def teardown
    super
    stop_recorded
  end
end
