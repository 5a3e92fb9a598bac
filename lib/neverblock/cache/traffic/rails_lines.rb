# frozen_string_literal: true

require_relative "log_request"

module NeverBlock
  class Cache
    class Traffic
      # Requests in Rails' own log, of two lines each: "Started GET …" and "Completed 200 OK …". What stands in front of
      # both, such as the request's id with `config.log_tags = [:request_id]`, tells which belong together. Without
      # that, each "Completed" belongs to the last "Started" of its process.
      #
      #   lines = RailsLines.new(LogTime.new)
      #   lines.take('[a1] Started GET "/x" for 192.0.2.7 at 2026-11-26 20:36:19 +0000')    # => []
      #   lines.take("[a1] Completed 200 OK in 12ms")                                       # => [a LogRequest]
      # @api private
      class RailsLines
        STARTED = /\A(.{0,400}?)Started ([A-Z]{1,20}) "([^"]*+)" for (\S{1,255}) at ([0-9: +-]{10,40}|\d{4}-\S{1,40})/n
        COMPLETED = /\A(.{0,400}?)Completed ([1-5][0-9]{2}) [^\n]{0,60}? in \d/n
        # What differs in front of the lines of one request.
        CHANGING = /\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?|[A-Z][a-z][a-z] [ \d]\d \d\d:\d\d:\d\d/n
        # Requests whose end is waited for.
        MOST = 5_000
        private_constant :STARTED, :COMPLETED, :CHANGING, :MOST

        # @return [Integer] requests without a line for their end
        attr_reader :unfinished

        # @param time [LogTime]
        def initialize(time)
          @time = time
          @open = {}
          @unfinished = 0
          @seen = false
        end

        # @return [Boolean] whether lines were Rails', so that all others may be so
        def seen? = @seen

        # @param line [String] binary
        # @return [Array<LogRequest>, nil] those that have ended; nil: the line is something else
        def take(line)
          if line.include?("Started ") && (match = STARTED.match(line))
            @seen = true
            start(match)
          elsif line.include?("Completed ") && (match = COMPLETED.match(line))
            request = @open.delete(front(match[1])) or return (@seen ? [] : nil)
            request.code = match[2]
            [request]
          end
        end

        # @return [Array<LogRequest>] those that have not ended, without a status
        def rest
          left = @open.values
          @open.clear
          @unfinished += left.size
          left
        end

        private

        def start(match)
          key = front(match[1])
          before = @open.delete(key)
          @open[key] = LogRequest.new(method: match[2], target: match[3], client: match[4],
            at: @time.parse(match[5].strip))
          before ||= @open.shift.last if @open.size > MOST
          return [] unless before
          @unfinished += 1
          [before]
        end

        def front(text) = text.gsub(CHANGING, "")
      end
    end
  end
end
