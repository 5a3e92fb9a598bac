# frozen_string_literal: true

require "strscan"
require_relative "field"

module NeverBlock
  class Cache
    # Fields such as CDN-Cache-Control (RFC 9213), which are dictionaries of structured values (RFC 9651 §4.2.2).
    #
    #   TargetedField.parse("max-age=60").seconds("max-age")    # => 60
    #   TargetedField.parse("max-age=60, &")                    # => nil: not valid, so that Cache-Control counts
    #   TargetedField.parse("Private; no")["no-store"]          # => true: not valid, but doubtful
    #
    # * An invalid field doesn't count, as RFC 9213 §2.1 says, unless it has the word `private`, `no-store` or
    #   `no-cache`: its author has wanted to forbid something, and Cache-Control may allow it.
    # * Numbers must be Integers: `max-age="60"` counts as 0. A directive that is false, as `no-store=?0`, makes the
    #   field invalid, since no directive can be.
    # * Of a repeated directive the smallest number counts, as in Cache-Control.
    #
    # cache_control.rb loads this file.
    # @api private
    module TargetedField
      KEY = /[a-z*][a-z0-9_.*-]*+/
      NUMBER = /-?[0-9]{1,12}\.[0-9]{1,3}(?![0-9.])|-?[0-9]{1,15}(?![0-9.])/
      STRING = /"(?:[ !#-\[\]-~]|\\["\\])*+"/
      TOKEN = %r{[A-Za-z*][!%&'*+.^_`|~:/#0-9A-Za-z$-]*+}
      # Byte sequences, booleans, dates and display strings.
      OTHER = %r{:[A-Za-z0-9+/=]*+:|\?[01]|@-?[0-9]{1,15}(?![0-9.])|%"(?:[ !$&-~#]|%[0-9a-f]{2})*+"}
      BARE = /#{NUMBER}|#{STRING}|#{TOKEN}|#{OTHER}/
      PARAMETERS = /(?:; *+#{KEY}(?:=(?:#{BARE}))?)*+/
      LIST = /\( *+(?:(?:#{BARE})#{PARAMETERS}(?: ++|(?=\))))*+\)/
      OWS = /[ \t]*/
      COMMA = /,[ \t]*+(?!\z)/
      INTEGER = /\A[0-9]+\z/
      DOUBTFUL = /(?<![\w-])(?:private|no-store|no-cache)(?![\w-])/i
      NUMERIC = %w[max-age s-maxage stale-while-revalidate stale-if-error].freeze
      private_constant :KEY, :NUMBER, :STRING, :TOKEN, :OTHER, :BARE, :PARAMETERS, :LIST, :OWS, :COMMA, :INTEGER,
        :DOUBTFUL, :NUMERIC

      class << self
        # @param value [String, Array<String>, nil]
        # @return [CacheControl, nil] nil: it doesn't count
        def parse(value)
          text = Field.trim(Field.text(value).to_s)
          return if text.empty?
          return CacheControl::MALFORMED if text.bytesize > CacheControl::LONGEST
          directives = read(text)
          return CacheControl.new(directives, targeted: true) if directives
          CacheControl::MALFORMED if DOUBTFUL.match?(text)
        end

        private

        # @return [Hash, nil] nil: it is not a valid dictionary
        def read(text)
          directives = {}
          scanner = StringScanner.new(text)
          loop do
            name = scanner.scan(KEY) or return
            value = scanner.skip(/=/) ? member(scanner) : true
            return if value.nil? || value == "?0"
            scanner.skip(PARAMETERS)
            CacheControl.add(directives, name, directive(name, value))
            scanner.skip(OWS)
            return directives if scanner.eos?
            return unless scanner.skip(COMMA)
          end
        end

        def member(scanner) = scanner.scan(BARE) || scanner.scan(LIST)

        # @return [String, true] as in a Cache-Control
        def directive(name, value)
          return true if value == true || value == "?1"
          return INTEGER.match?(value) ? value : true if NUMERIC.include?(name)
          value.start_with?('"') ? value[1..-2].gsub(/\\(.)/, "\\1") : value
        end
      end
    end
  end
end
