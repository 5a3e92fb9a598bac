# frozen_string_literal: true

require_relative "log_request"

module NeverBlock
  class Cache
    class Traffic
      # A line of the common format, or of the combined one, as nginx, Apache, Rack, Puma and NeverBlock write them.
      #
      #   CommonLine.parse('192.0.2.7 - - [26/Nov/2026:20:36:19 +0000] "GET /a HTTP/1.1" 200 512', LogTime.new)
      #
      # The name of a virtual host may stand in front. What follows the user agent is not read.
      # @api private
      module CommonLine
        QUOTED = /"((?:[^"\\]++|\\.)*+)"/n
        LINE = /\A(?:(\S{1,255})[ ])?(\S{1,255})[ ]\S{1,255}[ ](\S{1,255})[ ]\[([^\]]{1,40})\][ ]#{QUOTED}[ ]
          (\d{3}|-)[ ](\d++|-)(?:[ ]#{QUOTED}[ ]#{QUOTED})?/nx
        private_constant :QUOTED, :LINE

        # @param line [String] binary
        # @param time [LogTime]
        # @return [LogRequest, nil] nil: the line is something else
        def self.parse(line, time)
          match = LINE.match(line) or return
          LogRequest.new(host: match[1], client: match[2], user: match[3], at: time.parse(match[4]), agent: match[9])
            .tap do |request|
              request.line = match[5]
              request.code = match[6]
              request.size = match[7]
            end
        end
      end
    end
  end
end
