# frozen_string_literal: true

module NeverBlock
  class Proxy
    # A request for an upstream. It is serialised anew from its parts, and nothing of another request's bytes is copied.
    # The length, chunks and all fields about the connection are the client's own.
    #
    #   Request.new("GET", "/posts?page=2", fields: {"accept" => "text/html"}, host: "example.org")
    #   Request.new("PUT", "/file", body: File.open("x.png"), length: 1_024)
    #   Request.new("GET", "/chat", upgrade: "websocket", fields: {"sec-websocket-version" => "13", …})
    class Request
      # RFC 9110, section 9.2.2.
      IDEMPOTENT = %w[GET HEAD OPTIONS TRACE PUT DELETE].freeze
      # Methods that anticipate content: without any they say so (RFC 9110, section 8.6).
      WITH_CONTENT = %w[POST PUT PATCH].freeze
      NONE = {}.freeze
      private_constant :IDEMPOTENT, :WITH_CONTENT, :NONE

      # @return [String]
      attr_reader :method, :target
      # @return [String, nil] the client's address, for the PROXY protocol
      attr_reader :client
      # @return [String, nil] the protocol that is asked for
      attr_reader :upgrade
      # @api private
      # @return [RequestBody, nil]
      attr_reader :body
      # @api private
      # @return [Boolean, nil] whether trailers are welcome
      attr_accessor :trailers

      # @param method [String] a token; CONNECT is refused
      # @param target [String] the path and query, beginning with "/"; "*" for OPTIONS
      # @param fields [Hash{String=>String,Array<String>}, Array<Array(String, String)>] without those of the connection
      #   (RFC 9110, section 7.6.1), Host and Content-Length: they are refused
      # @param body [String, #read, #each, nil] the content: bytes, a readable or pieces
      # @param length [Integer, nil] bytes of the content; nil: not known, but for a String. Then it is sent in chunks
      # @param host [String, nil] the Host field; nil: the upstream's address
      # @param upgrade [String, nil] asks to go on with this protocol (RFC 9110, section 7.8)
      # @param trailers [Boolean] whether to say that trailers are welcome (RFC 9110, section 10.1.4)
      # @param expect_continue [Boolean] whether to wait a second for the upstream's consent before the content is sent
      #   (RFC 9110, section 10.1.1)
      # @param client [String, nil] the client's address, for an upstream with `proxy_protocol:`
      # @raise [InvalidRequest]
      def initialize(method, target, fields: NONE, body: nil, length: nil, host: nil, upgrade: nil, trailers: false,
        expect_continue: false, client: nil)
        @trailers = trailers
        set(method, target, "".b, host, body, length, upgrade, expect_continue, client)
        fields.each { |name, value| add(name, value) }
      end

      # @api private
      # Makes one of fields that are checked already, and without keywords, which would cost each request two Hashes.
      # @param lines [String] made by {FieldCheck}
      # @return [Request]
      # @raise [InvalidRequest]
      def self.of(method, target, lines, host, body, length, upgrade, expect_continue, client)
        allocate.set(method, target, lines, host, body, length, upgrade, expect_continue, client)
      end

      # @api private
      # @return [self]
      def set(method, target, lines, host, body, length, upgrade, expect_continue, client)
        @method = FieldCheck.method(method)
        @target = FieldCheck.target(@method, target)
        @lines = lines
        @host = host && FieldCheck.authority(host)
        @body = RequestBody.new(body, length) if body
        raise InvalidRequest, "length: #{length} is given without a body:" if length && body.nil?
        @upgrade = upgrade && FieldCheck.protocol(upgrade)
        @expects = expect_continue && !@body.nil?
        @client = client
        refuse_content if @body && (@upgrade || @method == "TRACE")
        self
      end

      # @return [Boolean] whether it was HEAD, whose response has no content
      def head? = @method == "HEAD"

      # @return [Boolean] whether to wait for 100 (Continue) before the content is sent
      def expects_continue? = @expects

      # @return [Boolean] whether the upstream may get it twice: it is idempotent and its content is there again
      def repeatable? = IDEMPOTENT.include?(@method) && (@body.nil? || @body.repeatable?)

      # @api private
      # @param upstream [Upstream]
      # @return [String] the bytes of the head
      def head(upstream)
        head = "#{@method} #{@target} HTTP/1.1\r\nHost: #{@host || upstream.authority}\r\n#{@lines}#{framing}"
        head.force_encoding(Encoding::BINARY)
        head << "Expect: 100-continue\r\n" if @expects
        head << connection if @upgrade || @trailers
        head << "Upgrade: #{@upgrade}\r\n" if @upgrade
        head << "TE: trailers\r\n" if @trailers
        head << "\r\n"
      end

      private

      # Set-Cookie aside, a list of values could be one line; several lines change nothing and are what was given.
      def add(name, value)
        return FieldCheck.add(@lines, name, value) unless Array === value
        value.each { |one| FieldCheck.add(@lines, name, one) }
      end

      def connection = "Connection: #{[("upgrade" if @upgrade), ("TE" if @trailers)].compact.join(", ")}\r\n"

      def framing
        if @body.nil? then WITH_CONTENT.include?(@method) ? "Content-Length: 0\r\n" : ""
        elsif @body.length then "Content-Length: #{@body.length}\r\n"
        else "Transfer-Encoding: chunked\r\n"
        end
      end

      def refuse_content
        raise InvalidRequest, "#{@upgrade ? "a request to upgrade" : "TRACE"} can't have a body: where it ends would " \
          "be doubtful. Leave body: out"
      end
    end
  end
end
