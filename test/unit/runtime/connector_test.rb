# frozen_string_literal: true

require "test_helper"
require "support/virtual_time"
require "neverblock"
require "delegate"
require "socket"

# The sequence of RFC 8305, with the resolver's answers controlled by the test and real sockets on the loopback
# interface.
class ConnectorTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::VirtualTime

  # The loop's scheduler with other look-ups: the test answers them before or after they are made, or not at all.
  class Answering < SimpleDelegator
    LookUp = Struct.new(:scheduler, :family, :asked, :given_up) do
      def answer(result) = scheduler.announce(self, result)

      def unsubscribe(_) = self.given_up = true
    end

    attr_reader :look_ups

    def initialize(scheduler)
      super
      @look_ups = NeverBlock::Connector::FAMILIES.map { |family| LookUp.new(self, family) }
      @early = []
    end

    def subscribe(answers, _host, _service, family)
      @answers = answers
      @early.each { |answer| answers << answer }.clear
      @look_ups.find { |look_up| look_up.family == family }.tap { |look_up| look_up.asked = true }
    end

    def announce(*answer) = (@answers || @early) << answer
  end

  V4 = [Socket::AF_INET, Socket.sockaddr_in(0, "127.0.0.1"), "127.0.0.1"].freeze
  V6 = [Socket::AF_INET6, Socket.sockaddr_in(0, "::1"), "::1"].freeze
  UNKNOWN = Socket::ResolutionError.new("getaddrinfo: Name or service not known")

  def setup
    @opened = []
  end

  def teardown
    @opened.each(&:close)
  end

  def test_ipv6_is_used_at_once_without_waiting_for_ipv4
    port = listen("::1")
    race(port) do |v6, v4|
      v6.answer([V6])
      assert_equal "::1", connected_to
      assert v4.given_up
    end
  end

  def test_ipv4_waits_a_little_for_ipv6
    port = listen("127.0.0.1", "::1")
    race(port) do |v6, v4|
      v4.answer([V4])
      v6.answer([V6])
      assert_equal "::1", connected_to
    end
  end

  def test_ipv4_does_not_wait_for_an_ipv6_answer_that_does_not_come
    port = listen("127.0.0.1")
    race(port) do |v6, v4|
      v4.answer([V4])
      assert_equal "127.0.0.1", connected_to
      assert_in_delta NeverBlock::Connector::RESOLUTION_DELAY, clock.elapsed
      assert v6.given_up
    end
  end

  def test_ipv4_starts_at_once_without_ipv6_addresses
    port = listen("127.0.0.1")
    race(port) do |v6, v4|
      v6.answer(UNKNOWN)
      v4.answer([V4])
      assert_equal "127.0.0.1", connected_to
    end
  end

  def test_a_refused_address_is_followed_by_the_next_at_once
    port = listen("127.0.0.1")
    race(port) do |v6, v4|
      v6.answer([V6])
      v4.answer([V4])
      assert_equal "127.0.0.1", connected_to
    end
  end

  def test_the_next_address_starts_beside_one_that_does_not_answer
    port = deaf("::1", beside: listen("127.0.0.1"))
    race(port) do |v6, v4|
      before = sockets
      v6.answer([V6])
      v4.answer([V4])
      address = NeverBlock.spawn { connected_to }
      clock.advance(NeverBlock::Connector::ATTEMPT_DELAY - 0.001)
      assert_predicate address, :alive?
      clock.advance(0.001)
      assert_equal "127.0.0.1", address.value
      wait_until("the loser to be closed") { (sockets - before - @opened).all?(&:closed?) }
    end
  end

  # The second IPv6 address would connect too, but it isn't its turn.
  def test_families_take_turns
    port = deaf("::1", beside: listen("127.0.0.1"))
    race(port) do |v6, v4|
      v6.answer([V6, [Socket::AF_INET6, Socket.sockaddr_in(0, "::ffff:127.0.0.1"), "::ffff:127.0.0.1"]])
      v4.answer([V4])
      address = NeverBlock.spawn { connected_to }
      clock.advance(NeverBlock::Connector::ATTEMPT_DELAY)
      assert_equal "127.0.0.1", address.value
    end
  end

  def test_a_late_answer_is_still_used
    port = listen("::1")
    race(port) do |v6, v4|
      v4.answer([V4])
      NeverBlock.spawn { sleep(10) && v6.answer([V6]) }
      assert_equal "::1", connected_to
    end
  end

  def test_the_last_failure_is_raised
    port = vacant_port
    race(port) do |v6, v4|
      v6.answer(UNKNOWN)
      v4.answer([V4])
      error = assert_raises(Errno::ECONNREFUSED) { connected_to }
      assert_equal "Connection refused - connect(2) for \"host.test\" port #{port}", error.message
    end
  end

  def test_an_unknown_name_is_raised
    race(80) do |v6, v4|
      [v6, v4].each { |look_up| look_up.answer(UNKNOWN) }
      error = assert_raises(Socket::ResolutionError) { connected_to }
      assert_equal "getaddrinfo(3): Name or service not known", error.message
    end
  end

  def test_the_port_may_be_a_string
    port = listen("127.0.0.1")
    race(port.to_s) do |v6, v4|
      v6.answer(UNKNOWN)
      v4.answer([V4])
      assert_equal "127.0.0.1", connected_to
    end
  end

  def test_a_local_address_decides_the_family
    port = listen("127.0.0.1", "::1")
    race(port, "127.0.0.3") do |v6, v4|
      v4.answer([V4])
      assert_equal "127.0.0.3", connect.local_address.ip_address
      assert v4.asked
      refute v6.asked
    end
  end

  # -- limits and cancellation

  def test_the_limits_of_look_up_and_of_everything
    {resolv_timeout: 5, open_timeout: 5}.each do |name, seconds|
      race(80, name => seconds) do |*look_ups|
        assert_raises(IO::TimeoutError, Errno::ETIMEDOUT) { connected_to }
        assert look_ups.all?(&:given_up)
      end
    end
  end

  def test_the_limit_of_the_last_attempt
    port = deaf("127.0.0.1")
    race(port, connect_timeout: 5) do |v6, v4|
      before = sockets
      v6.answer(UNKNOWN)
      v4.answer([V4])
      attempt = NeverBlock.spawn { assert_raises(IO::TimeoutError) { connected_to } }
      clock.advance(5)
      attempt.join
      wait_until("the attempt to be closed") { (sockets - before).all?(&:closed?) }
    end
  end

  def test_a_cancelled_task_leaves_nothing_open
    port = deaf("127.0.0.1")
    race(port) do |v6, v4|
      before = sockets
      v4.answer([V4])
      task = NeverBlock.spawn { connect }
      attempts = wait_until("the attempt") { (sockets - before).then { |made| made if made.any? } }
      task.cancel
      wait_until("the attempt to be closed") { attempts.all?(&:closed?) }
      assert_empty (sockets - before).reject(&:closed?)
      assert v6.given_up
    end
  end

  private

  # Runs the block with the look-ups of the connection that #connect makes.
  def race(port, local_host = nil, **limits)
    NeverBlock.run do
      scheduler = Answering.new(Fiber.scheduler)
      @connector = NeverBlock::Connector.new(scheduler, "host.test", port, local_host, **limits)
      yield(*scheduler.look_ups)
    end
  end

  def connect = @connector.connect.tap { |socket| @opened << socket }

  def connected_to = connect.remote_address.ip_address

  # Servers on the same port of several addresses.
  # @return [Integer] the port
  def listen(first, *others, tries: 10)
    server = TCPServer.new(first, 0)
    @opened << server
    port = server.local_address.ip_port
    others.each { |host| @opened << TCPServer.new(host, port) }
    port
  rescue Errno::EADDRINUSE # the port is taken at another address
    (tries -= 1).positive? ? retry : raise
  rescue Errno::EADDRNOTAVAIL => error
    skip "no #{error.message[/"(.*)"/, 1]} on this machine"
  end

  def vacant_port
    listen("127.0.0.1").tap { @opened.pop.close }
  end

  # A server with a full queue of connections, so that the kernel no longer answers.
  def deaf(host, beside: 0)
    address = Addrinfo.tcp(host, beside)
    server = Socket.new(address.afamily, :STREAM)
    @opened << server
    server.bind(address)
    server.listen(0)
    wait_until("the queue to be full") do
      client = Socket.new(address.afamily, :STREAM)
      @opened << client
      client.connect_nonblock(server.local_address, exception: false)
      client.wait_writable(0.1).nil?
    end
    server.local_address.ip_port
  rescue Errno::EADDRNOTAVAIL
    skip "no #{host} on this machine"
  end

  # Counts objects, not descriptors: garbage collection may close descriptors of other tests.
  def sockets = ObjectSpace.each_object(BasicSocket).to_a
end
