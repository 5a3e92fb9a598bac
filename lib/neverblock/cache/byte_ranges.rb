# frozen_string_literal: true

require_relative "entity_tag"
require_relative "field"
require_relative "http_date"

module NeverBlock
  class Cache
    # The part of a stored response that a request asks for: RFC 9110 §14.
    #
    #   env = {"REQUEST_METHOD" => "GET", "HTTP_RANGE" => "bytes=-5"}
    #   ByteRanges.of(env, size: 10, headers: {})    # => 5..9
    #
    # One part is sent, or all. A request for several parts gets all, and so does one with an invalid Range, as §14.2
    # allows. The caller has evaluated the other conditions before ({Conditional}), and the stored status is 200.
    # @api private
    module ByteRanges
      UNIT = /\Abytes=/i
      SPEC = /\A(?:([0-9]+)-([0-9]*)|-([0-9]+))\z/
      # Bytes of the longest Range that is read.
      LONGEST = 1 << 10
      private_constant :UNIT, :SPEC, :LONGEST

      class << self
        # @param env [Hash] a request's
        # @param size [Integer, nil] bytes of the stored body; nil: unknown
        # @param headers [Hash] of the stored response
        # @return [Range<Integer>, :unsatisfiable, nil] the bytes to send; :unsatisfiable: a 416; nil: all
        def of(env, size:, headers:)
          text = Field.text(env["HTTP_RANGE"])
          return if text.nil? || env["REQUEST_METHOD"] != "GET" || size.nil? || size.zero?
          return if text.bytesize > LONGEST || !UNIT.match?(text) || refused?(headers)
          ranges = ranges(text.sub(UNIT, ""), size) or return
          return if env["HTTP_IF_RANGE"] && !unchanged?(env["HTTP_IF_RANGE"], headers)
          ranges.empty? ? :unsatisfiable : only(ranges)
        end

        private

        def only(ranges) = (ranges.first if ranges.one?)

        # The app doesn't want its response in parts (§14.3).
        def refused?(headers) = Field.members(headers["accept-ranges"]).include?("none")

        # @return [Array<Range>, nil] those that are satisfiable; nil: invalid
        def ranges(list, size)
          specs = list.split(",").map { |spec| Field.trim(spec) }.reject(&:empty?)
          return if specs.empty?
          found = []
          specs.each do |spec|
            match = SPEC.match(spec) or return nil
            range = match[3] ? suffix(match[3].to_i, size) : between(match[1].to_i, match[2], size)
            return nil if range == :invalid
            found << range if range
          end
          found
        end

        def suffix(length, size) = ([size - length, 0].max..(size - 1) unless length.zero?)

        def between(first, last, size)
          return :invalid if !last.empty? && last.to_i < first
          first..(last.empty? ? size - 1 : [last.to_i, size - 1].min) if first < size
        end

        # §13.1.5: a strong comparison. A date counts only if the response was sent at least a second after it, since
        # two versions may have one date otherwise (§8.8.2.2).
        def unchanged?(validator, headers)
          validator = Field.trim(Field.text(validator).to_s)
          tag = EntityTag.of(validator)
          return EntityTag.strong_match?(tag, EntityTag.of(headers["etag"]).to_s) if tag
          time = HttpDate.parse(validator)
          modified = HttpDate.parse(headers["last-modified"])
          sent = HttpDate.parse(headers["date"])
          !time.nil? && time == modified && !sent.nil? && sent - modified >= 1
        end
      end
    end
  end
end
