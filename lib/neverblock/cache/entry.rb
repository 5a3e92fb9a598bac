# frozen_string_literal: true

require "digest"
require_relative "revision"

module NeverBlock
  class Cache
    # A stored response. It never changes, so that any number of requests can use it at once. It is a Rack body.
    #
    #   entry = Entry.new(status: 200, headers: {"content-type" => "text/plain"}, chunks: ["hello"],
    #     requested_at: 1_760_000_000.0, responded_at: 1_760_000_000.2, vary: [["accept-language", "de"]])
    #   entry.each { |chunk| … }
    #   entry.slice(1..3).to_a.join    # => "ell"
    #
    # The body is a list of Strings, or an object that reads them from a file ({FileStore::Body}).
    # @api private
    class Entry
      # Bytes of an entry's objects and of its place in a store, and of a String's object.
      OVERHEAD = 1_024
      STRING = 40
      # A tag's place in a store's index.
      TAG = 200
      # Chunks of fewer bytes are joined, up to the size of a piece.
      SMALL = 4_096
      PIECE = 65_536
      private_constant :OVERHEAD, :STRING, :TAG, :SMALL, :PIECE

      # @return [Integer]
      attr_reader :status
      # @return [Hash{String=>String, Array<String>}]
      attr_reader :headers
      # @return [Float] seconds since 1970, when the request was sent, and when the response's headers came (RFC 9111
      #   §4.2.3: request_time, response_time)
      attr_reader :requested_at, :responded_at
      # @return [Array<Array(String, String)>] the request headers that selected it, with their normalised values
      attr_reader :vary
      # @return [Array<String>] names by which it can be purged
      attr_reader :tags
      # @return [Integer] bytes of the body
      attr_reader :body_size
      # @return [Integer] bytes that are kept: body, headers, and the objects around them
      attr_reader :bytes

      # @param status [Integer]
      # @param headers [Hash{String=>String, Array<String>}]
      # @param chunks [Array<String>, #each, #bytesize, #slice] the body
      # @param requested_at [Float] seconds since 1970
      # @param responded_at [Float] seconds since 1970
      # @param vary [Array<Array(String, String)>] names and values; nil: the request had no such header
      # @param tags [Array<String>]
      # @raise [ArgumentError] if a header is not a String or a list of Strings
      def initialize(status:, headers:, chunks:, requested_at:, responded_at:, vary: [], tags: [])
        @status = status
        @headers = headers.to_h { |name, value| [-name, keep(name, value)] }.freeze
        @vary = vary.map { |name, value| [-name, frozen(value)].freeze }.freeze
        @tags = tags.map { |tag| frozen(tag) }.freeze
        @requested_at = requested_at
        @responded_at = responded_at
        @body = (Array === chunks) ? pieces(chunks) : chunks
        @body_size = (Array === @body) ? @body.sum(&:bytesize) : @body.bytesize
        @bytes = count
        @known = {}
        freeze
      end

      # What was found out about it: its {Freshness} and {Vary}, which every request asks for.
      # @param what [Object]
      # @yieldreturn [Object] computed once
      # @return [Object]
      def known(what) = @known[what] ||= yield

      # @yieldparam chunk [String] frozen
      # @return [self, Enumerator]
      def each(&block)
        return to_enum(:each) unless block
        @body.each(&block)
        self
      end

      # A part of the body, without the whole in one String.
      # @param range [Range<Integer>] of bytes
      # @return [#each] Strings with these bytes; what is beyond the end is left out
      def slice(range)
        first = [range.begin || 0, 0].max
        last = range.end || (@body_size - 1)
        last -= 1 if range.end && range.exclude_end?
        length = [[last + 1, @body_size].min - first, 0].max
        in_memory? ? part(first, length) : @body.slice(first, length)
      end

      # The same body with other headers, as after a 304 (RFC 9111 §4.3.4).
      # @param headers [Hash]
      # @param requested_at [Float] seconds since 1970
      # @param responded_at [Float] seconds since 1970
      # @param tags [Array<String>]
      # @return [Entry]
      def renewed(headers:, requested_at:, responded_at:, tags: @tags)
        Entry.new(status:, headers:, chunks: @body, requested_at:, responded_at:, vary:, tags:)
      end

      # @return [String] a hash of `vary`, for the names of entries: two with equal ones stand for the same requests. It
      #   begins with the mark of the revision
      def variant
        text = @vary.map { |name, value| [name, *value].map { |part| "#{part.bytesize}:#{part}".b }.join("=") }
        mark = Revision.mark(Revision.of(@vary))
        "#{mark}#{Digest::SHA256.hexdigest(text.join(";"))[mark.length..]}"
      end

      # @return [Boolean] whether the body is in memory
      def in_memory? = Array === @body

      # @return [Array<String>, FileStore::Body]
      attr_reader :body

      # @return [String]
      def inspect = "#<#{self.class} #{@status}, #{@body_size} bytes>"

      private

      def keep(name, value)
        return frozen(value) if String === value
        return value.map { |line| frozen(line) }.freeze if Array === value && value.all?(String)
        raise ArgumentError, "the header #{name} is #{value.inspect}, and must be a String or a list of Strings"
      end

      def frozen(value) = (String === value && !value.frozen?) ? value.dup.freeze : value

      # An app may send thousands of small chunks: each would be an object here, and a write in each response.
      def pieces(chunks)
        return chunks if chunks.frozen? && chunks.all? { |chunk| piece?(chunk) } && apart?(chunks)
        kept = []
        chunks.each { |chunk| join(kept, binary(chunk)) unless chunk.empty? }
        kept.each(&:freeze).freeze
      end

      # The last piece is not frozen as long as others may be joined to it.
      def join(kept, chunk)
        last = kept.last
        if last && !last.frozen? && last.bytesize + chunk.bytesize <= PIECE
          last << chunk
        else
          kept << ((chunk.bytesize < SMALL) ? +chunk : chunk)
        end
      end

      def binary(chunk) = piece?(chunk) ? chunk : chunk.b.freeze

      def piece?(chunk) = chunk.frozen? && chunk.encoding == Encoding::BINARY

      def apart?(chunks) = chunks.each_cons(2).none? { |one, other| one.bytesize + other.bytesize <= SMALL }

      def part(first, length)
        found = []
        @body.each do |chunk|
          break if length.zero?
          size = chunk.bytesize
          if first < size
            found << ((first.zero? && size <= length) ? chunk : chunk.byteslice(first, length))
            length -= found.last.bytesize
          end
          first = [first - size, 0].max
        end
        found.freeze
      end

      def count
        text = [@headers, @vary].sum { |pairs| pairs.sum { |name, value| cost(name) + cost(value) } }
        body = in_memory? ? @body.sum { |chunk| chunk.bytesize + STRING } : @body_size
        OVERHEAD + text + body + @tags.sum { |tag| tag.bytesize + TAG }
      end

      def cost(value)
        case value
        when String then value.bytesize + STRING
        when Array then value.sum(STRING) { |line| cost(line) }
        else STRING
        end
      end
    end
  end
end
