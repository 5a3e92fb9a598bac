# frozen_string_literal: true

# serial: it measures how late the proxy is, and its processor time
require "test_helper"
require "digest"
require "socket"
require "tmpdir"
require "support/delay_proxy"
require "support/postgres"

# The network between PostgreSQL and tests or benchmarks: its measurements and faults are valid only if it neither
# loses, adds nor swaps a byte. It runs under the address sanitizer here, if the compiler has one.
class DelayProxyTest < Minitest::Test
  include NeverBlockTest::Helpers

  DelayProxy = NeverBlockTest::DelayProxy
  MEGABYTE = 1 << 20
  SANITIZED = (`#{DelayProxy::COMPILER} -print-file-name=libasan.so 2>/dev/null`.start_with?("/") ? %w[-fsanitize=address,undefined -fno-sanitize-recover -g] : []).freeze
  LOST = [Errno::ECONNRESET, Errno::EPIPE].freeze

  def setup
    reason = DelayProxy.missing and skip reason
    @folder = Dir.mktmpdir("nb", "/tmp")
    @path = "#{@folder}/server"
    @server = UNIXServer.new(@path)
  end

  def teardown
    @server&.close
    FileUtils.rm_rf(@folder) if @folder
  end

  slow "it waits for what is delayed"
  def test_fifty_megabytes_both_ways_at_once
    with_pair(delay: 0.001) do |client, server, proxy|
      sums = {client => server, server => client}.flat_map do |from, to|
        [Thread.new { send_megabytes(from, 50, from.object_id) }, Thread.new { Digest::SHA256.new.tap { |sum| sum << to.readpartial(MEGABYTE) until to.eof? }.hexdigest }]
      end
      sent, received, answered, read = sums.map(&:value)
      assert_equal sent, received
      assert_equal answered, read
      [client, server].each(&:close)
      wait_until("the end of the connection") { proxy.count.zero? }
    end
  end

  # Many small messages on many connections, some of which end while others go on.
  slow "it waits for what is delayed"
  def test_small_pieces_arrive_in_order_on_every_connection
    with_proxy(delay: 0.002) do |proxy|
      echo = Thread.new { 50.times.map { Thread.new(@server.accept) { |io| IO.copy_stream(io, io) && io.close } }.each(&:join) }
      clients = 50.times.map do |i|
        Thread.new do
          TCPSocket.open("127.0.0.1", proxy.port) do |io|
            wanted = Array.new(20 + i) { |j| "#{i} #{j}\n" }
            reader = Thread.new { io.read }
            wanted.each { |line| io.write(line) }
            io.close_write
            assert_equal wanted.join, reader.value
          end
        end
      end
      clients.each(&:join)
      echo.join
    end
  end

  def test_an_end_goes_one_way_and_the_other_way_goes_on
    with_pair(delay: 0.002) do |client, server, proxy|
      client.write("question")
      client.close_write
      assert_equal "question", server.read
      server.write("answer")
      server.close
      assert_equal "answer", client.read
      wait_until("the end of the connection") { proxy.count.zero? }
    end
  end

  slow "it waits for what is delayed"
  def test_the_round_trip_is_that_asked_for
    with_pair(delay: 0.02) do |client, server, proxy|
      assert_includes 0.0199..0.1, round_trip(client, server)
      proxy.delay = 0.05
      assert_includes 0.0499..0.2, round_trip(client, server)
      proxy.delay = 0
      assert_operator round_trip(client, server), :<, 0.02
    end
  end

  # A delay doesn't limit the rate: bytes sent every millisecond arrive every millisecond.
  slow "it waits for what is delayed"
  def test_many_can_be_underway
    with_pair(delay: 0.2) do |client, server, proxy|
      started = now
      text = Array.new(30) { |i| "message #{i};" }
      text.each { |message| client.write(message) && sleep(0.001) }
      assert_equal text.join, server.read(text.join.bytesize)
      assert_includes 0.0999..0.6, now - started # in sequence they would take 30 × 0.1 s
    end
  end

  # A server that reads nothing makes the client wait, and the proxy holds little.
  slow "it waits for what is delayed"
  def test_back_pressure
    with_pair do |client, server, proxy|
      written = 0
      loop do
        size = client.write_nonblock("x" * MEGABYTE, exception: false)
        (size == :wait_writable) ? client.wait_writable(0.3) || break : written += size
      end
      assert_operator written, :<, 40 * MEGABYTE
      client.close_write
      assert_equal written, server.read.bytesize
    end
  end

  def test_cut_resets_all_connections_at_once_and_lets_new_ones_in
    with_proxy do |proxy|
      pairs = Array.new(3) { pair(proxy) }
      assert_equal 3, proxy.count
      proxy.cut
      assert_equal 0, proxy.count
      pairs.each do |client, server|
        assert_raises(*LOST) { client.readpartial(1) }
        assert_raises(EOFError, *LOST) { server.readpartial(1) }
      end
      client, server = pair(proxy)
      client.write("again")
      assert_equal "again", server.readpartial(9)
    end
  end

  # Bytes in transit on a cut connection must not appear on another one.
  def test_cut_with_bytes_underway
    with_pair(delay: 0.1) do |client, server, proxy|
      client.write("old")
      proxy.cut
      assert_raises(EOFError, *LOST) { server.readpartial(1) }
      client, server = pair(proxy)
      client.write("new")
      assert_equal "new", server.readpartial(9)
    end
  end

  slow "it waits for what is delayed"
  def test_silence_holds_everything_and_loses_nothing
    with_pair do |client, server, proxy|
      proxy.silence
      client.write("held")
      server.write("back")
      waiting = TCPSocket.new("127.0.0.1", proxy.port)
      refute IO.select([client, server, @server], nil, nil, 0.1)
      assert_equal 1, proxy.count
      refute_busy(proxy)
      proxy.resume
      assert_equal "held", server.readpartial(9)
      assert_equal "back", client.readpartial(9)
      accepted = @server.accept
      waiting.write("let in")
      assert_equal "let in", accepted.readpartial(9)
    end
  end

  slow "it waits for what is delayed"
  def test_silence_holds_what_is_underway_and_ends_too
    with_pair(delay: 0.05) do |client, server, proxy|
      client.write("underway")
      client.close
      proxy.silence
      refute server.wait_readable(0.1)
      proxy.resume
      assert_equal "underway", server.read
    end
  end

  slow "it waits for what is delayed"
  def test_answers_stop_at_a_byte
    with_pair do |client, server, proxy|
      proxy.answers(5)
      server.write("a row and more")
      assert_equal "a row", client.read(5)
      refute client.wait_readable(0.1)
      client.write("question")
      refute server.wait_readable(0.1)
      proxy.resume
      assert_equal " and more", client.read(9)
      assert_equal "question", server.readpartial(9)
    end
  end

  def test_refuse_closes_new_connections_only
    with_pair do |client, server, proxy|
      proxy.refuse
      refused = TCPSocket.new("127.0.0.1", proxy.port)
      assert_raises(EOFError, *LOST) { refused.readpartial(1) }
      client.write("on")
      assert_equal "on", server.readpartial(9)
      proxy.resume
      assert pair(proxy)
    end
  end

  def test_a_reset_comes_after_what_was_sent_before_it
    with_pair(delay: 0.02) do |client, server, proxy|
      client.write("unread")
      wait_until("the arrival") { server.wait_readable(0) }
      server.write("last words")
      server.close # with unread bytes: a reset
      assert_equal "last words", client.readpartial(20)
      assert_raises(EOFError, *LOST) { client.readpartial(1) }
    end
  end

  def test_a_missing_server_is_a_reset
    with_proxy do |proxy|
      @server.close
      client = TCPSocket.new("127.0.0.1", proxy.port)
      assert_raises(EOFError, *LOST) { client.readpartial(1) }
    end
  end

  def test_from_a_unix_socket_to_a_port
    target = TCPServer.open("127.0.0.1", 0)
    DelayProxy.open(to: target.addr[1], socket: "#{@folder}/proxy", flags: SANITIZED) do |proxy|
      client = UNIXSocket.new("#{@folder}/proxy")
      server = target.accept
      client.write("by path")
      assert_equal "by path", server.readpartial(9)
      assert_equal 1, proxy.count
    end
    refute_path_exists "#{@folder}/proxy"
  ensure
    target&.close
  end

  def test_commands_it_does_not_know
    with_proxy do |proxy|
      error = assert_raises(RuntimeError) { proxy.send(:command, "delay soon") }
      assert_match(/no such command: delay soon/, error.message)
      assert_equal 0, proxy.count
    end
  end

  slow "it waits for what is delayed"
  def test_it_costs_nothing_while_nothing_happens
    with_pair(delay: 0.001) do |client, server, proxy|
      client.write("half") # an end without a reader keeps nothing busy
      client.close
      server.readpartial(4)
      refute_busy(proxy)
    end
  end

  slow "it waits for what is delayed"
  def test_it_ends_with_its_parent
    program = <<~RUBY
      $LOAD_PATH << "test"
      require "support/delay_proxy"
      puts NeverBlockTest::DelayProxy.new(to: 1).pid
      $stdout.flush
      Process.kill(:KILL, Process.pid)
    RUBY
    pid = Integer(run_ruby(program).stdout)
    wait_until("the end of the proxy") { ended?(pid) }
  end

  # A cancel request uses a connection of its own, through the same proxy.
  slow "it waits for what is delayed"
  def test_postgresql_and_its_cancel_requests
    reason = NeverBlockTest::PostgresServer.missing and skip reason
    begin
      require "pg"
    rescue LoadError
      skip "pg is not installed"
    end
    NeverBlockTest::PostgresServer.open do |postgres|
      DelayProxy.open(to: postgres.socket, delay: 0.002, flags: SANITIZED) do |proxy|
        connection = PG.connect(host: "127.0.0.1", port: proxy.port, dbname: "postgres", user: postgres.user)
        started = now
        assert_equal "1", connection.exec("select 1").getvalue(0, 0)
        assert_operator now - started, :>=, 0.0019
        connection.send_query("select pg_sleep(60)")
        # A request that overtakes its statement cancels nothing.
        wait_until("the statement runs") { postgres.query("select count(*) from pg_stat_activity where query like 'select pg_sleep%' and state = 'active'") == "1" }
        assert_nil connection.cancel
        assert_raises(PG::QueryCanceled) { connection.get_last_result }
        proxy.cut
        assert_raises(PG::ConnectionBad, PG::UnableToSend) { connection.exec("select 1") }
      end
    end
  end

  private

  def with_proxy(delay: 0.0, &block)
    status = nil
    DelayProxy.open(to: @path, delay:, flags: ["-Werror", *SANITIZED]) do |proxy|
      block.call(proxy)
      status = proxy.close
    end
    assert_predicate status, :success?, "it did not end well: see what it said above"
  end

  # @yieldparam client [Socket] of a connection through the proxy
  # @yieldparam server [Socket] its other end
  # @yieldparam proxy [DelayProxy]
  def with_pair(**) = with_proxy(**) { |proxy| yield(*pair(proxy), proxy) }

  # @return [Array<Socket>] both ends
  def pair(proxy)
    client = TCPSocket.new("127.0.0.1", proxy.port)
    client.setsockopt(:TCP, :NODELAY, true)
    [client, @server.accept]
  end

  # @return [String] a digest of the sent bytes
  def send_megabytes(io, count, seed)
    random = Random.new(seed)
    sum = Digest::SHA256.new
    count.times do
      piece = random.bytes(MEGABYTE)
      sum << piece
      io.write(piece)
    end
    io.close_write
    sum.hexdigest
  end

  # @return [Float] seconds, the shortest: what a busy machine adds is not of the proxy
  def round_trip(client, server)
    times = Array.new(15) do
      started = now
      client.write("?")
      server.write(server.readpartial(1))
      client.readpartial(1)
      now - started
    end
    times.min
  end

  def refute_busy(proxy)
    before = proxy.cpu
    sleep 0.3
    assert_operator proxy.cpu - before, :<, 0.1
  end
end
