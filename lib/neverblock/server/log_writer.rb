# frozen_string_literal: true

module NeverBlock
  class Server
    # Writes lines without delaying requests: lines are gathered, and a task of the loop writes them. If the reader is
    # stalled, lines beyond a limit are dropped and counted.
    #
    #   writer = LogWriter.new("log/access.log", delay: 1.0)
    #   scope.spawn { writer.run }
    #   writer << "a line\n"
    #
    # While `run` is not called, lines are written at once.
    # @api private
    class LogWriter
      LIMIT = 4 << 20
      LAST = 2

      # @return [Integer] number of lines that were dropped
      attr_reader :lost

      # @param to [String, IO] the path of a file that is appended to, or an IO
      # @param delay [Numeric] seconds for which lines are gathered
      # @param limit [Integer] bytes that may wait to be written
      # @param last [Numeric] seconds for writing the last lines at the end
      # @yieldparam reason [String] why lines were dropped; called each time
      # @raise [ConfigurationError] if the file can't be opened
      def initialize(to, delay: 0, limit: LIMIT, last: LAST, &told)
        @path = to if String === to
        @delay = delay
        @limit = limit
        @last = last
        @told = told
        @io = @path ? open_file : to
        @buffer = +""
        @lost = 0
        @bell = nil
      end

      # @param line [String] with its end
      # @return [self]
      def <<(line)
        return write(line) unless @bell
        if @buffer.bytesize + line.bytesize > @limit
          lose(1, "more than #{@limit} bytes wait to be written")
        else
          ring = @buffer.empty?
          @buffer << line
          @bell << true if ring && !@bell.closed? # after stop they are written with the last lines
        end
        self
      end

      # Writes a line at once, ahead of those that wait; the loop may be blocked.
      # @param line [String]
      # @return [void]
      def immediately(line)
        write(line)
      end

      # Writes lines until it is stopped or cancelled, and then the last ones.
      # @return [void]
      def run
        bell = @bell = Thread::Queue.new
        while bell.pop
          bell.pop(timeout: @delay) if @delay > 0 # ends early at stop
          flush
        end
      ensure
        @bell = nil
        finish
      end

      # Ends {#run}.
      # @return [void]
      def stop
        @bell&.close
      end

      # Writes what waits, and each further line at once: the loop was left with {#run} in it.
      # @return [void]
      def leave_loop
        @bell = nil
        flush
      end

      # Counts lines that can't be written, and tells why.
      # @param lines [Integer]
      # @param reason [String]
      # @return [void]
      def lose(lines, reason)
        @lost += lines
        @told&.call(reason)
      end

      # Opens its file again, after the old one was renamed.
      # @return [void]
      # @raise [ConfigurationError] if that fails; the open file is used further on
      def reopen
        return unless @path
        old, @io = @io, open_file
        old.close
      end

      # @return [void]
      def close
        @io.close if @path && !@io.closed?
      end

      private

      def open_file
        # Rails has an internal encoding, to which Ruby would convert what is written.
        flags = File::WRONLY | File::APPEND | File::CREAT
        File.open(@path, flags, 0o644, binmode: true).tap { |file| file.sync = true }
      rescue SystemCallError => error
        raise ConfigurationError,
          "the log #{@path} can't be written: #{error.message}. Make its folder, or name another " \
          "file with access_log to: or error_log"
      end

      # @param broken_off [String] the reason if a cancellation or a timeout ends the write
      def flush(broken_off = "a write was broken off")
        text, @buffer = @buffer, +""
        done = text.empty? || write(text)
      ensure
        lose(text.count("\n"), broken_off) unless done
      end

      # The server goes on if a log can't be written.
      def write(text)
        @io.write(text)
        @io.flush if @io.respond_to?(:flush) # Ruby buffers 8 KiB for files and pipes otherwise
        self
      rescue SystemCallError, IOError, EncodingError => error # not a timeout of the caller's
        lose(text.count("\n"), error.message)
        self
      end

      def finish
        return if @buffer.empty?
        return flush unless Task.current
        NeverBlock.shield do
          NeverBlock.timeout(@last) { flush("the last lines were not taken within #{@last} s") }
        end
      rescue TimeoutError
        nil # they are counted
      end
    end
  end
end
