# frozen_string_literal: true

require "tempfile"

module NeverBlock
  class Cache
    # The body of a response that is being fetched: one task appends chunks, and any number of readers follow, each at
    # its own pace. A chunk is kept once: in memory up to a limit, beyond that in a file without a name. Of a body that
    # is longer than both limits the last chunks are kept until {#trim} drops them.
    #
    #   spool = Spool.new(memory: 1 << 20, file: 64 << 20)
    #   spool.add(spool.keep("first chunk"))
    #   spool.load(spool.place(0))              # => "first chunk"
    #   spool.whole?                            # => true: all of it is kept
    #
    # With both limits 0, each chunk is there until it is dropped. So it is where the file can't be written, and beyond
    # MOST_KEPT chunks, each of which is an object or two. {Fill} has the lock around `add`, `place` and `trim`.
    # @api private
    class Spool
      MOST_KEPT = 1 << 16
      # Chunks beyond the limits.
      MOST_LOOSE = 1 << 14

      # @return [Integer] number of chunks so far
      attr_reader :count
      # @return [Integer] bytes so far
      attr_reader :bytes
      # @return [Integer] bytes in memory beyond both limits
      attr_reader :loose
      # @return [StandardError, nil] why the file could not be written
      attr_reader :error

      # @param memory [Integer] bytes that are kept in memory
      # @param file [Integer] bytes that are kept in a file, after those
      def initialize(memory:, file:)
        @memory = memory
        @limit = memory + file
        @kept = [] # a String each, or [place, size] in the file
        @tail = []
        @count = @bytes = @written = @loose = 0
        @file = @error = nil
      end

      # @return [Boolean] whether all chunks are kept
      def whole? = @kept.size == @count

      # @return [Array<String>, nil] all chunks; nil: some are not in memory
      def chunks = (@kept if whole? && @file.nil?)

      # @param bytes [Integer]
      # @return [Boolean] whether more than these are in memory beyond the limits, or too many chunks
      def crowded?(bytes) = @loose > bytes || @tail.size > MOST_LOOSE

      # Puts a chunk where it belongs, which may wait for the file. One task calls it at a time.
      # @param chunk [String]
      # @return [String, Array(Integer, Integer)] its place, for {#add}
      def keep(chunk)
        chunk = own(chunk)
        (roomy? && @bytes + chunk.bytesize > @memory && fits?(chunk.bytesize, @limit) && write(chunk)) || chunk
      end

      # @param place [String, Array(Integer, Integer)] of {#keep}
      # @return [void]
      def add(place)
        size = (Array === place) ? place[1] : place.bytesize
        if Array === place || (roomy? && fits?(size, @memory))
          @kept << place
        else
          @tail << place
          @loose += size
        end
        @bytes += size
        @count += 1
      end

      # @param index [Integer] less than {#count}
      # @return [String, Array(Integer, Integer), nil] for {#load}; nil: the chunk was dropped
      def place(index)
        return @tail[index - @count] if index >= @kept.size && @count - index <= @tail.size
        @kept[index]
      end

      # Reads a chunk, which may wait for the file.
      # @param place [String, Array(Integer, Integer)]
      # @return [String]
      # @raise [EOFError] if the file was shortened
      def load(place)
        return place unless Array === place
        text = @file.pread(place[1], place[0])
        return text if text.bytesize == place[1]
        raise EOFError, "the file has #{text.bytesize} of #{place[1]} bytes at #{place[0]}"
      end

      # Drops the chunks beyond the limits that come before this one.
      # @param index [Integer]
      # @return [void]
      def trim(index)
        @loose -= @tail.shift.bytesize while @count - index < @tail.size
      end

      # What is in the file can't be read any more.
      # @return [void]
      def close = @file&.close

      # @return [Boolean] whether a part is in the file
      def file? = !@file.nil?

      private

      def roomy? = whole? && @count < MOST_KEPT

      def fits?(size, limit) = @bytes + size <= limit

      # A chunk that the app may change later is copied.
      def own(chunk)
        return chunk if chunk.frozen? && chunk.encoding == Encoding::BINARY
        chunk.b.freeze
      end

      # @return [Array(Integer, Integer), nil] nil: it can't be written, as on a full disk
      def write(chunk)
        return if @error
        @file ||= Tempfile.create("neverblock-cache", binmode: true).tap { |file| File.unlink(file.path) }
        done = 0
        done += @file.pwrite(chunk.byteslice(done..), @written + done) while done < chunk.bytesize
        place = [@written, done].freeze
        @written += done
        place
      rescue SystemCallError, IOError, ArgumentError => error # the last one: there is no folder for it
        @error = error
        nil
      end
    end
  end
end
