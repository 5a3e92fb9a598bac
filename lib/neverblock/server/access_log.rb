# frozen_string_literal: true

require "json"
require_relative "log_text"
require_relative "value_type"

module NeverBlock
  class Server
    # The access log: a line for each request that got a response.
    #
    #   AccessLog.new(writer, format: :common).call(env, 200, 12, 0.004)
    #   # 127.0.0.1 - - [21/Nov/2026:19:38:15 +0000] "GET / HTTP/1.1" 200 12
    # @api private
    class AccessLog
      # @param writer [#<<]
      # @param format [:common, :json]
      # @param clock [#call] returns the time
      def initialize(writer, format:, clock: Time.method(:now))
        @writer = writer
        @format = method(ValueType.one_of(:common, :json).check(format) { "access_log" })
        @clock = clock
        @second = @stamp = nil
      end

      # @param env [Hash] of the request
      # @param status [Integer]
      # @param bytes [Integer] of the response's body
      # @param seconds [Float] from its start to its last byte
      # @return [void]
      def call(env, status, bytes, seconds)
        @writer << @format.call(env, status, bytes, seconds)
      end

      private

      def common(env, status, bytes, _seconds)
        user = env["REMOTE_USER"].to_s
        "#{host(env)} - #{user.empty? ? "-" : LogText.quoted(user).tr(" ", "+")} [#{common_time}] " \
          "\"#{LogText.request(env, limit: 16_000)}\" #{status} #{bytes.zero? ? "-" : bytes}\n"
      end

      def json(env, status, bytes, seconds)
        line = {
          time: @clock.call.utc.strftime("%Y-%m-%dT%H:%M:%S.%LZ"), remote: host(env),
          method: text(env["REQUEST_METHOD"]),
          path: text("#{env["SCRIPT_NAME"]}#{env["PATH_INFO"]}"), query: text(env["QUERY_STRING"]),
          protocol: text(env["SERVER_PROTOCOL"]), status:, bytes:, seconds: seconds.round(6),
          queue_seconds: number(env["neverblock.queue_time"]),
          host: text(env["HTTP_HOST"]), user: text(env["REMOTE_USER"]), referer: text(env["HTTP_REFERER"]),
          agent: text(env["HTTP_USER_AGENT"]), cache: cache(env["neverblock.cache"]),
          **upstream(env["neverblock.upstream"])
        }
        # JSON leaves some characters in strings as they are that a line of a log should not contain.
        "#{JSON.generate(line.compact).gsub(LogText::UNSAFE) { |character| format("\\u%04x", character.ord) }}\n"
      end

      # What a cache notes: what it has done.
      def cache(note) = (note.name if Symbol === note)

      # What a reverse proxy notes: seconds until it had a connection, and until the response's head.
      def upstream(note)
        return {} unless Hash === note
        {upstream: note[:url], upstream_connect_seconds: number(note[:connect]),
         upstream_seconds: number(note[:first_byte])}
      end

      def host(env)
        address = env["REMOTE_ADDR"].to_s
        address.empty? ? "-" : LogText.quoted(address)
      end

      # An app may put anything into its env.
      def text(value) = LogText.utf8(value).then { |text| text unless text.empty? }

      def number(value) = (value.round(6) if Numeric === value && value.to_f.finite?)

      def common_time
        now = @clock.call
        return @stamp if @second == now.to_i
        @second = now.to_i
        @stamp = now.strftime("%d/%b/%Y:%H:%M:%S %z")
      end
    end
  end
end
