# frozen_string_literal: true

require_relative "runtime"
require "io/wait"
require "openssl"
require "socket"

module NeverBlock
  # A reverse proxy as a Rack app: it sends requests to the upstreams that it was given, and to no others.
  #
  #   run NeverBlock::Proxy.new("http://127.0.0.1:3000")                     # config.ru
  #   mount NeverBlock::Proxy.new("http://reports:8080") => "/reports"       # Rails
  #   proxy = NeverBlock::Proxy.new(["http://10.0.0.5:3000", "http://10.0.0.6:3000"], timeouts: {first_byte: 30})
  #
  # Contents are passed on piece by piece, both ways. docs/proxy.md has the options, and what a client gets when
  # something fails. The parts:
  #
  #   settings.rb                                the options
  #   guard.rb, via.rb                           what is refused before an upstream is asked
  #   incoming.rb, forwarded.rb, hop_by_hop.rb   the request for the upstream; limited_input.rb: its content
  #   backends.rb, backend.rb                    which upstream is asked, and which is left alone for a while
  #   least_requests.rb, consistent_hash.rb      how one is chosen among those that are well
  #   health.rb, probe.rb                        checks of the upstreams
  #   forwarding.rb                              one request; body.rb, tunnel.rb, accel.rb: the response's content
  #   failure.rb, error_lines.rb                 what a client gets, and the log has, instead; log.rb: which log
  #   upstream_lines.rb                          the log's lines about upstreams that go and come back
  #
  # Beneath that is an HTTP/1.1 client, which is made for a proxy and is not a general one:
  #
  #   upstream = NeverBlock::Proxy::Upstream.new("http://127.0.0.1:3000")
  #   pool = NeverBlock::Proxy::ConnectionPool.new(upstream, max_connections: 100)
  #   request = NeverBlock::Proxy::Request.new("GET", "/posts", fields: {"accept" => "text/html"})
  #   NeverBlock::Proxy::Exchange.new(pool, request).call { |response| response.each { |piece| client << piece } }
  #
  # It runs in fibers of a loop, where it parks the fiber alone, and in threads outside of loops. What is doubtful in a
  # response closes its connection: surplus bytes, two lengths, a body that ends early. Its parts:
  #
  #   upstream.rb                                one configured address; tls.rb: its certificate is verified
  #   dialer.rb                                  opens a socket to it; preface.rb: with the PROXY protocol's header
  #   timeouts.rb, deadlines.rb                  how long each phase may take; the deadlines of one exchange
  #   connection.rb                              a connection: reads and writes under deadlines
  #   connection_pool.rb, lease.rb, slots.rb     keeps connections; one use of one; how many there may be
  #   field_check.rb, request.rb, request_body.rb  what is sent, checked and serialised anew
  #   exchange.rb                                one request and its response, and the retry
  #   sender.rb, head_reader.rb                  sends the request, watching for an early response; reads heads
  #   response_head.rb, response.rb              what came; content.rb: its content, in pieces
  #   errors.rb
  #
  # Heads and chunks are parsed in C: ext/neverblock/http/protocol, by way of ext/neverblock/http/client.
  class Proxy
    require_relative "proxy/errors"
    require_relative "proxy/timeouts"
    require_relative "proxy/deadlines"
    require_relative "proxy/tls"
    require_relative "proxy/preface"
    require_relative "proxy/upstream"
    require_relative "proxy/dialer"
    require_relative "proxy/connection"
    require_relative "proxy/slots"
    require_relative "proxy/lease"
    require_relative "proxy/connection_pool"
    require_relative "proxy/field_check"
    require_relative "proxy/request_body"
    require_relative "proxy/request"
    require_relative "proxy/response_head"
    require_relative "proxy/head_reader"
    require_relative "proxy/sender"
    require_relative "proxy/content"
    require_relative "proxy/response"
    require_relative "proxy/exchange"
    require_relative "proxy/hop_by_hop"
    require_relative "proxy/forwarded"
    require_relative "proxy/via"
    require_relative "proxy/accel"
    require_relative "proxy/probe"
    require_relative "proxy/settings"
    require_relative "proxy/guard"
    require_relative "proxy/limited_input"
    require_relative "proxy/incoming"
    require_relative "proxy/failure"
    require_relative "proxy/log"
    require_relative "proxy/error_lines"
    require_relative "proxy/upstream_lines"
    require_relative "proxy/least_requests"
    require_relative "proxy/consistent_hash"
    require_relative "proxy/backends"
    require_relative "proxy/health"
    require_relative "proxy/body"
    require_relative "proxy/tunnel"
    require_relative "proxy/forwarding"
    require_relative "proxy/registry"

    # @param upstreams [String, Upstream, Array<String, Upstream>] addresses: http://HOST:PORT, https://HOST:PORT or
    #   unix:/PATH
    # @param options [Hash{Symbol=>Object}] see docs/proxy.md
    # @raise [ConfigurationError]
    def initialize(upstreams, **options)
      @settings = Settings.new(**options)
      upstreams = list(upstreams)
      @pools = upstreams.map { |upstream| ConnectionPool.new(upstream, **@settings.pool) }
      @backends = Backends.new(@pools.map { |pool| Backend.new(pool) }, most_failures: @settings.max_failures,
        shortest: @settings.out_for, longest: @settings.longest_out, policy: @settings.policy)
      log = Log.new(@settings.log)
      @health = Health.new(@backends, @settings.health, log:) if @settings.health
      @via = Via.new(@settings.via, upstreams.map(&:url))
      @guard = Guard.new(@settings, @via)
      @lines = ErrorLines.new(log)
      @parts = Forwarding::Parts.new(settings: @settings, backends: @backends, via: @via, lines: @lines, log:,
        incoming: Incoming.new(@settings, @via, Forwarded.new(@settings.forwarded, @settings.trusted_clients)))
      Registry.add(self)
    end

    # @param env [Hash] Rack's
    # @return [Array(Integer, Hash, #each)]
    def call(env)
      @health&.start
      refuse(env) || Forwarding.new(@parts, env).call
    end

    # Decides about a request without an upstream. Whatever stands in front of the proxy and may respond by itself, such
    # as a cache, asks this first: a loop would wait for its own response there.
    # @param env [Hash] Rack's
    # @return [Array(Integer, Hash, Array<String>), nil] the response; nil: the request may go on
    def refuse(env)
      reason = @guard.call(env) or return
      return [204, {}, []] if reason == :last
      failure = Failure::REFUSALS.fetch(reason)
      @lines.write(env, failure.token, nil, failure.text)
      failure.to_rack(@parts.proxy_status(failure))
    end

    # @return [Array<Upstream>]
    def upstreams = @pools.map(&:upstream)

    # @return [Hash{String=>Hash}] of each upstream, by its address: requests in flight, whether it is left alone, and
    #   counters since the beginning
    def stats = @backends.all.to_h { |backend| [backend.upstream.url, backend.stats] }

    # Closes idle connections and ends the checks; later requests get 503.
    # @return [void]
    def close
      @health&.stop
      @pools.each(&:close)
    end

    # @return [String]
    def inspect = "#<#{self.class} #{upstreams.join(", ")}>"

    private

    # Options of TLS are for those with https, if there are any.
    def options_of(url, all)
      plain = !url.to_s.start_with?("https:") && all.any? { |one| String === one && one.start_with?("https:") }
      plain ? @settings.upstream.except(:ca_file, :server_name) : @settings.upstream
    end

    def list(upstreams)
      all = Array(upstreams).map do |one|
        (Upstream === one) ? one : Upstream.new(one, **options_of(one, Array(upstreams)))
      end
      raise ConfigurationError, "NeverBlock::Proxy.new needs an upstream, as in \"http://127.0.0.1:3000\"" if all.empty?
      twice = all.map(&:url).tally.find { |_, count| count > 1 } or return all
      raise ConfigurationError, "the upstream #{twice.first} is given #{twice.last} times. Give it once"
    end
  end
end
