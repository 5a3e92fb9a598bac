# frozen_string_literal: true

module NeverBlock
  class Proxy
    # The proxy's lines about requests: of one kind at most one a second, with the number of those that were left out.
    # What comes from a client or an upstream is escaped.
    #
    #   lines.write(env, "connection_refused", "http://127.0.0.1:3000", "can't connect …")
    #   # … neverblock proxy: connection_refused: can't connect … (GET /cart)
    # @api private
    class ErrorLines
      include MonotonicClock

      # Seconds between two lines of one kind.
      PAUSE = 1
      # Kinds that are told apart.
      MOST = 500
      # Characters of a request's path, and of a message.
      PATH, MESSAGE = 200, 600
      private_constant :PAUSE, :MOST, :PATH, :MESSAGE

      # @param text [String]
      # @param most [Integer] bytes that are kept
      # @return [String] printable ASCII
      def self.plain(text, most = MESSAGE)
        text.b[0, most].gsub(/[^\x20-\x7e]/n) { |byte| format("\\x%02x", byte.ord) }
      end

      # @param log [Log]
      def initialize(log = Log.new)
        @log = log
        @seen = {}
        @lock = Thread::Mutex.new
      end

      # @param env [Hash] Rack's
      # @param token [String]
      # @param upstream [Upstream, nil]
      # @param message [String]
      # @return [void]
      def write(env, token, upstream, message)
        left_out = turn([token, upstream]) or return
        more = " (#{left_out} more of this kind before it)" if left_out > 0
        asked = ErrorLines.plain("#{env["REQUEST_METHOD"]} #{env["SCRIPT_NAME"]}#{env["PATH_INFO"]}", PATH)
        @log.warn("#{token}: #{ErrorLines.plain(message)} (#{asked})#{more}", env["rack.errors"])
      end

      private

      # @return [Integer, nil] lines that were left out; nil: this one is too
      def turn(kind)
        time = now
        @lock.synchronize do
          @seen.clear if @seen.size >= MOST
          entry = @seen[kind] ||= [time - PAUSE, 0]
          if time - entry.first < PAUSE
            entry[1] += 1
            nil
          else
            left_out = entry[1]
            entry.replace([time, 0])
            left_out
          end
        end
      end
    end
  end
end
