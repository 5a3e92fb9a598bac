# frozen_string_literal: true

require "zlib"
require_relative "../../errors"

module NeverBlock
  class Cache
    class Traffic
      # The lines of a file or a stream, which may be compressed by gzip: its first bytes tell.
      #
      #   LogLines.open("log/access.log.1.gz") { |lines| lines.each { |line| p line } }
      # @api private
      class LogLines
        # Bytes of the longest line.
        LONGEST = 64 << 10
        MAGIC = "\x1F\x8B".b.freeze
        private_constant :LONGEST, :MAGIC

        # @param source [String, IO] a path, or what can be read
        # @yieldparam lines [LogLines]
        # @raise [ConfigurationError] if it can't be read
        def self.open(source)
          return yield(new(source)) unless String === source
          File.open(source, "rb") { |file| yield(new(file)) }
        rescue SystemCallError => error
          raise ConfigurationError, "#{source} can't be read: #{error.message[/\A[^@]+/].strip}"
        end

        # @return [Integer] lines that were too long, and skipped
        attr_reader :too_long
        # @return [String, nil] why the rest of the file can't be read
        attr_reader :damage

        # @param io [IO] with `gets`, `read` and `ungetbyte`
        def initialize(io)
          @io = io
          @too_long = 0
        end

        # @yieldparam line [String] binary, without its end
        # @return [void]
        def each(&)
          @io.binmode if @io.respond_to?(:binmode)
          packed? ? unpack(&) : lines(@io, &)
        rescue Zlib::Error => error
          @damage = error.message
        end

        # @return [Float, nil] the part of a file that was read
        def progress
          return unless File === @io && @io.size > 0
          @io.pos.to_f / @io.size
        end

        private

        def packed?
          head = @io.read(2) or return false
          @io.ungetbyte(head)
          head == MAGIC
        end

        # Logs that were packed one by one may stand one after another.
        def unpack(&)
          loop do
            reader = Zlib::GzipReader.new(@io)
            lines(reader, &)
            rest = reader.unused
            reader.finish
            @io.ungetbyte(rest) if rest
            break unless packed?
          end
        end

        def lines(io)
          while (line = io.gets("\n", LONGEST))
            line = line.b unless line.encoding == Encoding::BINARY
            if line.end_with?("\n")
              yield line.chomp
            elsif line.bytesize < LONGEST
              yield line # the last one
            else
              skip(io)
            end
          end
        end

        def skip(io)
          @too_long += 1
          while (line = io.gets("\n", LONGEST))
            break if line.end_with?("\n")
          end
        end
      end
    end
  end
end
