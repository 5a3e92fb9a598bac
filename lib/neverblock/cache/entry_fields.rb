# frozen_string_literal: true

require "json"
require_relative "limits"

module NeverBlock
  class Cache
    # The fields of an entry as JSON. Reading trusts nothing: each field is checked by itself, so that a forged file can
    # do no more than be refused.
    #
    #   json = EntryFields.dump("https://example.org/", entry, {})
    #   EntryFields.load(json).attributes    # => {status: 200, headers: {…}, …}; raises EntryFormat::Malformed
    #
    # JSON has no bytes: a String that is not UTF-8 is written with one character for each byte, and one in UTF-8 as
    # `{"utf-8": "…"}`, if it has more than ASCII.
    # @api private
    module EntryFields
      # The header's fields: `attributes` for Entry.new, without the body.
      Fields = Struct.new(:key, :marks, :attributes)

      NAMES = %w[key status headers requested_at responded_at vary tags marks].sort.freeze
      UTF8 = "utf-8"
      STATUSES = 100..999
      # Seconds since 1970; and how far a clock may have been set back. An entry of the future would never be too old.
      TIMES = 0..100_000_000_000
      FUTURE = 60
      DEEPEST = 5
      private_constant :NAMES, :UTF8, :STATUSES, :TIMES, :FUTURE, :DEEPEST

      class << self
        # @param key [String]
        # @param entry [Entry]
        # @param marks [Hash{String=>String}]
        # @return [String] JSON
        def dump(key, entry, marks)
          JSON.generate({
            "key" => write(key), "status" => entry.status, "headers" => pairs(entry.headers),
            "requested_at" => entry.requested_at, "responded_at" => entry.responded_at, "vary" => pairs(entry.vary),
            "tags" => entry.tags.map { |tag| write(tag) }, "marks" => marks
          }).b
        rescue JSON::GeneratorError, EncodingError => error
          refuse("it can't be written: #{error.message}")
        end

        # @param text [String] JSON
        # @return [Fields]
        # @raise [EntryFormat::Malformed]
        def load(text)
          fields = hash(JSON.parse(text.dup.force_encoding(Encoding::UTF_8), max_nesting: DEEPEST))
          refuse("the fields are #{fields.keys.first(20).inspect}") unless fields.keys.sort == NAMES
          Fields.new(read(fields["key"]), marks(fields["marks"]), {
            status: status(fields["status"]), headers: headers(fields["headers"]),
            requested_at: time(fields["requested_at"]), responded_at: time(fields["responded_at"]),
            vary: vary(fields["vary"]), tags: list(fields["tags"]).map { |tag| read(tag) }
          })
        rescue JSON::ParserError, EncodingError, ArgumentError, TypeError => error
          refuse(error.message)
        end

        private

        def refuse(reason) = raise(EntryFormat::Malformed, "the header: #{reason}".scrub)

        def pairs(pairs) = pairs.map { |name, value| [write(name), write_value(value)] }

        def write_value(value) = (Array === value) ? value.map { |line| write(line) } : value && write(value)

        def write(text)
          return text if text.ascii_only?
          return {UTF8 => text} if text.encoding == Encoding::UTF_8 && text.valid_encoding?
          text.dup.force_encoding(Encoding::ISO_8859_1).encode(Encoding::UTF_8)
        end

        def read(value)
          if Hash === value
            text = value[UTF8]
            return text if value.size == 1 && String === text && text.valid_encoding?
            refuse("a text is #{value.keys.first(3).inspect}")
          end
          refuse("#{value.class} instead of a text") unless String === value
          return value if value.ascii_only?
          value.encode(Encoding::ISO_8859_1).force_encoding(Encoding::BINARY)
        end

        def read_line(value)
          read(value).tap { |text| refuse("a line break in a header") unless Limits.line?(text) }
        end

        def hash(value) = (Hash === value) ? value : refuse("#{value.class} instead of an object")

        def list(value) = (Array === value) ? value : refuse("#{value.class} instead of a list")

        def each_pair(value)
          list(value).map do |pair|
            refuse("a pair has #{list(pair).size} parts") unless list(pair).size == 2
            yield(*pair)
          end
        end

        def headers(value)
          pairs = each_pair(value) do |name, content|
            name = read(name)
            refuse("the name of a header is #{name.inspect}") unless Limits.name?(name)
            [name, (Array === content) ? content.map { |line| read_line(line) } : read_line(content)]
          end
          pairs.to_h.tap { |found| refuse("a header is there twice") unless found.size == pairs.size }
        end

        def vary(value) = each_pair(value) { |name, content| [read(name), content && read(content)] }

        def marks(value)
          return value if hash(value).all? { |name, text| String === name && String === text }
          refuse("a mark is not a text")
        end

        def status(value)
          return value if Integer === value && STATUSES.cover?(value)
          refuse("the status is #{value.class}")
        end

        def time(value)
          number = Float === value || Integer === value
          refuse("a time is #{value.class}") unless number && TIMES.cover?(value)
          latest = Clock.wall + FUTURE
          raise EntryFormat::Early, "the header: the time #{value} is in the future" if value > latest
          value.to_f
        end
      end
    end
  end
end
