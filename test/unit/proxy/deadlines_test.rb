# frozen_string_literal: true

require "test_helper"
require "stringio"
require "support/proxied"

# Each phase has a limit and an error of its own, and no phase leaves a connection behind: neither when it is late, nor
# when its caller is cancelled, killed or interrupted.
class ProxyDeadlinesTest < Minitest::Test
  include NeverBlockTest::Proxied

  SILENT = ->(peer) { peer.head and peer.hold }

  # A listening socket whose queue is full: connections to it wait.
  def full_queue
    server = Socket.new(:INET, :STREAM)
    server.bind(Addrinfo.tcp("127.0.0.1", 0))
    server.listen(0)
    sockets = Array.new(8) { Socket.new(:INET, :STREAM).tap { |socket| socket.connect_nonblock(server.local_address, exception: false) } }
    yield "http://127.0.0.1:#{server.local_address.ip_port}"
  ensure
    [server, *sockets].compact.each(&:close)
  end

  # In a loop the phase ends at its very time.
  def assert_late(error, phase, seconds = brief, exactly: true, &)
    began = now
    raised = assert_held_none_after(error, &)
    exactly ? assert_passed(seconds, began) : assert_operator(now - began, :>=, seconds)
    assert_kind_of NeverBlock::TimeoutError, raised
    assert_kind_of NeverBlock::Error, raised
    assert_equal [pool.upstream, phase, seconds], [raised.upstream, raised.phase, raised.seconds]
    assert_match(/\Aupstream #{Regexp.escape(pool.upstream.url)}: .* within #{seconds} s \(the timeout #{phase}:\)/, raised.message)
  end

  # Sends these bytes each second, for longer than any limit here.
  def drip(peer, bytes)
    20.times { peer << bytes and clock.advance(1) }
    peer.hold
  end

  def assert_passed(seconds, began) = assert_in_delta(seconds, now - began)

  def test_connect
    full_queue do |url|
      play(KEEP, url:, timeouts: {connect: 0.05})
      assert_late(Proxy::ConnectTimeout, :connect, 0.05, exactly: false) { ask } # the kernel may still let it in
    end
  end

  def test_connect_with_tls_that_is_silent
    play(:hold.to_proc)
    upstream = Proxy::Upstream.new("https://127.0.0.1:#{scripted.port}", timeouts: {connect: brief})
    @pool = Proxy::ConnectionPool.new(upstream)
    assert_late(Proxy::ConnectTimeout, :connect) { ask }
  end

  def test_first_byte
    play(SILENT, timeouts: {first_byte: brief})
    assert_late(Proxy::FirstByteTimeout, :first_byte) { ask }
  end

  def test_interim_responses_do_not_put_the_first_byte_off
    play(->(peer) { peer.request and drip(peer, "HTTP/1.1 103 x\r\n\r\n") }, timeouts: {first_byte: 10})
    assert_late(Proxy::FirstByteTimeout, :first_byte, 10) { ask }
  end

  def test_idle_in_a_head
    play(->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\nA" and peer.hold }, timeouts: {idle: brief})
    assert_late(Proxy::IdleTimeout, :idle) { ask }
  end

  # Each byte ends one idle wait.
  def test_a_head_that_drips
    play(->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\nA: " and drip(peer, "x") }, timeouts: {first_byte: 10, idle: 5})
    assert_late(Proxy::FirstByteTimeout, :first_byte, 10) { ask }
  end

  ["Content-Length: 5", "Transfer-Encoding: chunked", "A: b"].each do |field|
    define_method("test_idle_in_content_with_#{field[/\A\S+(?=:)/]}") do
      play(->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\n#{field}\r\n\r\n2" and peer.hold }, timeouts: {idle: brief})
      assert_late(Proxy::IdleTimeout, :idle) { content(ask) }
    end
  end

  slow "fills the buffers of a socket"
  def test_idle_while_content_is_sent
    play(SILENT, timeouts: {idle: brief})
    assert_late(Proxy::IdleTimeout, :idle) { ask("POST", "/", body: StringIO.new("x" * (16 << 20))) }
  end

  def test_total_while_it_waits
    play(SILENT)
    assert_late(Proxy::TotalTimeout, :total) { ask(timeouts: {total: brief}) }
  end

  def test_total_of_content_that_never_waits
    play(->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\n\r\n" and loop { peer << "x" * 65_536 } })
    assert_late(Proxy::TotalTimeout, :total, 10) { ask(timeouts: {total: 10}).each { clock.advance(1) } }
  end

  def test_total_of_content_that_drips
    play(->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\n\r\n" and drip(peer, "x") }, timeouts: {idle: 5})
    assert_late(Proxy::TotalTimeout, :total, 10) { ask(timeouts: {total: 10}).each {} }
  end

  def test_total_of_a_source_that_waits
    play(SILENT)
    reader, writer = IO.pipe
    assert_late(Proxy::TotalTimeout, :total) { ask("POST", "/", body: reader, timeouts: {total: brief}) }
  ensure
    [reader, writer].compact.each(&:close)
  end

  def test_a_timeout_is_not_tried_again
    play(->(peer) { peer.request and peer << OK and peer.request and peer.hold })
    content
    assert_raises(Proxy::FirstByteTimeout) { ask(timeouts: {first_byte: brief}) }
    assert_equal 1, scripted.connections
  end

  def test_an_outer_timeout_stays_the_callers_own
    play(SILENT)
    assert_instance_of NeverBlock::TimeoutError, assert_held_none_after(NeverBlock::TimeoutError) { NeverBlock.timeout(brief) { ask } }
  end

  # ---- callers that leave ----

  # What the upstream does, and the request; each waits for ever in another phase.
  PHASES = {
    first_byte: [SILENT, {}],
    head: [->(peer) { peer.head and peer << "HTTP/1.1 200 OK\r\nA: b" and peer.hold }, {}],
    interim: [->(peer) { peer.head and peer << "HTTP/1.1 103 x\r\n\r\n" and peer.hold }, {}],
    length: [->(peer) { peer.head and peer << "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc" and peer.hold }, {}],
    chunks: [->(peer) { peer.head and peer << "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n" and peer.hold }, {}],
    close: [->(peer) { peer.head and peer << "HTTP/1.1 200 OK\r\n\r\nabc" and peer.hold }, {}],
    send: [SILENT, {method: "POST", body: -> { StringIO.new("x" * (16 << 20)) }}],
    source: [SILENT, {method: "POST", body: -> { Enumerator.new { |pieces| (pieces << "a") && Thread::Queue.new.pop } }}],
    expectation: [SILENT, {method: "POST", expect_continue: true, body: -> { "abc" }}]
  }.freeze

  WAYS = {"cancelled" => ->(task) { task.cancel }}.freeze

  def leave(way, script, method: "GET", body: nil, **options)
    play(script, KEEP)
    left = aside do
      request = Proxy::Request.new(method, "/", body: body&.call, **options)
      interruptible { Proxy::Exchange.new(pool, request).call { |response| response.each {} } }
    end
    wait_until("the request") { !scripted.requests.empty? && pool.stats[:held] == 1 }
    settle(left) # it is in its last wait by then; a thread may be on the way to it, and must end well too
    way.call(left)
    wait_until("the end of the exchange") { pool.stats[:held] == 0 }
    assert_equal 0, pool.stats[:open]
    assert_equal "ok", content
    assert_equal 2, scripted.connections
  end

  class Interrupted < StandardError; end

  def interruptible
    yield
  rescue Interrupted
    nil
  end

  def ways = WAYS

  PHASES.each do |phase, (script, options)|
    slow "fills the buffers of sockets" if phase == :send
    define_method("test_a_caller_that_leaves_in_the_phase_#{phase}") do
      ways.each_value do |way|
        leave(way, script, **options)
        pool.close
        scripted.close
      end
      @scripted = nil
    end
  end

  def test_a_caller_that_leaves_while_it_connects
    ways.each_value do |way|
      full_queue do |url|
        play(KEEP, url:)
        left = aside { interruptible { ask } }
        wait_until { pool.stats[:held] == 1 }
        way.call(left)
        wait_until { pool.stats[:held] == 0 }
        scripted.close
      end
    end
    @scripted = nil
  end

  def test_a_caller_that_leaves_the_line
    ways.each_value do |way|
      play(KEEP, pool: {max_connections: 1})
      response = ask
      left = aside { interruptible { ask } }
      wait_until { pool.stats[:waiting] == 1 }
      way.call(left)
      wait_until { pool.stats[:waiting] == 0 }
      content(response)
      assert_equal "ok", content
      scripted.close
    end
    @scripted = nil
  end

  class Outside < self
    include NeverBlockTest::Proxied::Outside

    # Threads take their time.
    def assert_passed(seconds, began) = assert_operator(now - began, :>=, seconds)

    def ways
      {
        "killed" => ->(thread) { thread.kill },
        "interrupted" => ->(thread) { thread.raise(Interrupted) }
      }
    end
  end
end
