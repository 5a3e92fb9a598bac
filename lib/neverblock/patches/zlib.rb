# frozen_string_literal: true

module NeverBlock
  module Patches
    # Zlib's work is done where it costs least: what is small at once, on the loop's thread, as if there were no loop.
    #
    #   Zlib.inflate(session)                      # a few KiB: no thread, no turn of the loop
    #   Zlib.gzip(export)                          # megabytes: a thread, and the calling fiber parks
    #
    # To compress much goes to a thread: a string at once; of a stream, or a GzipWriter, each step, since its lock, its block and
    # its IO belong to the fiber. Before Ruby 3.4 a stream's call goes as a whole, and those with a block or an IO do not.
    #
    # What a small input inflates to is not known before. Strings are inflated in pieces, and the other fibers have a turn
    # between two of them. The streams' steps of 16 KiB ask the scheduler, from Ruby 3.4 on, and the others have a turn after
    # some (ext/neverblock/scheduler/offload.c). A thread would be no help: after each step it waits for the interpreter's
    # lock, which a loop at work has for up to 100 ms. Before 3.4 there is no other way for streams.
    #
    # The sizes are those where a call takes a millisecond, of which a hand-over is a twentieth: benchmark/offload_sizes.rb,
    # whose table is in docs/benchmarks/offload_sizes.md.
    module Zlib
      # Bytes to compress at most without a thread: 0.8 ms at the default level, 0.3 ms at 1, 2.5 ms at 9.
      DEFLATED = 65_536
      # Bytes that come out of a piece at most: 1.0 ms for zeros, 1.3 ms for text.
      INFLATED = 524_288
      # Bytes of a string that go into a piece at most: those that make no output take time too.
      PIECE = 65_536
      # Bytes that can't become more than INFLATED: each becomes 1,032 at most (zlib's own "Technical Details").
      SURE = INFLATED / 1_032
      STEPS_ASK = RUBY_VERSION >= "3.4"
      # wbits of Zlib::Inflate.new
      ZLIB, GZIP = ::Zlib::MAX_WBITS, ::Zlib::MAX_WBITS + 16
      # Of a gzip header: flags that Ruby refuses and zlib does not.
      REFUSED = 0xe2
      private_constant :DEFLATED, :INFLATED, :PIECE, :SURE, :STEPS_ASK, :ZLIB, :GZIP, :REFUSED

      def self.targets
        {
          ::Zlib.singleton_class => OfZlib, ::Zlib::Deflate.singleton_class => Deflating, ::Zlib::Inflate.singleton_class => Inflating,
          ::Zlib::Deflate => OfDeflate, **(STEPS_ASK ? {::Zlib::GzipWriter => OfGzipWriter} : {::Zlib::Inflate => OfInflate})
        }
      end

      def self.needed? = true

      # Zlib.deflate, Zlib::Deflate.deflate
      module Deflating
        def deflate(*arguments) = Zlib.deflating(arguments.first) { super }
      end

      # Zlib.inflate, Zlib::Inflate.inflate
      module Inflating
        def inflate(*arguments) = Zlib.inflating(arguments.first, ZLIB) { super }
      end

      # Zlib's own methods
      module OfZlib
        include Deflating
        include Inflating

        def gzip(*arguments, **options) = Zlib.deflating(arguments.first) { super }

        def gunzip(*arguments) = Zlib.inflating(arguments.first, GZIP) { super }
      end

      # Zlib::Deflate#deflate, #<<
      module OfDeflate
        def deflate(*arguments, &block) = Zlib.more?(arguments.first, DEFLATED) ? Zlib.streaming(block) { super } : super

        def <<(source) = Zlib.more?(source, DEFLATED) ? Zlib.streaming { super } : super
      end

      # Zlib::Inflate#inflate, #<<, where steps do not ask
      module OfInflate
        def inflate(*arguments, **options, &block) = Zlib.more?(arguments.first, SURE) ? Zlib.streaming(block) { super } : super

        def <<(source) = Zlib.more?(source, SURE) ? Zlib.streaming { super } : super
      end

      # Zlib::GzipWriter#write, which #print, #puts and #<< call
      module OfGzipWriter
        def write(*strings) = (strings.any? { |string| Zlib.more?(string, DEFLATED) }) ? Zlib.streaming { super } : super
      end

      class << self
        # @return [Boolean] whether it is larger, and this is a fiber that can park
        def more?(source, limit) = String === source && source.bytesize > limit && !Scheduler.current.nil?

        # @yield all of it
        def deflating(source, &whole)
          return yield unless String === source && Scheduler.current
          (source.bytesize > DEFLATED) ? on_thread(&whole) : Fiber.blocking(&whole)
        end

        # @param wbits [Integer] of the format
        # @yield all of it
        def inflating(source, wbits, &whole)
          return yield unless String === source && Scheduler.current
          return Fiber.blocking(&whole) if source.bytesize <= SURE
          in_pieces(source, wbits) || (STEPS_ASK ? yield : on_thread(&whole))
        end

        # Where steps ask, each goes to a thread: the call itself stays in its fiber, which has the stream's lock.
        # @param block [Proc, nil] the call's, which belongs to its fiber
        # @yield all of it
        def streaming(block = nil, &whole)
          return block ? yield : on_thread(&whole) unless STEPS_ASK
          begin
            before, Fiber[:neverblock_large] = Fiber[:neverblock_large], true
            yield
          ensure
            Fiber[:neverblock_large] = before
          end
        end

        private

        def on_thread(&) = ThreadPool.operations.call(leave: :at_end, &)

        # @return [String, nil] nil if something is wrong that Ruby's own method has the error for
        def in_pieces(source, wbits)
          return if wbits == GZIP && source.getbyte(3).anybits?(REFUSED)
          stream = ::Zlib::Inflate.new(wbits)
          output, offset, piece = nil, 0, source.byteslice(0, PIECE)
          loop do
            output, whole = inflate(stream, piece, output)
            return output if stream.finished?
            return if whole && (offset += PIECE) >= source.bytesize
            piece = whole ? source.byteslice(offset, PIECE) : ""
            Scheduler.current.between_steps
          end
        rescue ::Zlib::Error
          nil
        ensure
          stream&.reset
          stream&.close
        end

        # @return [Array] the output, and whether that is all of the piece; the stream keeps what is left
        def inflate(stream, piece, output)
          Fiber.blocking do
            limit = INFLATED
            stream.inflate(piece) do |part|
              output = output ? output << part : part
              return [output, false] if (limit -= part.bytesize).negative?
            end
            [output, true]
          end
        end
      end
    end
  end
end
