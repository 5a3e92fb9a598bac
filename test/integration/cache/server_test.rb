# frozen_string_literal: true

require "test_helper"
require "support/open_files"
require "support/served"
require "neverblock/cache"

# The cache behind our server: clients with sockets, slow ones, and such that leave.
class CacheServerTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::OpenFiles
  include NeverBlockTest::Served

  FRESH = {"cache-control" => "max-age=60", "content-type" => "text/plain"}.freeze
  CHUNK = ("x" * 65_536).b.freeze
  CHUNKS = 400 # 25 MiB: more than sockets take

  def test_a_client_that_reads_slowly_slows_neither_the_fetch_nor_the_others
    proceed = gate
    cached { |_| [200, {**FRESH}, body(proceed)] }
    slow = connect(receive: 4_096) << get("/a", "Connection: close")
    slow.read_head
    quick = Array.new(3) { connect << get("/a") }
    wait_until("the wait of each") { @cache.stats[:waiting] == 4 }
    CHUNKS.times { proceed << 1 }
    quick.each { |wire| assert_equal CHUNKS * CHUNK.bytesize, wire.answer.body.bytesize }
    wait_until("the end of the fetch") { @cache.stats[:fetching].zero? }
    assert_equal 1, @calls
    assert_operator server.stats[:body_bytes], :<, 4 << 20, "what the server keeps for the slow one"
    assert_equal CHUNKS * CHUNK.bytesize, rest_of(slow), "it has all of it in the end"
    assert_equal [1, 0], [@calls, open_spools], "its file is closed"
  end

  # Nothing is kept, so that the fetch waits for the fastest. What the slow one gets depends on what the kernel takes.
  def test_a_body_that_is_not_kept_is_whole_or_seen_to_be_cut_off
    proceed = gate
    cached(memory: 1 << 20, spool: 0, window: 1 << 20) { |_| [200, {**FRESH}, body(proceed)] }
    wires = Array.new(2) { connect(receive: 4_096) << get("/a", "Connection: close") }
    wait_until("the wait of each") { @cache.stats[:waiting] == 2 }
    CHUNKS.times { proceed << 1 }
    wires.each(&:read_head)
    assert_equal CHUNKS * CHUNK.bytesize, rest_of(wires.first)
    assert_includes [CHUNKS * CHUNK.bytesize, :cut_off], rest_of(wires.last)
    assert_equal 1, @calls
    log
  end

  def test_a_client_that_leaves_spoils_nobody
    proceed = gate
    cached do |_|
      proceed.pop
      [200, {**FRESH}, ["for all"]]
    end
    first = connect << get("/a")
    wait_until("the first call") { @calls == 1 }
    others = Array.new(5) { connect << get("/a") }
    wait_until("the wait of each") { @cache.stats[:waiting] == 6 }
    first.reset
    proceed << 1
    assert_equal ["for all"] * 5, others.map { |wire| wire.answer.body }
    assert_equal 1, @calls
  end

  # The server closes the body of a client that leaves, and the fetch ends, since nothing is kept of it.
  def test_events_end_with_their_client
    closed = Thread::Queue.new
    events = Enumerator.new { |lines| loop { lines << "data: #{"x" * 1_000}\n\n" and NeverBlock.pass } }
    events.define_singleton_method(:close) { closed << true }
    cached { |_| [200, {"content-type" => "text/event-stream", "cache-control" => "no-store"}, events] }
    client = connect << get("/events")
    assert_equal "text/event-stream", client.read_head["content-type"]
    client.reset
    assert closed.pop(timeout: 10)
    wait_until("the end of the fetch") { @cache.stats[:fetching].zero? }
  end

  def test_a_body_that_is_cut_off_ends_the_connection
    proceed = gate
    cached { |_| [200, {**FRESH}, Enumerator.new { |chunks| chunks << CHUNK and proceed.pop and raise(IOError, "away") }] }
    2.times do
      clients = Array.new(3) { connect << get("/a", "Connection: close") }
      clients.each { |client| client.read_head and client.read(100) }
      proceed << 1
      assert_equal [:cut_off] * 3, clients.map { |client| rest_of(client) }
      wait_until("the end of the fetch") { @cache.stats[:fetching].zero? }
    end
    assert_equal 2, @calls
    assert_match(/cut off/, await_log.join)
  end

  # The server takes back what it has not sent yet, for a 500 in its place.
  def test_a_part_and_its_error_at_once_are_the_part_for_all
    proceed = gate
    cached do |_|
      proceed.pop
      [200, {**FRESH, "content-length" => "9"}, Enumerator.new { |chunks| chunks << "part" and raise(IOError, "away") }]
    end
    clients = Array.new(20) { connect << get("/a", "Connection: close") }
    wait_until("the wait of each") { @cache.stats[:waiting] == 20 }
    proceed << 1
    assert_equal [[200, "part"]], clients.map { |client| [client.read_head.status, client.rest] }.uniq
    assert_equal 1, @calls
    assert_match(/cut off/, await_log.join)
  end

  def test_heads_ranges_and_conditions_over_a_socket
    cached { |_| [200, {**FRESH, "etag" => '"1"'}, ["0123456789"]] }
    wire = connect << get("/a")
    assert_equal "0123456789", wire.answer.body
    wire << request("HEAD", "/a")
    assert_equal "10", wire.answer(head: true)["content-length"]
    wire << get("/a", "Range: bytes=2-4")
    assert_equal "234", wire.answer.body
    wire << get("/a", 'If-None-Match: W/"1"')
    assert_equal 304, wire.answer.status
    wire << get("/a", "Range: bytes=#{(["0-0"] * 100).join(",")}")
    assert_equal [200, "0123456789"], wire.answer.then { |answer| [answer.status, answer.body] }
    assert_equal 1, @calls
  end

  private

  def cached(**options, &app)
    @calls = 0
    @cache = NeverBlock::Cache.new(->(env) { (@calls += 1) && app.call(env) }, **options)
    serve(@cache)
  end

  def body(proceed) = Enumerator.new { |chunks| CHUNKS.times { proceed.pop && chunks << CHUNK } }

  # @return [Integer, Symbol] bytes of a response whose head was read, or :cut_off
  def rest_of(wire)
    text = wire.rest
    text.end_with?("\r\n0\r\n\r\n") ? text.scan(/(?:\A|\r\n)(\h+)\r\n/).sum { |size,| size.to_i(16) } : :cut_off
  end

  def open_spools = open_files.grep(/neverblock-cache/).size
end
