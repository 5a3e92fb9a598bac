# frozen_string_literal: true

module NeverBlock
  class Proxy
    # What a client gets in place of an upstream's response: the status, the word for Proxy-Status (RFC 9209, section
    # 2.3) and a short text. It tells nothing about upstreams.
    #
    #   failure = Failure.of(error)
    #   failure.status    # => 504
    #   failure.token     # => "connection_timeout"
    Failure = Data.define(:status, :token, :text)

    # What a client gets in place of an upstream's response.
    class Failure
      OVERLOADED = new(503, "connection_limit_reached", "too many requests for the upstream")
      DENIED = "http_request_denied"
      private_constant :DENIED

      # Those that the proxy decides on before an upstream is asked.
      REFUSALS = {
        method: new(405, DENIED, "the method is not supported here"),
        misdirected: new(421, DENIED, "this host is not served here"),
        authority: new(400, "http_request_error", "the target's authority is not that of the Host field"),
        loop: new(508, "proxy_loop_detected", "the request has been here before"),
        too_large: new(413, "http_request_error", "the request's content is too large"),
        too_slow: new(408, "http_request_error", "the request's content came too slowly"),
        invalid: new(400, "http_request_error", "the request can't be passed on"),
        response_too_large: new(502, "http_response_body_size", "the upstream's response is too large"),
        file: new(502, "proxy_internal_error", "the upstream named a file that is not served"),
        no_file: new(404, "http_request_error", "not found")
      }.freeze

      BY_CLASS = {
        LimitedInput::TooLarge => REFUSALS[:too_large],
        LimitedInput::TooSlow => REFUSALS[:too_slow],
        InvalidRequest => REFUSALS[:invalid],
        InvalidBody => new(400, "http_request_error", "the request's content is not as long as announced"),
        OverloadError => OVERLOADED,
        ConnectTimeout => new(504, "connection_timeout", "no connection to the upstream in time"),
        FirstByteTimeout => new(504, "http_response_timeout", "no response of the upstream in time"),
        IdleTimeout => new(504, "connection_read_timeout", "the upstream has stalled"),
        TotalTimeout => new(504, "http_response_timeout", "no whole response of the upstream in time"),
        InvalidResponse => new(502, "http_protocol_error", "the upstream's response is invalid"),
        ConnectionLost => new(502, "connection_terminated", "the upstream has closed the connection"),
        TLSError => new(502, "tls_protocol_error", "no TLS with the upstream"),
        ConnectError => new(502, "connection_refused", "no connection to the upstream"),
        ClosedError => new(503, "destination_unavailable", "the proxy is being closed")
      }.freeze
      CERTIFICATE = new(502, "tls_certificate_error", "the upstream's certificate is not accepted")
      NAME = new(502, "dns_error", "the upstream's name has no address")
      ROUTE = new(502, "destination_ip_unroutable", "no route to the upstream")
      private_constant :BY_CLASS, :CERTIFICATE, :NAME, :ROUTE

      # @param error [Exception] of an exchange
      # @return [Failure, nil] nil: it is not of the proxy
      def self.of(error)
        if ConnectError === error
          case error.cause
          when Errno::EHOSTUNREACH, Errno::ENETUNREACH, Errno::EADDRNOTAVAIL then return ROUTE
          when SocketError then return NAME
          when OpenSSL::SSL::SSLError then return CERTIFICATE if error.cause.message.include?("certificate")
          end
        end
        BY_CLASS.each { |kind, failure| return failure if kind === error }
        nil
      end

      # @param headers [Hash{String=>String}] further ones
      # @return [Array(Integer, Hash, Array<String>)] Rack's response
      def to_rack(headers = {})
        wait = {"retry-after" => "1"} if status == 503
        [status, {"content-type" => "text/plain", "content-length" => (text.bytesize + 1).to_s, **wait.to_h, **headers},
          ["#{text}\n"]]
      end
    end
  end
end
