# frozen_string_literal: true

require_relative "field"

module NeverBlock
  class Cache
    # Dates in fields: RFC 9110 §5.6.7.
    #
    #   HttpDate.parse("Sun, 06 Nov 1994 08:49:37 GMT")    # => 784111777.0
    #   HttpDate.format(784_111_777)                       # => "Sun, 06 Nov 1994 08:49:37 GMT"
    #
    # Upper and lower case are the same, as RFC 9111 §4.2 recommends. The day of the week is not compared with the date.
    # A date that does not exist is invalid.
    # @api private
    module HttpDate
      MONTHS = %w[jan feb mar apr may jun jul aug sep oct nov dec].each_with_index.to_h { |name, at| [name, at + 1] }
      MONTHS.freeze
      DAYS = [nil, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].freeze
      DAY = /(?:mon|tue|wed|thu|fri|sat|sun)/i
      LONG_DAY = /(?:mon|tues|wednes|thurs|fri|satur|sun)day/i
      MONTH = /(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)/i
      TIME = /[0-2][0-9]:[0-5][0-9]:[0-6][0-9]/
      IMF_FIXDATE = /\A#{DAY}, [0-3][0-9] #{MONTH} [0-9]{4} #{TIME} gmt\z/io
      RFC_850 = /\A#{LONG_DAY}, ([0-3][0-9])-(#{MONTH})-([0-9]{2}) (#{TIME}) gmt\z/io
      ASCTIME = /\A#{DAY} (#{MONTH}) ([0-3 ][0-9]) (#{TIME}) ([0-9]{4})\z/io
      LENGTH = 29 # bytes of an IMF-fixdate
      LONGEST = 33 # bytes of the longest date of RFC 850, on a Wednesday
      # Years that a date with a two-digit year may be in the future.
      FUTURE = 50
      FORMAT = "%a, %d %b %Y %H:%M:%S GMT"
      private_constant :MONTHS, :DAYS, :DAY, :LONG_DAY, :MONTH, :TIME, :IMF_FIXDATE, :RFC_850, :ASCTIME, :LENGTH,
        :LONGEST, :FUTURE, :FORMAT

      class << self
        # @param text [String, Array<String>, nil] a field's value
        # @param now [Numeric, nil] seconds since 1970, for years of two digits; nil: the clock
        # @return [Float, nil] seconds since 1970; nil: invalid, or not just one date
        def parse(text, now: nil)
          text = Field.text(text)
          return if text.nil? || text.bytesize > LONGEST
          return fixdate(text) if text.bytesize == LENGTH && IMF_FIXDATE.match?(text)
          if (match = RFC_850.match(text))
            two_digit_year(match, now)
          elsif (match = ASCTIME.match(text))
            seconds(match[4].to_i, MONTHS[match[1].downcase], match[2].to_i, match[3])
          end
        end

        # @param time [Time, Numeric] seconds since 1970
        # @return [String] an IMF-fixdate
        def format(time) = Time.at(time).utc.strftime(FORMAT)

        private

        # This is the format of nearly all dates: it is read without a MatchData.
        def fixdate(text)
          year = two_digits(text, 12) * 100 + two_digits(text, 14)
          seconds(year, MONTHS[text.byteslice(8, 3).downcase], two_digits(text, 5), text.byteslice(17, 8))
        end

        # The latest year with these digits that is no more than 50 years in the future.
        def two_digit_year(match, now)
          now ||= Clock.wall
          today = Time.at(now).utc
          latest = today.year + FUTURE
          year = latest - (latest - match[3].to_i) % 100
          month = MONTHS[match[2].downcase]
          time = seconds(year, month, match[1].to_i, match[4])
          return time if time.nil? || year < latest
          limit = seconds(latest, today.month, [today.day, days(latest, today.month)].min, today.strftime("%T"))
          (time > limit) ? seconds(year - 100, month, match[1].to_i, match[4]) : time
        end

        # @param clock [String] as in "08:49:37"
        def seconds(year, month, day, clock)
          hour = two_digits(clock, 0)
          second = two_digits(clock, 6)
          return unless day.between?(1, days(year, month)) && hour < 24 && second <= 60
          # A leap second counts as the one before: RFC 9111 §4.2 demands "equal to or earlier than".
          (days_since_1970(year, month, day) * 86_400 + hour * 3600 + two_digits(clock, 3) * 60 + [second, 59].min).to_f
        end

        def two_digits(text, at) = (text.getbyte(at) - 48) * 10 + text.getbyte(at + 1) - 48

        def days(year, month) = (month == 2 && leap?(year)) ? 29 : DAYS[month]

        def leap?(year) = (year % 4).zero? && (!(year % 100).zero? || (year % 400).zero?)

        # In the Gregorian calendar, with years that begin in March.
        def days_since_1970(year, month, day)
          year -= 1 if month <= 2
          day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
          year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
        end
      end
    end
  end
end
