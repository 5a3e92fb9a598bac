# frozen_string_literal: true

require "neverblock"
require_relative "scripted_upstream"
require_relative "virtual_loop"

module NeverBlockTest
  # Exchanges with scripted upstreams. A test class runs its cases in a loop on a virtual clock, together with the
  # upstreams. Those of a subclass that includes Outside run on a thread without a loop:
  #
  #   class ProxyReuseTest < Minitest::Test
  #     include NeverBlockTest::Proxied
  #
  #     def test_one
  #       play(->(peer) { peer.request and peer << "HTTP/1.1 204 x\r\n\r\n" })
  #       assert_equal 204, ask.status
  #     end
  #
  #     class Outside < self
  #       include NeverBlockTest::Proxied::Outside
  #     end
  #   end
  #
  # At the end of a test no connection may be in use.
  module Proxied
    include Helpers
    include VirtualLoop

    Proxy = NeverBlock::Proxy
    OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    # Responds with OK for as long as there are requests.
    KEEP = ->(peer) { peer << OK while peer.request }

    # @return [ScriptedUpstream]
    def play(*scripts, url: nil, pool: {}, **options)
      listen = options.slice(:tls, :path, :host)
      @scripted = ScriptedUpstream.new(*scripts, **listen)
      upstream = Proxy::Upstream.new(url || @scripted.url, **options.except(*listen.keys))
      @pool = Proxy::ConnectionPool.new(upstream, **pool)
      @scripted
    end

    # @return [Proxy::ConnectionPool]
    attr_reader :pool

    # @return [ScriptedUpstream]
    attr_reader :scripted

    # @return [Numeric] seconds of a limit that the upstream lets pass
    def brief = 30

    # Waits until the upstream and the task, which is from `aside`, do nothing but wait.
    def settle(_aside = nil) = clock.settle

    # Runs the block at the same time.
    # @return [Task, Thread]
    def aside(&) = NeverBlock.spawn(&)

    # @return [Proxy::Response]
    def ask(method = "GET", target = "/", timeouts: nil, on_interim: nil, **options)
      @exchange = Proxy::Exchange.new(pool, Proxy::Request.new(method, target, **options), timeouts:, on_interim:)
      @exchange.call
    end

    # @return [Proxy::Exchange] of the last {#ask}
    attr_reader :exchange

    # @return [String] all the content
    def content(response = ask) = response.to_a.join

    # @return [Exception]
    def assert_held_none_after(error, &)
      raised = assert_raises(error, &)
      assert_equal [0, 0], pool.stats.values_at(:held, :idle), "#{raised.message}: a connection was kept"
      raised
    end

    def teardown
      if pool
        assert_equal 0, pool.stats[:held], "a connection is in use"
        assert_equal 0, pool.stats[:waiting], "an exchange waits"
        pool.close
        assert_empty open_sockets, "sockets that are open"
      end
      scripted&.close
      super
    end

    # @return [Array<Socket>] of the client, to the last upstream
    def open_sockets
      return [] unless scripted&.tcp?
      ObjectSpace.each_object(Socket).select do |socket|
        !socket.closed? && socket.remote_address.ip? && socket.remote_address.ip_port == scripted.port
      rescue SystemCallError
        false # not connected
      end
    end

    # The same without a loop, where waits take real time. The first use of `clock` makes the clock virtual: then time
    # stands still, except for `clock.advance`.
    module Outside
      def in_loop(**, &) = on_thread(&)

      def with_virtual_clock
        yield
      ensure
        @clock&.stop
      end

      def clock = @clock ||= NeverBlock::Testing::VirtualClock.start

      def brief = 0.05

      def settle(aside = nil) = wait_until("a wait") { aside.stop? }

      def aside(&) = Thread.new(&).tap { |thread| thread.report_on_exception = false }
    end
  end
end
