# frozen_string_literal: true

module NeverBlock
  class Cache
    class Traffic
      # Numbers and foreign text for people.
      #
      #   Text.number(12_345)       # => "12,345"
      #   Text.printable("a\e[2J")  # => "a\\x1B[2J"
      # @api private
      module Text
        UNITS = %w[bytes KB MB GB TB PB].freeze
        UNSAFE = /[^ -~]/n
        private_constant :UNITS, :UNSAFE

        class << self
          # @param number [Integer]
          # @return [String]
          def number(number) = number.to_s.gsub(/(?<=\d)(?=(?:\d{3})+\z)/, ",")

          # @param number [Integer]
          # @param noun [String]
          # @return [String] as in "2 requests"
          def count(number, noun) = "#{number(number)} #{noun}#{"s" unless number == 1}"

          # @param number [Integer]
          # @return [String]
          def bytes(number)
            size = number.to_f
            unit = 0
            while size >= 1000 && unit < UNITS.size - 1
              size /= 1000
              unit += 1
            end
            format((unit.zero? || size >= 100) ? "%.0f %s" : "%.1f %s", size, UNITS[unit])
          end

          # @param percent [Float, nil]
          # @return [String]
          def percent(percent) = percent ? format("%.1f %%", percent) : "-"

          # @param seconds [Numeric]
          # @return [String]
          def duration(seconds)
            seconds = seconds.round
            return "#{seconds} s" if seconds < 120
            minutes = seconds / 60
            return "#{minutes} min" if minutes < 120
            hours, minutes = minutes.divmod(60)
            return minutes.zero? ? "#{hours} h" : "#{hours} h #{minutes} min" if hours < 48
            days, hours = hours.divmod(24)
            hours.zero? ? "#{days} days" : "#{days} days #{hours} h"
          end

          # @param text [String] of any encoding
          # @param limit [Integer] characters that are kept
          # @return [String] printable ASCII: a terminal shows it and does nothing else
          def printable(text, limit: 200)
            text = text.b
            cut = text.bytesize > limit
            text = text.byteslice(0, limit) if cut
            text = text.gsub(UNSAFE) { |byte| format("\\x%02X", byte.ord) }
            (cut ? "#{text}..." : text).force_encoding(Encoding::UTF_8)
          end
        end
      end
    end
  end
end
