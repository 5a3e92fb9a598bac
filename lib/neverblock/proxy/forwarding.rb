# frozen_string_literal: true

module NeverBlock
  class Proxy
    # One request through the proxy: it chooses an upstream, and another one if there is no connection to that one, and
    # makes Rack's response of the upstream's.
    #
    #   Forwarding.new(proxy_parts, env).call    # => [200, {"content-type" => "text/html"}, #<Body>]
    # @api private
    class Forwarding
      # What all requests share.
      Parts = Struct.new(:settings, :backends, :incoming, :via, :lines, :log) do
        # @param failure [Failure]
        # @return [Hash{String=>String}] RFC 9209
        def proxy_status(failure)
          (settings.proxy_status == :none) ? {} : {"proxy-status" => "#{via.name}; error=#{failure.token}"}
        end
      end

      # In Rack's env: a Hash for logs.
      NOTE = "neverblock.upstream"
      # In Rack's env: the response is for one client, though its headers do not say so. For a cache in front.
      UNSHARED = "neverblock.unshared"
      HINTS = "rack.early_hints"
      # In Rack's env, of our server: a callable for the status and headers of an interim response.
      INTERIM = "neverblock.interim"
      # Statuses without content: of some a length would be of another response (RFC 9110, section 8.6).
      BARE = [204, 304].freeze
      NONE = [].freeze
      # Causes of failures on this host: it has no descriptors, memory or ports left.
      SHORT = [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM, Errno::EADDRNOTAVAIL].freeze
      private_constant :UNSHARED, :HINTS, :INTERIM, :BARE, :NONE, :SHORT

      # @param parts [Parts]
      # @param env [Hash] Rack's
      def initialize(parts, env)
        @parts = parts
        @settings = parts.settings
        @env = env
      end

      # @return [Array(Integer, Hash, #each)]
      def call
        @request, @input = @parts.incoming.call(@env)
        forward
      rescue Error, ClosedError => error
        # What the client's end has raised is for the server, which knows the response to it.
        raise if @input&.failure.equal?(error) && !(LimitedInput::Refused === error)
        respond_to(error)
      end

      private

      def forward
        tried = NONE
        key = @parts.backends.key(@env)
        until (response = attempt(backend = @parts.backends.pick(tried, key)))
          tried = [*tried, backend]
          raise @failure unless tried.size < [@settings.max_tries, @parts.backends.all.size].min
        end
        response
      end

      # @return [Array(Integer, Hash, #each), nil] nil: another upstream may be asked
      def attempt(backend)
        enter_tunnel(backend) if @request.upgrade
        rack = respond(backend, ask(backend))
        whole = true
        rack
      rescue Error => error
        raise if @input&.failure
        count(backend, error)
        raise unless unsent?(error)
        @failure = error
        nil
      ensure
        # An exception from outside may come wherever a method ends.
        let_go(backend) unless whole && @body
      end

      # The body that the client gets does this by itself.
      def let_go(backend)
        return @body.close if @body
        begin
          @exchange&.response&.close
        ensure
          release(backend)
        end
      end

      def release(backend)
        leave_tunnel(backend)
      ensure
        @parts.backends.release(backend)
      end

      # The place is taken before the request is sent: an upstream's 101 is not refused.
      def enter_tunnel(backend)
        return if (@tunnel = @parts.backends.enter_tunnel(backend, @settings.max_tunnels))
        raise OverloadError.new("upstream #{backend.upstream}: #{@settings.max_tunnels} tunnels are open or being " \
          "opened. Raise max_tunnels:", upstream: backend.upstream, phase: :queue)
      end

      def leave_tunnel(backend)
        place, @tunnel = @tunnel, nil
        @parts.backends.leave_tunnel(backend) if place
      end

      def ask(backend)
        @exchange = nil
        @exchange = Exchange.new(backend.pool, @request)
        @exchange.max_head = @settings.max_response_head
        @exchange.on_interim = method(:interim) if interim?
        response = @exchange.call
        UpstreamLines.back(@parts.log, @env["rack.errors"], backend) if @parts.backends.well(backend)
        response
      ensure
        backend.counts[:retries] += 1 if @exchange&.retried?
        note(backend, @exchange)
      end

      # Nothing of the request was sent, so another upstream may get it.
      def unsent?(error)
        ConnectError === error || ConnectTimeout === error || OverloadError === error ||
          (InvalidResponse === error && error.phase == :connect)
      end

      # Each failure is counted. The upstream is blamed for those that are its own.
      # @param begun [Boolean] whether its head had come: then a slow client makes the whole late too
      def count(backend, error, begun: false)
        backend.outcomes[:failed] += 1
        return if ours?(error) || (begun && TotalTimeout === error)
        seconds = @parts.backends.failed(backend, connect: unsent?(error))
        UpstreamLines.left_alone(@parts.log, @env["rack.errors"], backend, seconds, error) if seconds
      end

      # The client's, the settings' or this host's.
      def ours?(error)
        case error
        when InvalidBody, InvalidRequest, OverloadError, Accel::Refused, Body::TooLarge then true
        else SHORT.include?(error.cause.class)
        end
      end

      def respond(backend, response)
        elsewhere = false
        headers = HopByHop.response(response.lines) { elsewhere = true }
        file = @settings.accel && accelerated(response, headers)
        unless file
          @env[UNSHARED] = true if elsewhere
          check_length(response)
          first = ahead(response)
        end
        backend.outcomes[outcome(response.status)] += 1
        status_of(response, headers)
        return file if file
        return switch(backend, response, headers) if response.upgraded?
        leave_tunnel(backend)
        headers["content-length"] = response.length.to_s if response.length && !BARE.include?(response.status)
        announce_trailers(response, headers) if trailers?(response)
        [response.status, headers, body(backend, response, first)]
      end

      def check_length(response)
        limit = @settings.max_response_body
        return if limit.nil? || response.length.nil? || response.length <= limit || response.ended?
        raise Body::TooLarge, "the upstream's response has #{response.length} bytes (max_response_body:)"
      end

      # What has come with the head may say that the response is invalid, while the client can be told by a status.
      def ahead(response)
        return if response.upgraded?
        first = response.read_ahead
        limit = @settings.max_response_body
        return first if limit.nil? || first.nil? || first.bytesize <= limit
        raise Body::TooLarge, "the upstream's response has more than #{limit} bytes (max_response_body:)"
      end

      # RFC 9110, section 6.6.2: which trailers will come, as far as the upstream says so.
      def announce_trailers(response, headers)
        names = response["trailer"] or return
        return if response.length || BARE.include?(response.status)
        announced = HopByHop.announced(names)
        headers["trailer"] = announced if announced
      end

      # @return [Boolean] whether the client looks at trailers, and there are some or may still come
      def trailers?(response) = @request.trailers && !(response.ended? && response.trailers.empty?)

      # What has ended with its head needs no connection any more.
      def body(backend, response, first)
        return [*first] if response.ended? && !trailers?(response)
        @body = Body.new(response, @settings.max_response_body, first) do |failure|
          release(backend)
          count(backend, failure, begun: true) if failure
        end
      end

      # The server writes Connection and its own end of the handshake (RFC 9110, section 7.8).
      def switch(backend, response, headers)
        backend.counts[:tunnels] += 1
        @body = Tunnel.new(response, idle: @settings.tunnel_idle) { release(backend) }
        protocol = {"connection" => "upgrade", "upgrade" => @request.upgrade, "rack.hijack" => @body}
        [101, {**headers, **protocol}, @body]
      end

      def accelerated(response, headers)
        file = @settings.accel.find(response.fields) or return
        headers.delete("accept-ranges")
        headers["content-length"] = File.size(file).to_s
        [response.status, headers, @request.head? ? [] : Accel::Body.new(file)]
      rescue Errno::ENOENT, Errno::ENOTDIR => error
        missing = Failure::REFUSALS[:no_file]
        @parts.lines.write(@env, missing.token, nil, "an upstream named a file that there is not: #{error.message}")
        missing.to_rack
      rescue SystemCallError => error
        raise Accel::Refused, "an upstream named a file that can't be read: #{error.message}"
      end

      def interim? = @settings.early_hints && !(@env[HINTS] || @env[INTERIM]).nil?

      # RFC 9110, section 15.2. Rack has a way for 103 alone (RFC 8297), our server for the others too. 100 is left out:
      # the server gives its consent by itself, when the content is asked for.
      def interim(status, fields)
        case status
        when 100 then nil
        when 103 then @env[HINTS]&.call(HopByHop.response(fields.flatten))
        else @env[INTERIM]&.call(status, HopByHop.response(fields.flatten))
        end
      end

      # Status codes by their class; a client's own errors too.
      def outcome(status) = OUTCOMES.fetch(status / 100, :other)

      OUTCOMES = {1 => :"1xx", 2 => :"2xx", 3 => :"3xx", 4 => :"4xx", 5 => :"5xx"}.freeze
      private_constant :OUTCOMES

      def status_of(response, headers)
        return unless @settings.proxy_status == :all
        mine = "#{@parts.via.name}; received-status=#{response.status}"
        headers["proxy-status"] = [*headers["proxy-status"], mine].join(", ")
      end

      def note(backend, exchange)
        @env[NOTE] = {url: backend.upstream.url, connect: exchange&.connect_seconds,
                      first_byte: exchange&.first_byte_seconds, retried: exchange&.retried?}
      end

      def respond_to(error)
        failure = failure_of(error) or raise error
        @parts.lines.write(@env, failure.token, (error.upstream if Error === error), error.message)
        failure.to_rack(@parts.proxy_status(failure))
      end

      def failure_of(error)
        case error
        when Accel::Refused then Failure::REFUSALS[:file]
        when Body::TooLarge then Failure::REFUSALS[:response_too_large]
        else Failure.of(error)
        end
      end
    end
  end
end
