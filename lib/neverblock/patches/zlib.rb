# frozen_string_literal: true

module NeverBlock
  module Patches
    # Runs Zlib where it is fastest: a small input in place on the loop's thread, a large one on another thread.
    #
    #   Zlib.inflate(session)                      # a few KiB: no thread, no turn of the loop
    #   Zlib.gzip(export)                          # megabytes: a thread, and the calling fiber parks
    #
    # Compression of a large input uses a thread. A string is compressed as a whole. In a stream or a GzipWriter each
    # step is moved, because the lock, the block and the IO belong to the fiber. Before Ruby 3.4 the call of a stream is
    # moved as a whole, unless it has a block or an IO.
    #
    # The output size of a decompression is unknown beforehand. Strings are inflated in pieces, with a turn for
    # other fibers between two of them. From Ruby 3.4 on a stream asks the scheduler at each step of 16 KiB, and
    # other fibers get a turn after several steps (ext/neverblock/scheduler/offload.c). A thread would be slower:
    # after each step it waits for the interpreter's lock, which a busy loop holds for up to 100 ms. Before Ruby
    # 3.4 streams have no other way.
    #
    # The thresholds are the sizes at which a call takes a millisecond; a hand-over takes a twentieth of that. They were
    # measured with bin/bench offload_sizes; its table is in docs/benchmarks/offload_sizes.md.
    module Zlib
      # Maximum bytes to compress without a thread: 0.8 ms at the default level, 0.3 ms at 1, 2.5 ms at 9.
      DEFLATED = 65_536
      # Maximum output bytes of a piece: 1.0 ms for zeros, 1.3 ms for text.
      INFLATED = 524_288
      # Maximum input bytes of a piece, because input without output takes time too.
      PIECE = 65_536
      # Maximum input bytes that can't exceed INFLATED: a byte becomes 1,032 at most (zlib's "Technical Details").
      SURE = INFLATED / 1_032
      STEPS_ASK = RUBY_VERSION >= "3.4"
      # wbits of Zlib::Inflate.new.
      ZLIB, GZIP = ::Zlib::MAX_WBITS, ::Zlib::MAX_WBITS + 16
      # Flags of a gzip header that Ruby refuses and zlib accepts.
      REFUSED = 0xe2
      private_constant :DEFLATED, :INFLATED, :PIECE, :SURE, :STEPS_ASK, :ZLIB, :GZIP, :REFUSED

      def self.targets
        {
          ::Zlib.singleton_class => OfZlib,
          ::Zlib::Deflate.singleton_class => Deflating,
          ::Zlib::Inflate.singleton_class => Inflating,
          ::Zlib::Deflate => OfDeflate,
          **(STEPS_ASK ? {::Zlib::GzipWriter => OfGzipWriter} : {::Zlib::Inflate => OfInflate})
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

      # Zlib::Deflate#deflate and #<<
      module OfDeflate
        def deflate(*arguments, &block)
          Zlib.more?(arguments.first, DEFLATED) ? Zlib.streaming(block) { super } : super
        end

        def <<(source) = Zlib.more?(source, DEFLATED) ? Zlib.streaming { super } : super
      end

      # Zlib::Inflate#inflate and #<<, on Rubies whose steps don't ask the scheduler
      module OfInflate
        def inflate(*arguments, **options, &block)
          Zlib.more?(arguments.first, SURE) ? Zlib.streaming(block) { super } : super
        end

        def <<(source) = Zlib.more?(source, SURE) ? Zlib.streaming { super } : super
      end

      # Zlib::GzipWriter#write, which #print, #puts and #<< call
      module OfGzipWriter
        def write(*strings)
          (strings.any? { |string| Zlib.more?(string, DEFLATED) }) ? Zlib.streaming { super } : super
        end
      end

      class << self
        # @return [Boolean] whether the source is larger than the limit and the calling fiber can park
        def more?(source, limit) = String === source && source.bytesize > limit && !Scheduler.current.nil?

        # @yield compresses the whole source
        def deflating(source, &whole)
          return yield unless String === source && Scheduler.current
          (source.bytesize > DEFLATED) ? on_thread(&whole) : Fiber.blocking(&whole)
        end

        # @param wbits [Integer] the format
        # @yield decompresses the whole source
        def inflating(source, wbits, &whole)
          return yield unless String === source && Scheduler.current
          return Fiber.blocking(&whole) if source.bytesize <= SURE
          in_pieces(source, wbits) || (STEPS_ASK ? yield : on_thread(&whole))
        end

        # Marks the call as large, so that each step uses a thread; the call itself stays in its fiber, which holds the
        # stream's lock. On Rubies whose steps don't ask, the whole call moves.
        # @param block [Proc, nil] the call's block, which must run in its fiber
        # @yield processes the whole source
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

        # @return [String, nil] nil for invalid data, for which the original method raises
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

        # @return [Array] the output, and whether the piece is used up; the stream keeps the rest
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
