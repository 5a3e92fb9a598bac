# frozen_string_literal: true

module NeverBlock
  class Server
    # Writes lines without holding anybody up: they are gathered, and a task of the loop writes them. What a stalled
    # reader can't take is left out beyond a bound, and counted.
    #
    #   writer = LogWriter.new("log/access.log", delay: 1.0)
    #   scope.spawn { writer.run }
    #   writer << "a line\n"
    #
    # While nobody runs it, lines are written at once.
    # @api private
    class LogWriter
      LIMIT = 4 << 20
      LAST = 2

      # @return [Integer] lines that were left out
      attr_reader :lost

      # @param to [String, IO] a path, which is appended to, or what is written to
      # @param delay [Numeric] seconds for which lines are gathered
      # @param limit [Integer] bytes that wait to be written at most
      # @param last [Numeric] seconds that the last lines get when it ends
      # @yieldparam reason [String] why lines were left out; each time
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
          @bell << true if ring && !@bell.closed? # else they are among the last lines
        end
        self
      end

      # @param line [String] written before those that wait, whoever holds the loop
      # @return [void]
      def immediately(line)
        write(line)
      end

      # Writes what comes, until it is stopped or cancelled; the last lines too.
      # @return [void]
      def run
        bell = @bell = Thread::Queue.new
        while bell.pop
          bell.pop(timeout: @delay) if @delay > 0 # cut short by stop
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

      # Opens its file again, for an operator that has renamed the old one.
      # @return [void]
      # @raise [ConfigurationError] if that fails; the file that is open is written to further on
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
        File.open(@path, File::WRONLY | File::APPEND | File::CREAT, 0o644).tap { |file| file.sync = true }
      rescue SystemCallError => error
        raise ConfigurationError, "the log #{@path} can't be written: #{error.message}. Make its folder, or name another " \
          "file with access_log to: or error_log"
      end

      def flush
        text, @buffer = @buffer, +""
        write(text) unless text.empty?
      end

      # A log that can't be written is no reason to stop serving.
      def write(text)
        @io.write(text)
        @io.flush if @io.respond_to?(:flush) # else Ruby keeps what goes to a file or a pipe until 8 KiB are full
        self
      rescue SystemCallError, IOError => error
        lose(text.count("\n"), error.message)
        self
      end

      def lose(lines, reason)
        @lost += lines
        @told&.call(reason)
      end

      def finish
        return if @buffer.empty?
        task = Task.current
        task ? NeverBlock.shield { NeverBlock.timeout(@last) { flush } } : flush
      rescue TimeoutError
        lose(1, "the last lines were not taken within #{@last} s")
      end
    end
  end
end
