# frozen_string_literal: true

module NeverBlock
  class Cache
    class Traffic
      # Times as logs have them. Many lines have the same one, so the last one is kept.
      #
      #   time = LogTime.new
      #   time.parse("26/Nov/2026:20:36:19 +0000")    # => 1795725379.0
      #   time.parse("2026-11-26T21:36:19.5+01:00")   # => 1795725379.5
      #   time.parse("1795725379.5")                  # => 1795725379.5
      # @api private
      class LogTime
        MONTHS = %w[Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec].each_with_index.to_h { |name, at| [name, at + 1] }
        COMMON = %r{\A(\d\d)/([A-Z][a-z][a-z])/(\d{4}):(\d\d):(\d\d):(\d\d)(?:\.\d+)? ([+-]\d\d)(\d\d)\z}
        ISO = /\A(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)? ?(?:Z|UTC|([+-]\d\d):?(\d\d))?\z/
        NUMBER = /\A\d{9,16}(?:\.\d{1,9})?\z/
        # Greater numbers are milliseconds; still greater ones are microseconds.
        MOST_SECONDS, MOST_MILLISECONDS = 1e11, 1e14
        private_constant :MONTHS, :COMMON, :ISO, :NUMBER, :MOST_SECONDS, :MOST_MILLISECONDS

        # @param text [String, Numeric, nil]
        # @return [Float, nil] seconds since 1970; nil: it is no time. One without a zone is UTC
        def parse(text)
          return @time if @text == text
          @text = text
          @time = read(text.to_s)
        end

        private

        def read(text)
          return if text.bytesize > 64
          if (match = COMMON.match(text))
            seconds(match[3], MONTHS[match[2]], match[1], match[4, 3], match[7, 2])
          elsif (match = ISO.match(text))
            time = seconds(match[1], match[2], match[3], match[4, 3], match[8, 2])
            (time && match[7]) ? time + "0.#{match[7]}".to_f : time
          elsif NUMBER.match?(text)
            number(text.to_f)
          end
        rescue ArgumentError
          nil # a day that does not exist
        end

        def seconds(year, month, day, time, zone)
          return unless month
          hours, minutes = zone.map(&:to_i)
          minutes = -minutes if zone.first&.start_with?("-")
          Time.utc(year.to_i, month.to_i, day.to_i, *time.map(&:to_i)).to_f - hours.to_i * 3600 - minutes.to_i * 60
        end

        def number(number)
          return number if number < MOST_SECONDS
          number / ((number < MOST_MILLISECONDS) ? 1e3 : 1e6)
        end
      end
    end
  end
end
