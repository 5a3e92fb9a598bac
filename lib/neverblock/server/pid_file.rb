# frozen_string_literal: true

module NeverBlock
  class Server
    # A file with this process's number, for those who send it signals. A lock on it says that the server runs: the number
    # alone may be another process's by now, after a reboot above all.
    #
    #   PidFile.new("tmp/pids/server.pid").write
    # @api private
    class PidFile
      # @param path [String, nil] nil: none
      def initialize(path)
        @path = path && File.expand_path(path)
      end

      # @return [void]
      # @raise [ConfigurationError] if it can't be written, or the server runs that has written it
      def write
        return unless @path
        @file = lock
        @file.write("#{Process.pid}\n")
        @file.truncate(@file.pos) # only now: a reader finds the number in the first line all the time
      rescue SystemCallError => error
        raise ConfigurationError, "pid_file #{@path} can't be written: #{error.message}. Make its folder, or name another file"
      end

      # Takes it away, unless it is another server's by now.
      # @return [void]
      def remove
        return unless @file
        File.unlink(@path) if ours?(@file)
        @file.close
      rescue SystemCallError
        # somebody else has removed it
      end

      private

      # Whoever removes it may do so between our look and our lock: then there is a new one.
      def lock
        loop do
          file = File.open(@path, File::RDWR | File::CREAT, 0o644).tap { |one| one.sync = true }
          free = file.flock(File::LOCK_EX | File::LOCK_NB)
          return file if free && ours?(file)
          File.unlink(@path) if !free && left_over?(file) && ours?(file)
          file.close
        end
      end

      # A process that the server has forked, and that has outlived it, has its lock too, but not its number. Ours is that of
      # the program which was this process before.
      def left_over?(file)
        number = Integer(file.read, 10, exception: false)
        return true if number == Process.pid || (number&.positive? && !runs?(number))
        raise ConfigurationError, "#{@path} says that a server runs already, as process #{number}. Stop it, or name another pid_file"
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
