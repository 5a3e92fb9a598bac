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
      # Not passed on, or made anew. HTTP_PROXY is httpoxy's (CVE-2016-5385).
      DROPPED = [
        *HopByHop::NAMES, *HopByHop::INTERNAL, "content-length", "content-type", "expect", "host", "max-forwards",
        "proxy", "version", "via"
      ].to_h { |name| [name, true] }.freeze
      NOTHING = {}.freeze
      private_constant :HEADER, :MOST_NAMES, :LENGTH, :DROPPED, :NOTHING

      # @param settings [Settings]
      # @param via [Via]
      # @param forwarded [Forwarded]
      def initialize(settings, via, forwarded)
        @settings = settings
        @via = via
        @forwarded = forwarded
        @names = {}
      end

      # @param env [Hash] Rack's
      # @return [Array(Request, LimitedInput), Array(Request, nil)]
      # @raise [InvalidRequest, LimitedInput::TooLarge]
      def call(env)
        input, length = content(env)
        upgrade = upgrade(env) unless input
        request = Request.new(env["REQUEST_METHOD"], target(env), fields: fields(env), host: host(env), body: input,
          length:, upgrade:, expect_continue: !input.nil? && env.key?("HTTP_EXPECT"), client: env["REMOTE_ADDR"].to_s)
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

      def fields(env)
        connection = env["HTTP_CONNECTION"]
        listed = connection ? HopByHop.listed([connection]) : NOTHING
        trusted = @forwarded.trusts?(env)
        fields = []
        env.each do |entry, value|
          next unless entry.start_with?(HEADER) && String === value
          name = name_of(entry)
          next if DROPPED[name] || listed[name]
          next if @forwarded.claim?(name) && (!trusted || @forwarded.makes?(name))
          fields << [name, value]
        end
        type = env["CONTENT_TYPE"]
        fields << ["content-type", type] if type && !type.empty?
        fields.concat(@forwarded.call(env, trusted)) << ["via", @via.add(env["HTTP_VIA"])]
        max_forwards(env, fields) if env["REQUEST_METHOD"] == "OPTIONS"
        fields
      end

      def name_of(entry)
        @names[entry] || begin
          name = entry.delete_prefix(HEADER).downcase.tr("_", "-").freeze
          @names[entry.dup.freeze] = name if @names.size < MOST_NAMES
          name
        end
      end

      # RFC 9110, section 7.6.2; {Guard} answers those that end here. With other methods it means nothing.
      def max_forwards(env, fields)
        value = env["HTTP_MAX_FORWARDS"]
        fields << ["max-forwards", (value.to_i - 1).to_s] if value && LENGTH.match?(value)
      end

      # @return [Array(LimitedInput, Integer), Array(LimitedInput, nil), nil]
      def content(env)
        input = env["rack.input"] or return
        length = env["CONTENT_LENGTH"]
        return if length.nil? && empty?(input) && !env.key?("HTTP_EXPECT")
        limit = @settings.max_request_body
        limited = LimitedInput.new(input, limit, least: @settings.min_request_rate)
        unless length.nil? || length.empty?
          raise InvalidRequest, "Content-Length #{length.inspect} is not a number" unless LENGTH.match?(length)
          count = length.to_i
          return if count.zero?
          return [limited, count] if limit.nil? || count <= limit
          raise LimitedInput::TooLarge, "the request's content has #{count} bytes (max_request_body:)"
        end
        # A client that waits for 100 (Continue) gets it when the content is read, so that is left to the upstream.
        [limited, nil] if env.key?("HTTP_EXPECT") || limited.any?
      end

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
