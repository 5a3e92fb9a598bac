# frozen_string_literal: true

module NeverBlock
  class Proxy
    # Where the proxy's lines go: to a logger, or else to `rack.errors`, with time, process and level as in the error
    # log of our server, which the proxy does not know.
    #
    #   Log.new.warn("upstream …: left alone", env["rack.errors"])
    #   # 2026-11-21T19:38:15.123Z [4711] warn: neverblock proxy: upstream …: left alone
    #   Log.new(Logger.new("proxy.log")).warn("upstream …: left alone", env["rack.errors"])
    # @api private
    class Log
      # @param logger [#warn, nil] such as a Logger
      def initialize(logger = nil)
        @logger = logger
      end

      # A log that can't be written ends no checks, and costs no client its response.
      # @param text [String] printable
      # @param errors [#write, nil] without a logger the line goes there; nil: there is no line, with a logger neither
      # @return [void]
      def warn(text, errors)
        return unless errors
        text = "neverblock proxy: #{text}"
        return @logger.warn(text) if @logger
        time = Clock.time.utc.strftime("%Y-%m-%dT%H:%M:%S.%LZ")
        errors.write("#{time} [#{Process.pid}] warn: #{text}\n")
      rescue SystemCallError, IOError
        nil
      end
    end
  end
end
