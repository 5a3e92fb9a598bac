# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"
require "support/fronted"

# Fields after the content of an upstream's response (RFC 9110 §6.5), through the proxy.
class ProxyTrailersTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Fronted

  TE = ["Connection: TE", "TE: trailers"].freeze
  HEAD = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"

  # @param trailers [Array<String>] lines
  def chunked(*trailers, head: HEAD, pieces: ["2\r\nab\r\n"])
    lambda do |peer|
      while peer.request
        peer << "#{head}\r\n"
        [*pieces, "0\r\n#{trailers.map { |line| "#{line}\r\n" }.join}\r\n"].each { |piece| peer << piece }
      end
    end
  end

  def test_they_reach_the_client
    front(chunked("Content-Digest: sha-256=:x:", "Server-Timing: db", "server-timing: app"))
    wire = connect
    2.times do
      answer = (wire << get("/", *TE)).answer
      assert_equal ["ab", [%w[content-digest sha-256=:x:], %w[server-timing db], %w[server-timing app]]], [answer.body, answer.trailers]
    end
    assert_equal %w[trailers TE], sent_fields.values_at("te", "connection")
    assert_equal 1, scripted.connections
  end

  def test_they_come_long_after_the_head
    gate = gate()
    front(->(peer) {
      while peer.request
        peer << "#{HEAD}Trailer: x-sum\r\n\r\n2\r\nab\r\n"
        gate.pop
        peer << "0\r\nX-Sum: 7\r\n\r\n"
      end
    })
    wire = connect << get("/", *TE)
    assert_equal "x-sum", wire.read_head["trailer"]
    assert_equal "2\r\nab\r\n", wire.read(7)
    gate << true
    assert_equal "0\r\nx-sum: 7\r\n\r\n", wire.read_to("\r\n\r\n")
  end

  def test_a_client_that_does_not_look_at_them_gets_none
    front(chunked("X-Sum: 7", head: "#{HEAD}Trailer: x-sum\r\n"))
    [[], ["TE: gzip"], ["TE: trailersx"], ["TE: trailers;q=0.5"]].each do |lines|
      answer = ask(get("/", *lines))
      assert_equal ["ab", [], nil, nil], [answer.body, answer.trailers, answer["trailer"], sent_fields["te"]], lines
    end
  end

  def test_a_client_of_http_1_0_gets_none
    front(chunked("X-Sum: 7", head: "#{HEAD}Trailer: x-sum\r\n"))
    answer = ask(get("/", *TE, version: "1.0"))
    assert_equal ["ab", [], nil, nil], [answer.body, answer.trailers, answer["trailer"], sent_fields["te"]]
  end

  def test_several_codings_and_case
    front(chunked("X-Sum: 7"))
    assert_equal [%w[x-sum 7]], ask(get("/", "TE: gzip;q=0.5, Trailers")).trailers
    assert_equal "trailers", sent_fields["te"]
  end

  def test_none_are_announced_where_all_has_come_with_the_head_and_there_are_none
    front(->(peer) { peer << "#{HEAD}Trailer: x-sum\r\n\r\n2\r\nab\r\n0\r\n\r\n" while peer.request })
    answer = ask(get("/", *TE))
    assert_equal ["ab", :length, nil], [answer.body, answer.framing, answer["trailer"]]
  end

  # A recipient may take trailers for fields of the head.
  def test_what_belongs_to_a_head_is_not_passed_on
    front(chunked(*%w[Set-Cookie Cache-Control Content-Type Content-Encoding Content-Range Location Authorization
      WWW-Authenticate Keep-Alive TE Trailer Expires Age Vary X-Accel-Redirect X-Sendfile
      Access-Control-Allow-Origin Cookie Status Rack.hijack Allow Alt-Svc Link Retry-After Accept-CH Clear-Site-Data
      Cross-Origin-Opener-Policy Permissions-Policy Referrer-Policy Strict-Transport-Security Surrogate-Control
      CDN-Cache-Control Cloudflare-CDN-Cache-Control X-Content-Type-Options X-XSS-Protection Content-Digest-2].map { |name| "#{name}: close" }, "X-Sum: 7"))
    assert_equal [%w[x-sum 7]], ask(get("/", *TE)).trailers
  end

  def test_what_may_be_a_trailer_is_passed_on
    names = %w[etag content-digest repr-digest proxy-status server-timing signature signature-input grpc-status hostname]
    front(chunked(*names.map { |name| "#{name}: 1" }))
    assert_equal names, ask(get("/", *TE)).trailers.map(&:first)
  end

  def test_those_that_are_not_passed_on_are_not_announced_either
    {"Set-Cookie, X-Sum,,ETag" => "x-sum, etag", "Content-Length, \xff" => "\xff", "Location,Rack.hijack" => nil}.each do |names, announced|
      front(chunked("X-Sum: 7", head: "#{HEAD}Trailer: #{names}\r\n".b))
      assert_equal [*announced].map(&:b), ask(get("/", *TE)).all("trailer"), names
    end
  end

  # The content is whole, but what follows it is not.
  def test_an_upstream_that_ends_within_the_trailers
    ["", "X-Sum: 7\r\n", "X-Su", "X-Sum: 7\r\n\r"].each do |begun|
      front(->(peer) { peer.request && peer << "#{HEAD}\r\n#{100_000.to_s(16)}\r\n#{"a" * 100_000}\r\n0\r\n#{begun}" })
      error = assert_raises(NeverBlockTest::Wire::Truncated, begun) { ask(get("/", *TE)) }
      assert_equal [100_000, []], [error.answer.body.bytesize, error.answer.trailers]
      assert_match(/ended before the content did/, await_log.first)
    end
  end

  # With a cache in front, responses that it does not fetch for others have theirs.
  def test_a_cache_in_front
    front(chunked("X-Sum: 7", head: "#{HEAD}Cache-Control: max-age=60\r\nTrailer: x-sum\r\n"), wrap: ->(proxy) { NeverBlock::Cache.new(proxy) })
    2.times do
      answer = ask(get("/", *TE))
      assert_equal ["ab", [], nil], [answer.body, answer.trailers, answer["trailer"]]
    end
    assert_equal [%w[x-sum 7]], ask(request("POST", "/", *TE, body: "abc")).trailers
  end

  def test_trailers_that_would_move_the_end_of_a_message_cut_the_response_off
    front(chunked("Content-Length: 5", pieces: ["#{100_000.to_s(16)}\r\n#{"a" * 100_000}\r\n"]))
    assert_raises(NeverBlockTest::Wire::Truncated) { ask(get("/", *TE)) }
    assert_match(/only a head can have/, wait_for_log)
  end

  def test_a_post_has_them_too
    front(chunked("X-Sum: 7"))
    assert_equal [%w[x-sum 7]], ask(request("POST", "/", *TE, body: "abc")).trailers
  end

  private

  def wait_for_log
    wait_until("a line") { !proxy_log.empty? || errors.string.include?("only a head") }
    [proxy_log, *log].join("\n")
  end
end
