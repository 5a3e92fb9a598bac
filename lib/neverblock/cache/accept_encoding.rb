# frozen_string_literal: true

require_relative "field"
require_relative "memo"

module NeverBlock
  class Cache
    # Reduces an Accept-Encoding field to the codings that it accepts (RFC 9110 §12.5.3), so that the many ways of
    # writing it share variants.
    #
    #   AcceptEncoding.fold("gzip;q=0.8, br", nil)                  # => "br,gzip"
    #   AcceptEncoding.fold("GZIP, deflate, br, zstd", ["gzip"])    # => "gzip"
    #   AcceptEncoding.fold("*, gzip;q=0", nil)                     # => "!gzip,*"
    #   AcceptEncoding.fold("gzip, identity;q=0", nil)              # => "!identity,gzip"
    #
    # Fields with one result accept the same codings, so each accepts a response to another. Preferences don't count. A
    # field with an invalid member stays as it is behind a "?", since an app may read it in another way.
    # @api private
    module AcceptEncoding
      SIMPLE = /\A[a-z0-9-]+(?:, ?[a-z0-9-]+)*+\z/
      MEMBER = /\A(#{Field::TOKEN})(?:[ \t]*+;[ \t]*+q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?\z/io
      ZERO = /\A0(?:\.0*)?\z/
      ALIASES = {"x-gzip" => "gzip", "x-compress" => "compress"}.freeze
      IDENTITY = "identity"
      ANY = "*"
      # Bytes of the longest field that is read.
      LONGEST = 1 << 10
      # Of fields without known codings. Browsers send few different ones.
      FOLDED = Memo.new
      private_constant :SIMPLE, :MEMBER, :ZERO, :ALIASES, :IDENTITY, :ANY, :LONGEST, :FOLDED

      class << self
        # @param text [String] a field's value
        # @param codings [Array<String>, nil] the codings that responses have, in lower case; nil: unknown
        # @return [String] frozen
        def fold(text, codings)
          codings ? compute(text, codings).freeze : FOLDED.fetch(text) { compute(text, nil).freeze }
        end

        private

        def compute(text, codings)
          text = Field.trim(Field.plain(text))
          accepted = accepted(text) or return "?#{text}"
          identity = accepted.fetch(IDENTITY) { accepted.fetch(ANY, true) }
          list = codings ? codings.select { |coding| accepts?(accepted, coding) } : names(accepted)
          list << "!#{IDENTITY}" unless identity
          list.sort.join(",")
        end

        # @return [Hash{String=>Boolean}, nil] nil: it has an invalid member
        def accepted(text)
          return if text.bytesize > LONGEST
          return text.split(/, ?/).to_h { |coding| [ALIASES.fetch(coding, coding), true] } if SIMPLE.match?(text)
          found = {}
          text.split(",").each do |member|
            next if (member = Field.trim(member)).empty?
            match = MEMBER.match(member) or return nil
            coding = match[1].downcase
            return nil if coding.start_with?("!") # it would look like an exclusion
            coding = ALIASES.fetch(coding, coding)
            taken = match[2].nil? || !ZERO.match?(match[2])
            return nil unless found.fetch(coding, taken) == taken
            found[coding] = taken
          end
          found
        end

        def accepts?(accepted, coding)
          coding = ALIASES.fetch(coding, coding)
          coding != IDENTITY && accepted.fetch(coding) { accepted.fetch(ANY, false) }
        end

        # A coding that is excluded matters only if all others are accepted.
        def names(accepted)
          any = accepted[ANY]
          accepted.filter_map do |coding, taken|
            next if coding == IDENTITY
            taken ? coding : ("!#{coding}" if any)
          end
        end
      end
    end
  end
end
