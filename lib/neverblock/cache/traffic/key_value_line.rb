# frozen_string_literal: true

require_relative "log_fields"

module NeverBlock
  class Cache
    class Traffic
      # A line of pairs, as lograge and Heroku's router write them.
      #
      #   KeyValueLine.parse('method=GET path="/a" status=200', LogTime.new)
      # @api private
      module KeyValueLine
        PAIR = /(?<![^ \t])([a-z_@.-]{1,40})=(?:"((?:[^"\\]++|\\.)*+)"|([^ \t"]*+))/ni
        # The time in front of a line, as Ruby's logger, syslog and hosts write it.
        STAMP = /(?<![0-9])(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)/n
        # Pairs of a line that are read, and bytes in which the time is looked for.
        MOST, FRONT = 100, 120
        private_constant :PAIR, :STAMP, :MOST, :FRONT

        # @param line [String] binary
        # @param time [LogTime]
        # @return [LogRequest, nil] nil: the line is something else
        def self.parse(line, time)
          return unless line.include?("method=") && line.include?("status=")
          fields = {}
          line.scan(PAIR) do |name, quoted, plain|
            fields[name.downcase] ||= quoted || plain
            break if fields.size >= MOST
          end
          request = LogFields.request(fields, time) or return
          request.at ||= stamp(line, time)
          request
        end

        # @param line [String]
        # @param time [LogTime]
        # @return [Float, nil] the time with which the line begins
        def self.stamp(line, time)
          text = line.byteslice(0, FRONT)[STAMP, 1]
          text && time.parse(text)
        end
      end
    end
  end
end
