# frozen_string_literal: true

module NeverBlock
  class Server
    # A file with this process's number, for programs that send it signals. A lock on it shows that the server runs:
    # after a reboot the number may belong to another process.
    #
    #   PidFile.new("tmp/pids/server.pid").write
    # @api private
    class PidFile
      # @param path [String, nil] nil: none
      def initialize(path)
        @path = path && File.expand_path(path)
      end

      # @return [void]
      # @raise [ConfigurationError] if it can't be written, or belongs to a running server
      def write
        return unless @path
        @file = lock
        @process = Process.pid
        @file.write("#{Process.pid}\n")
        @file.truncate(@file.pos) # after the write: at any time a reader finds a number in the first line
      rescue SystemCallError => error
        raise ConfigurationError,
          "pid_file #{@path} can't be written: #{error.message}. Make its folder, or name another file"
      end

      # Removes the file, unless it belongs to another server by now. In a forked child it stays: it is the parent's.
      # @return [void]
      def remove
        return unless @file
        File.unlink(@path) if @process == Process.pid && ours?(@file)
        @file.close
      rescue SystemCallError
        # it was removed by another program
      end

      private

      # The file may be removed between open and lock; then it is opened again.
      def lock
        loop do
          file = File.open(@path, File::RDWR | File::CREAT, 0o644).tap { |one| one.sync = true }
          free = file.flock(File::LOCK_EX | File::LOCK_NB)
          return file if free && ours?(file)
          File.unlink(@path) if !free && left_over?(file) && ours?(file)
          file.close
        end
      end

      # A child process that outlives the server keeps its lock, but has another number. Our own number is that of the
      # previous program in this process.
      def left_over?(file)
        number = Integer(file.read, 10, exception: false)
        return true if number == Process.pid || (number&.positive? && !runs?(number))
        raise ConfigurationError,
          "#{@path} says that a server runs already, as process #{number}. Stop it, or name another pid_file"
      end

      def ours?(file) = File.identical?(file, @path)

      def runs?(number)
        Process.kill(0, number)
        true
      rescue Errno::ESRCH
        false
      rescue Errno::EPERM
        true
      end
    end
  end
end
