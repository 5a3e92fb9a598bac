# frozen_string_literal: true

require "json"
require "zlib"
require_relative "entry"
require_relative "entry_fields"

module NeverBlock
  class Cache
    # Writes an entry as bytes, and reads it again: the format of {FileStore}'s files and of {ActiveSupportStore}'s
    # values.
    #
    #   EntryFormat.each("https://example.org/", entry) { |string| file.write(string) }
    #   parsed = EntryFormat.parse(EntryFormat::Text.new(bytes))    # raises Malformed
    #   parsed.entry([body])                                        # => Entry
    #
    # Bytes: a prefix of fixed length (magic with version, lengths, checksum), the header (JSON), the body, a checksum
    # per 64 KiB of the body, a checksum of those. So each part of a long body can be checked by itself. Nothing is ever
    # unmarshalled.
    # @api private
    module EntryFormat
      # Not an entry, a damaged one, or one of another version.
      class Malformed < StandardError
        include Error
      end

      # It has a time in the future: one of the hosts has a wrong clock.
      class Early < Malformed
      end

      # Bytes in memory, read as a file would be.
      Text = Struct.new(:text) do
        def size = text.bytesize

        def pread(length, offset) = text.byteslice(offset, length)
      end

      # What was read, but for the body: its place, size, and checksums.
      Parsed = Struct.new(:fields, :offset, :body_size, :checksums) do
        def key = fields.key

        # @return [Hash{String=>String}] what the store has added
        def marks = fields.marks

        # @param chunks [Array<String>, FileStore::Body]
        # @return [Entry]
        def entry(chunks) = Entry.new(**fields.attributes, chunks:)
      end

      MAGIC = "NBCache\x01".b.freeze # the last byte is the version
      PREFIX = "a8L>L>Q>" # magic, bytes and checksum of the header, bytes of the body; then the checksum of these
      PREFIX_SIZE = 28
      BLOCK = 65_536
      LARGEST_HEADER = 1 << 20
      private_constant :PREFIX, :PREFIX_SIZE, :LARGEST_HEADER

      class << self
        # @param key [String]
        # @param entry [Entry]
        # @param marks [Hash{String=>String}] further texts to keep
        # @yieldparam string [String] the bytes, one after the other
        # @return [void]
        # @raise [Malformed] if it can't be written; the bytes so far are useless
        def each(key, entry, marks: {})
          header = EntryFields.dump(key, entry, marks)
          raise Malformed, "the header has #{header.bytesize} bytes" if header.bytesize > LARGEST_HEADER
          start = [MAGIC, header.bytesize, Zlib.crc32(header), entry.body_size].pack(PREFIX)
          yield start << checksum(start) << header
          yield trailer(body(entry) { |chunk| yield chunk })
        end

        # @param source [File, Text] anything with `size` and `pread`
        # @param size [Integer] of the source
        # @return [Parsed]
        # @raise [Malformed]
        def parse(source, size = source.size)
          header_size, header_sum, body_size = prefix(source)
          offset = PREFIX_SIZE + header_size
          unless size == offset + body_size + trailer_size(body_size)
            raise Malformed, "#{size} bytes are not what the prefix tells"
          end
          header = source.pread(header_size, PREFIX_SIZE)
          raise Malformed, "the header's checksum is wrong" unless Zlib.crc32(header) == header_sum
          Parsed.new(EntryFields.load(header), offset, body_size, checksums(source, offset + body_size, body_size))
        rescue EOFError
          raise Malformed, "the end is missing"
        end

        # Reads one block of the body, or the rest of it.
        # @param source [File, Text]
        # @param parsed [Parsed, #offset]
        # @param index [Integer]
        # @return [String] frozen
        # @raise [Malformed] if it is damaged
        def block(source, parsed, index)
          from = index * BLOCK
          length = [BLOCK, parsed.body_size - from].min
          text = source.pread(length, parsed.offset + from)
          unless text.bytesize == length && Zlib.crc32(text) == parsed.checksums[index]
            raise Malformed, "the body's checksum is wrong, at byte #{from}"
          end
          text.freeze
        rescue EOFError
          raise Malformed, "the end of the body is missing"
        end

        # @param bytes [Integer]
        # @return [Integer] blocks of a body
        def blocks(bytes) = (bytes + BLOCK - 1) / BLOCK

        private

        # @return [Array<Integer>] checksums of the blocks
        def body(entry)
          sums = []
          sum = length = total = 0
          entry.each do |chunk|
            yield chunk
            total += chunk.bytesize
            offset = 0
            while offset < chunk.bytesize
              taken = [BLOCK - length, chunk.bytesize - offset].min
              sum = Zlib.crc32(chunk.byteslice(offset, taken), sum)
              offset += taken
              next unless (length += taken) == BLOCK
              sums << sum
              sum = length = 0
            end
          end
          sums << sum unless length.zero?
          return sums if total == entry.body_size
          raise Malformed, "the body has #{total} bytes instead of #{entry.body_size}"
        end

        def prefix(source)
          text = source.pread(PREFIX_SIZE, 0)
          raise Malformed, "the beginning is missing" unless text&.bytesize == PREFIX_SIZE
          start = text.byteslice(0, PREFIX_SIZE - 4)
          raise Malformed, "the prefix's checksum is wrong" unless text.end_with?(checksum(start))
          magic, header_size, sum, body_size = start.unpack(PREFIX)
          raise Malformed, "it is not an entry of this version" unless magic == MAGIC
          raise Malformed, "the header has #{header_size} bytes" if header_size > LARGEST_HEADER
          [header_size, sum, body_size]
        end

        def checksums(source, offset, body_size)
          text = source.pread(trailer_size(body_size), offset)
          sums = text.byteslice(0, text.bytesize - 4)
          unless text.bytesize == trailer_size(body_size) && text.end_with?(checksum(sums))
            raise Malformed, "the checksums are damaged"
          end
          sums.unpack("L>*").freeze
        end

        def trailer(sums)
          text = sums.pack("L>*")
          text << checksum(text)
        end

        def trailer_size(bytes) = 4 * blocks(bytes) + 4

        def checksum(text) = [Zlib.crc32(text)].pack("L>")
      end
    end
  end
end
