# frozen_string_literal: true

require_relative "common_line"
require_relative "json_line"
require_relative "key_value_line"
require_relative "log_time"
require_relative "rails_lines"

module NeverBlock
  class Cache
    class Traffic
      # Reads the lines of one log. Each line may have another format; the one of the line before is tried first.
      #
      #   parser = LogParser.new
      #   parser.take('192.0.2.7 - - [26/Nov/2026:20:36:19 +0000] "GET /a HTTP/1.1" 200 512')    # => [a LogRequest]
      #   parser.take("nonsense")                                                                # => nil
      # @api private
      class LogParser
        FORMATS = [CommonLine, JSONLine, KeyValueLine].freeze
        private_constant :FORMATS

        # @return [RailsLines]
        attr_reader :rails

        # @param format [LogFormat, nil] that is tried before the known ones
        def initialize(format = nil)
          @formats = [*format, *FORMATS]
          @time = LogTime.new
          @rails = RailsLines.new(@time)
        end

        # @param line [String] binary, without its end
        # @param wrapped [Boolean] whether it was a part of another line
        # @return [Array<LogRequest>, nil] requests that are complete now; nil: the line is in no known format
        def take(line, wrapped: false)
          @formats.each_with_index do |format, at|
            found = format.parse(line, @time) or next
            @formats.unshift(@formats.delete_at(at)) if at > 0
            return [found] if LogRequest === found
            return wrapped ? nil : take(found, wrapped: true)
          end
          @rails.take(line)
        end
      end
    end
  end
end
