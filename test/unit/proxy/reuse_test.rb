# frozen_string_literal: true

require "test_helper"
require "stringio"
require "support/at_call"
require "support/proxied"

# Which connection is used again, and which request is sent again.
class ProxyReuseTest < Minitest::Test
  include NeverBlockTest::AtCall
  include NeverBlockTest::Proxied

  # Each connection responds once with these bytes and stays open.
  def respond(*pieces) = play(->(peer) { peer.request and pieces.each { |piece| peer << piece } and peer.ended? })

  def test_a_clean_end_keeps_the_connection
    play(KEEP)
    5.times { content }
    assert_equal [1, {open: 1, idle: 1, held: 0, waiting: 0, opened: 1, reused: 4}], [scripted.connections, pool.stats]
  end

  def test_a_connection_serves_one_exchange_at_a_time
    play(KEEP)
    first, second = ask, ask
    assert_equal 2, scripted.connections
    [first, second].each { |response| content(response) }
    content
    assert_equal 2, scripted.connections
  end

  # Bytes of a whole response, and what is true of it.
  ONCE = {
    "one_that_says_close" => "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
    "http_1_0" => "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "a_surplus_byte_behind_a_length" => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!",
    "a_surplus_line_behind_a_length" => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\r\n",
    "a_surplus_response" => "#{OK}#{OK}",
    "a_surplus_byte_behind_chunks" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n!",
    "a_surplus_byte_behind_204" => "HTTP/1.1 204 x\r\n\r\n!",
    "204_with_content" => "HTTP/1.1 204 x\r\nContent-Length: 2\r\n\r\n"
  }.freeze

  ONCE.each do |name, bytes|
    define_method("test_#{name}_closes_the_connection") do
      respond(bytes)
      assert_includes ["", "ok"], content
      assert_equal 0, pool.stats[:open]
    end
  end

  def test_a_surplus_byte_that_comes_later_closes_the_connection
    gate = Thread::Queue.new
    play(->(peer) { peer.request and peer << OK and gate.pop and peer << "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil" and peer.ended? }, KEEP)
    content
    assert_equal 1, pool.stats[:idle]
    gate << 1
    open_sockets.first.wait_readable(10)
    assert_equal "ok", content
    assert_equal 2, scripted.connections
  end

  def test_a_response_to_head_with_content_closes_the_connection
    respond("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert_nil ask("HEAD").read
    assert_equal 0, pool.stats[:open]
  end

  def test_bytes_before_a_request_end_a_new_connection
    play(KEEP)
    beginnings = {"nothing but an end" => :close.to_proc, "a response" => ->(peer) { peer << OK }}
    peers = []
    pool.define_singleton_method(:dial) do |*|
      own, peer = UNIXSocket.pair
      peers << peer
      beginnings.values[peers.size - 1].call(peer)
      own
    end
    beginnings.each_key do |name|
      assert_match(/before there was a request/, assert_held_none_after(Proxy::InvalidResponse) { ask }.message, name)
    end
    peers.each(&:close)
    assert_empty scripted.requests
  end

  # ---- what is cut off or invalid ----
  CUT = {
    "nothing" => "", "half_a_status_line" => "HTTP/1.1 2", "half_a_head" => "HTTP/1.1 200 OK\r\nA: b\r\n",
    "an_interim_response_alone" => "HTTP/1.1 100 x\r\n\r\n"
  }.freeze

  CUT.each do |name, bytes|
    define_method("test_the_end_after_#{name}_is_an_error") do
      play(->(peer) { peer.request and peer << bytes })
      assert_held_none_after(Proxy::ConnectionLost) { ask }
    end
  end

  {
    "half_of_a_length" => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok",
    "half_a_chunk" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nok",
    "chunks_without_the_last" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
    "half_the_trailers" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n"
  }.each do |name, bytes|
    define_method("test_the_end_after_#{name}_is_an_error_of_the_content") do
      play(->(peer) { peer.request and peer << bytes })
      response = ask
      error = assert_held_none_after(Proxy::ConnectionLost) { content(response) }
      assert_equal :body, error.phase
      assert_match(/cut off/, error.message)
    end
  end

  def test_content_until_the_end_of_the_connection
    play(->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\n\r\n" and 3.times { peer << "abc" } })
    assert_equal "abcabcabc", content
    assert_equal 0, pool.stats[:open]
  end

  def test_a_reset_is_no_end_of_the_content
    gate = Thread::Queue.new
    play(->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\n\r\nabc" and gate.pop and peer.reset })
    response = ask
    assert_equal "abc", response.read
    gate << 1
    assert_held_none_after(Proxy::ConnectionLost) { response.read }
  end

  {
    "no_http" => "SSH-2.0-x\r\n", "two_lengths" => "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a_length_and_chunks" => "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a_head_that_is_too_long" => "HTTP/1.1 200 OK\r\nA: #{"b" * 70_000}\r\n\r\n",
    "too_many_fields" => "HTTP/1.1 200 OK\r\n#{"A: b\r\n" * 129}\r\n"
  }.each do |name, bytes|
    define_method("test_#{name}_is_an_invalid_response") do
      respond(bytes)
      error = assert_held_none_after(Proxy::InvalidResponse) { ask }
      assert_equal [pool.upstream, :head], [error.upstream, error.phase]
      assert_includes error.message, pool.upstream.url
    end
  end

  {"chunks" => "x\r\n", "a_trailer" => "0\r\nContent-Length: 1\r\n\r\n"}.each do |name, bytes|
    define_method("test_invalid_#{name}_end_the_exchange") do
      respond("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", bytes)
      response = ask
      assert_equal :body, assert_held_none_after(Proxy::InvalidResponse) { content(response) }.phase
    end
  end

  # ---- the retry ----

  # The first connection serves one request, and ends in this way when it has the second; others serve all.
  def end_at_second(&ending)
    play(->(peer) { peer.request and peer << OK and peer.request and ending.call(peer) }, KEEP)
  end

  def again(method = "GET", **options)
    content
    response = ask(method, "/again", **options)
    [content(response), exchange.retried?, scripted.connections]
  end

  ENDINGS = {"an_end" => ->(peer) {}, "a_reset" => :reset.to_proc}.freeze

  ENDINGS.each do |name, ending|
    define_method("test_#{name}_without_a_byte_on_a_used_connection_is_tried_once_more") do
      end_at_second(&ending)
      assert_equal ["ok", true, 2], again
      assert_equal 3, scripted.requests.size
    end
  end

  def test_content_that_is_there_again_is_sent_again
    %w[x rewound].zip(["abc", StringIO.new("abc")]).each do |_, body|
      end_at_second {}
      assert_equal ["ok", true, 2], again("PUT", body:)
      assert_equal 2, scripted.requests.count { |request| request.start_with?("PUT") && request.include?("abc") }
      scripted.close
    end
  ensure
    @scripted = nil
  end

  {
    "a_request_that_is_not_idempotent" => ["POST", {}], "an_unknown_method" => ["FOO", {}],
    "content_that_is_gone" => ["PUT", {body: :once}]
  }.each do |name, (method, options)|
    define_method("test_#{name}_is_not_sent_again") do
      end_at_second {}
      options = {body: Enumerator.new { |pieces| pieces << "abc" }} if options[:body]
      assert_held_none_after(Proxy::ConnectionLost) { again(method, **options) }
      assert_equal 1, scripted.connections
    end
  end

  def test_a_new_connection_is_not_tried_again
    play(:request.to_proc)
    assert_held_none_after(Proxy::ConnectionLost) { ask }
    assert_equal 1, scripted.connections
  end

  def test_one_byte_of_a_response_rules_a_retry_out
    ["H", "HTTP/1.1 103 x\r\n\r\n"].each do |bytes|
      end_at_second { |peer| peer << bytes }
      assert_held_none_after(Proxy::ConnectionLost) { again }
      assert_equal 1, scripted.connections
      scripted.close
    end
  ensure
    @scripted = nil
  end

  def test_it_is_tried_only_once_more_and_not_on_another_idle_connection
    play(*Array.new(2) { ->(peer) { peer.request and peer << OK and peer.request } }, :request.to_proc)
    [ask, ask].each { |response| content(response) }
    assert_equal 2, pool.stats[:idle]
    assert_raises(Proxy::ConnectionLost) { ask }
    assert_predicate exchange, :retried?
    assert_equal 3, scripted.connections
    assert_equal 1, pool.stats[:idle]
  end

  def test_an_invalid_response_is_not_tried_again
    end_at_second { |peer| peer << "nonsense\r\n" and peer.ended? }
    assert_held_none_after(Proxy::InvalidResponse) { again }
    assert_equal 1, scripted.connections
  end

  def test_an_idle_connection_that_was_closed_is_not_used
    play(->(peer) { peer.request and peer << OK }, KEEP)
    content
    open_sockets.first&.wait_readable(10)
    assert_equal "ok", content(ask("POST", "/", body: "abc"))
    refute_predicate exchange, :retried?
    assert_equal 2, scripted.connections
  end

  # ---- the pool ----
  def test_idle_connections_have_a_number_and_an_age
    play(KEEP, pool: {max_idle: 1})
    [ask, ask].each { |response| content(response) }
    assert_equal [1, 2], [pool.stats[:idle], scripted.connections]
    pool.close
    scripted.close
    {idle_timeout: 60, max_age: 60}.each do |option, seconds|
      play(KEEP, pool: {option => seconds})
      content
      clock.advance(seconds + 1)
      pool.reap
      content
      assert_equal 2, scripted.connections, option
      scripted.close
    end
  ensure
    @scripted = nil
  end

  def test_exchanges_wait_for_a_connection_in_line
    play(KEEP, pool: {max_connections: 1})
    first = ask
    others = Array.new(3) { |number| aside { content(Proxy::Exchange.new(pool, Proxy::Request.new("GET", "/#{number}")).call) } }
    wait_until { pool.stats[:waiting] == 3 }
    content(first)
    assert_equal %w[ok ok ok], others.map(&:value)
    assert_equal [1, 4], [scripted.connections, scripted.requests.size]
  end

  # They would close connections and open others, since more than one at a time would be idle.
  def test_the_next_in_line_gets_the_connection
    play(KEEP, pool: {max_connections: 3, max_idle: 0})
    first = Array.new(3) { ask }
    others = Array.new(9) { aside { content(Proxy::Exchange.new(pool, Proxy::Request.new("GET", "/")).call) } }
    wait_until { pool.stats[:waiting] == 9 }
    first.each { |response| content(response) }
    assert_equal ["ok"] * 9, others.map(&:value)
    assert_equal [3, 9, 0], [scripted.connections, *pool.stats.values_at(:reused, :idle)]
  end

  def test_too_many_that_wait_and_too_long_a_wait_are_refused
    play(KEEP, pool: {max_connections: 1, max_waiting: 0})
    first = ask
    assert_match(/0 requests wait already; 1 are in use/, assert_raises(Proxy::OverloadError) { ask }.message)
    content(first)
    pool.close
    scripted.close
    play(KEEP, pool: {max_connections: 1})
    first = ask
    assert_equal :queue, assert_raises(Proxy::OverloadError) { ask(timeouts: {connect: brief}) }.phase
    content(first)
  end

  def test_a_closed_pool_refuses_and_keeps_nothing
    play(KEEP)
    response = ask
    pool.close
    assert_equal "ok", content(response)
    assert_equal 0, pool.stats[:open]
    assert_raises(NeverBlock::ClosedError) { ask }
  end

  # An exception from outside arrives when a method ends, also between the end of an exchange and the next one's turn.
  def test_an_interruption_loses_no_connection
    play(KEEP)
    {Proxy::Slots => :release, Proxy::ConnectionPool => :rest}.each do |owner, method|
      content
      response = ask
      at_call(owner, method, -> { raise IOError, "from outside" }) { assert_raises(IOError) { response.read } }
      assert_equal [0, 0], pool.stats.values_at(:held, :idle)
      assert_empty open_sockets, method
    end
  end

  class Outside < self
    include NeverBlockTest::Proxied::Outside

    def test_a_forked_child_has_connections_of_its_own
      play(KEEP)
      content
      reader, writer = IO.pipe
      pid = fork do
        $stderr.reopen(File::NULL)
        writer << [pool.stats[:idle], content, pool.stats[:opened]].join(" ")
        writer.close
        exit!(0)
      end
      writer.close
      assert_equal "0 ok 2", reader.read
      Process.wait(pid)
      assert_equal "ok", content
      assert_equal [2, 1], [scripted.connections, pool.stats[:idle]]
    end
  end
end
