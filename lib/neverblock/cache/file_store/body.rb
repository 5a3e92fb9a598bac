# frozen_string_literal: true

require_relative "../entry_format"

module NeverBlock
  class Cache
    class FileStore
      # The body of an entry, in its file. Any number of readers read it at once, each at its own place: they share one
      # descriptor, and each has one block in memory. A block is checked before it is handed over, so that bytes of a
      # damaged file never reach a client.
      #
      #   body.each { |block| … }
      #   body.slice(1_000_000, 500)    # => Enumerator of Strings
      #
      # The descriptor stays open as long as {Descriptors} says, at least while it is read: the file may be removed
      # meanwhile. A body that was closed opens its file again, which has a name of its own.
      # @api private
      class Body
        # The file is damaged, or was removed before it was read.
        class Lost < StandardError
          include Error
        end

        # @return [Integer]
        attr_reader :body_size, :offset
        # @return [Array<Integer>] of its blocks
        attr_reader :checksums
        # @return [String]
        attr_reader :path
        # @return [Float] when it was last asked for; see {Descriptors}
        attr_accessor :used_at

        alias_method :bytesize, :body_size

        # @param path [String]
        # @param file [File] open; belongs to the body from now on
        # @param parsed [EntryFormat::Parsed]
        # @param descriptors [Descriptors]
        # @param damaged [#call] gets the path and the error, if a block is damaged
        def initialize(path, file, parsed, descriptors, damaged)
          @path = path
          @file = file
          @offset = parsed.offset
          @body_size = parsed.body_size
          @checksums = parsed.checksums
          @descriptors = descriptors
          @damaged = damaged
          @readers = 0
          @used_at = 0.0
        end

        # @yieldparam block [String] frozen
        # @return [void]
        # @raise [Lost]
        def each(&) = read(0, @body_size, &)

        # @param first [Integer]
        # @param length [Integer]
        # @return [Enumerator<String>]
        def slice(first, length) = Enumerator.new { |yielder| read(first, length) { |part| yielder << part } }

        # Opens its file, unless it is open.
        # @return [self]
        # @raise [Lost]
        def hold
          @descriptors.hold(self)
          self
        end

        # @return [Boolean] whether a descriptor is open
        def open? = !@file.nil?

        # @return [Boolean] whether it is being read
        def busy? = @readers.positive?

        # @api private
        # @return [File] for {#adopt}
        # @raise [Lost]
        def reopen
          File.open(@path, File::RDONLY | File::NOFOLLOW | File::NONBLOCK, binmode: true)
        rescue SystemCallError => error
          raise Lost, "a stored response can't be read any more: #{error.message}"
        end

        # The methods below are called by {Descriptors}, with its lock held.

        # @param file [File]
        # @return [File] the one that is open
        def adopt(file) = @file ||= file

        # @return [File, nil] for a reader
        def enter = (@file if @file && (@readers += 1))

        # @return [void]
        def leave = @readers -= 1

        # @return [File, nil] to be closed; nil: it is being read
        def release
          return if busy?
          file, @file = @file, nil
          file
        end

        private

        def read(first, length)
          return unless length.positive?
          @descriptors.reading(self) do |file|
            last = first + length - 1
            (first / EntryFormat::BLOCK).upto(last / EntryFormat::BLOCK) do |index|
              start = index * EntryFormat::BLOCK
              block = load(file, index)
              from, to = [first - start, 0].max, [last - start, block.bytesize - 1].min
              yield((from.zero? && to == block.bytesize - 1) ? block : block.byteslice(from..to).freeze)
            end
          end
        end

        def load(file, index)
          EntryFormat.block(file, self, index)
        rescue EntryFormat::Malformed, SystemCallError => error
          @damaged.call(@path, error)
          raise Lost, "a stored response is damaged: #{error.message}"
        end
      end
    end
  end
end
