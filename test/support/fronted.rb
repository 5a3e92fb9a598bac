# frozen_string_literal: true

require "neverblock"
require "stringio"
require_relative "scripted_upstream"
require_relative "served"

module NeverBlockTest
  # A proxy in our server, before upstreams that do what a test says.
  #
  #   class ProxyUpgradeTest < Minitest::Test
  #     include NeverBlockTest::Helpers
  #     include NeverBlockTest::Fronted
  #
  #     def test_one
  #       front(->(peer) { peer.request and peer << OK })
  #       assert_equal "ok", ask(get("/")).body
  #       assert_equal 1, scripted.requests.size
  #     end
  #   end
  #
  # At the end of a test no upstream may have a request in flight.
  module Fronted
    include Served

    OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    # Responds with OK for as long as there are requests.
    KEEP = ->(peer) { peer << OK while peer.request }

    # @param scripts [Array<#call>] of the upstream's connections
    # @param server [Hash{Symbol=>Object}] directives of the server in front
    # @param wrap [#call, nil] makes the app of the proxy
    # @param options [Hash{Symbol=>Object}] of the proxy
    # @return [NeverBlock::Proxy]
    def front(*scripts, server: {}, wrap: nil, **options)
      @scripted = ScriptedUpstream.new(*scripts)
      front_of(@scripted.url, server:, wrap:, **options)
    end

    # The same before other upstreams.
    def front_of(urls, server: {}, wrap: nil, **options)
      @proxy = NeverBlock::Proxy.new(urls, via: "here", **options)
      app = wrap ? wrap.call(@proxy) : @proxy
      said = @proxy_log = StringIO.new
      serve(->(env) { app.call(env.merge!("rack.errors" => said)) }, request_body: :stream, cancel_on_disconnect: true, **server)
      @proxy
    end

    # @return [NeverBlock::Proxy]
    attr_reader :proxy

    # @return [ScriptedUpstream]
    attr_reader :scripted

    # @return [String] the last request that the upstream got
    def sent = scripted.requests.last

    # @return [Hash{String=>String}] the fields of that request, with names in lower case
    def sent_fields
      sent.split("\r\n\r\n", 2).first.lines(chomp: true).drop(1).to_h { |line| line.split(": ", 2).then { |name, value| [name.downcase, value] } }
    end

    # @return [String] what the proxy has written into rack.errors
    def proxy_log = @proxy_log.string

    # @return [Hash] of the first upstream
    def upstream_stats = proxy.stats.values.first

    def teardown
      wires.each(&:close)
      gates.each(&:close)
      wait_until("no request in flight in #{proxy.stats}") { proxy.stats.each_value.all? { |stats| stats[:in_flight].zero? && stats[:connections][:held].zero? } } if proxy
      proxy&.close # back ends of its own wait for its idle connections
      super
      scripted&.close
    end
  end
end
