# frozen_string_literal: true

module NeverBlock
  class Proxy
    # Makes the request for the upstream from Rack's env. Fields between two neighbours are left out, and what the proxy
    # says about the client is added.
    #
    #   request, input = Incoming.new(settings, via).call(env)
    # @api private
    class Incoming
      HEADER = "HTTP_"
      # Names of fields that are kept.
      MOST_NAMES = 1_000
      LENGTH = /\A\d{1,18}\z/
      # In TE (RFC 9110, section 10.1.4).
      TRAILERS = /(?:\A|,)[ \t]*trailers[ \t]*(?:,|\z)/i
      # Not passed on, or made anew. HTTP_PROXY is httpoxy's (CVE-2016-5385).
      DROPPED = [
        *HopByHop::NAMES, *HopByHop::INTERNAL, "content-length", "content-type", "expect", "host", "max-forwards",
        "proxy", "version", "via"
      ].to_h { |name| [name, true] }.freeze
      NOTHING = {}.freeze
      EMPTY = [nil, nil].freeze
      private_constant :HEADER, :MOST_NAMES, :LENGTH, :TRAILERS, :DROPPED, :NOTHING, :EMPTY

      # @param settings [Settings]
      # @param via [Via]
      # @param forwarded [Forwarded]
      def initialize(settings, via, forwarded)
        @settings = settings
        @via = via
        @forwarded = forwarded
        @prefixes = prefixes(false)
        @trusted_prefixes = prefixes(true)
      end

      # @param env [Hash] Rack's
      # @return [Array(Request, LimitedInput), Array(Request, nil)]
      # @raise [InvalidRequest, LimitedInput::TooLarge]
      def call(env)
        input, length = content(env)
        upgrade = upgrade(env) unless input
        request = Request.of(env["REQUEST_METHOD"], target(env), lines(env), host(env), input, length, upgrade,
          !input.nil? && env.key?("HTTP_EXPECT"), env["REMOTE_ADDR"].to_s)
        request.trailers = trailers?(env) if env.key?("HTTP_TE")
        [request, input]
      end

      private

      # As received: with the path at which Rack has mounted the proxy, and an empty query too.
      def target(env)
        script, path, query = env["SCRIPT_NAME"], env["PATH_INFO"], env["QUERY_STRING"]
        path = "#{script}#{path}" if path.nil? || !(script.nil? || script.empty?)
        path = "/" if path.empty?
        return "#{path}?#{query}" unless query.nil? || query.empty?
        (env["REQUEST_URI"] == "#{path}?") ? "#{path}?" : path
      end

      def host(env)
        case @settings.host
        when :keep then env["HTTP_HOST"]
        when :upstream then nil
        else @settings.host
        end
      end

      def lines(env)
        trusted = @forwarded.trusts?(env)
        lines = FieldLines.of_env(env, prefixes_for(env["HTTP_CONNECTION"], trusted)) do |entry|
          FieldCheck.refuse(name_of(entry), env[entry])
        end
        type = env["CONTENT_TYPE"]
        FieldCheck.add(lines, "content-type", type) if type && !type.empty?
        @forwarded.each(env, trusted) { |name, value| FieldCheck.add(lines, name, value) }
        FieldCheck.add(lines, "via", @via.add(env["HTTP_VIA"]))
        max_forwards(env, lines) if env["REQUEST_METHOD"] == "OPTIONS"
        lines
      end

      def prefixes_for(connection, trusted)
        listed = connection ? HopByHop.listed([connection]) : NOTHING
        return prefixes(trusted, listed) unless listed.all? { |name, _| DROPPED[name] }
        trusted ? @trusted_prefixes : @prefixes
      end

      # @return [Hash{String=>String, false}] by a name in env, the beginning of the field's line; false: not passed on
      def prefixes(trusted, listed = NOTHING)
        Hash.new do |known, entry|
          prefix = prefix(name_of(entry), trusted, listed)
          known[entry.dup.freeze] = prefix if known.size < MOST_NAMES
          prefix
        end
      end

      def prefix(name, trusted, listed)
        return false if DROPPED[name] || listed[name]
        return false if @forwarded.claim?(name) && (!trusted || @forwarded.makes?(name))
        FieldCheck.prefix(name)
      end

      def name_of(entry) = entry.delete_prefix(HEADER).downcase.tr("_", "-")

      # RFC 9110, section 7.6.2; {Guard} answers those that end here. With other methods it means nothing.
      def max_forwards(env, lines)
        value = env["HTTP_MAX_FORWARDS"]
        FieldCheck.add(lines, "max-forwards", (value.to_i - 1).to_s) if value && LENGTH.match?(value)
      end

      # @return [Array(LimitedInput, Integer), Array(LimitedInput, nil), Array(nil, nil)]
      def content(env)
        input = env["rack.input"] or return EMPTY
        length = env["CONTENT_LENGTH"]
        return EMPTY if length.nil? && empty?(input) && !env.key?("HTTP_EXPECT")
        limit = @settings.max_request_body
        limited = LimitedInput.new(input, limit, least: @settings.min_request_rate)
        unless length.nil? || length.empty?
          raise InvalidRequest, "Content-Length #{length.inspect} is not a number" unless LENGTH.match?(length)
          count = length.to_i
          return EMPTY if count.zero?
          return [limited, count] if limit.nil? || count <= limit
          raise LimitedInput::TooLarge, "the request's content has #{count} bytes (max_request_body:)"
        end
        # A client that waits for 100 (Continue) gets it when the content is read, so that is left to the upstream.
        (env.key?("HTTP_EXPECT") || limited.any?) ? [limited, nil] : EMPTY
      end

      # HTTP/1.0 has no chunks, behind which they come.
      def trailers?(env) = TRAILERS.match?(env["HTTP_TE"]) && env["SERVER_PROTOCOL"] != "HTTP/1.0"

      # That of a server which knows that there is none.
      def empty?(input)
        input.respond_to?(:size) && input.respond_to?(:eof?) && input.size == 0 && input.eof?
      end

      # Only what the client has asked for, and only if the server can hand over its connection.
      def upgrade(env)
        return unless env["REQUEST_METHOD"] == "GET" && env["rack.hijack?"] && env["SERVER_PROTOCOL"] != "HTTP/1.0"
        asked = env["HTTP_UPGRADE"] or return
        return unless HopByHop.listed([*env["HTTP_CONNECTION"]]).key?("upgrade")
        asked.split(",").map { |protocol| protocol.strip.downcase }.find { |one| @settings.upgrades.include?(one) }
      end
    end
  end
end
