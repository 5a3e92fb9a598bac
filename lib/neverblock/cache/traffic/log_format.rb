# frozen_string_literal: true

require_relative "../../errors"
require_relative "log_fields"

module NeverBlock
  class Cache
    class Traffic
      # Lines of a format of one's own, described as nginx' log_format.
      #
      #   format = LogFormat.new('$remote_addr [$time_local] "$request" $status "$sent_http_cache_control"')
      #   format.parse('192.0.2.7 [26/Nov/2026:20:36:19 +0000] "GET /a HTTP/1.1" 200 "max-age=60"', LogTime.new)
      # @api private
      class LogFormat
        VARIABLE = /\$(?:([a-z0-9_]+)|\{([a-z0-9_]+)\})/
        private_constant :VARIABLE

        # @param text [String]
        # @raise [ConfigurationError]
        def initialize(text)
          @text = text
          @names = []
          @line = Regexp.new("\\A#{pattern}")
          return if @names.include?("request") || LogFields.request(@names.to_h { |name| [name, "1"] }, LogTime.new)
          raise ConfigurationError, "format #{text.inspect} has neither $request, nor $request_method and $request_uri"
        end

        # @param line [String] binary
        # @param time [LogTime]
        # @return [LogRequest, nil] nil: the line is something else
        def parse(line, time)
          match = @line.match(line) or return
          LogFields.request(@names.zip(match.captures).to_h, time)
        end

        private

        # A variable ends where the text after it begins, so that each line is read in one pass.
        def pattern
          parts = @text.b.split(/(\$[a-z0-9_]+|\$\{[a-z0-9_]+\})/).reject(&:empty?)
          parts.each_with_index.map { |part, at|
            part.match?(/\A#{VARIABLE}\z/o) ? variable(part, parts[at + 1]) : Regexp.escape(part)
          }.join
        end

        def variable(part, following)
          @names << part[VARIABLE, 1].to_s + part[VARIABLE, 2].to_s
          return "(.*)" unless following
          if following.start_with?("$")
            raise ConfigurationError, "format #{@text.inspect}: nothing separates #{part} from #{following}"
          end
          "([^#{Regexp.escape(following[0])}]*+)"
        end
      end
    end
  end
end
