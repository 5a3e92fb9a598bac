# frozen_string_literal: true

module NeverBlock
  class Server
    # A file with this process's number, for those who send it signals.
    #
    #   PidFile.new("tmp/pids/server.pid").write
    # @api private
    class PidFile
      # @param path [String, nil] nil: none
      def initialize(path)
        @path = path && File.expand_path(path)
      end

      # @return [void]
      # @raise [ConfigurationError] if it can't be written, or a server runs whose number it has
      def write
        return unless @path
        other = number
        raise ConfigurationError, "#{@path} says that a server runs already, as process #{other}. Stop it, or name another pid_file" if other && other != Process.pid && runs?(other)
        File.write("#{@path}.new", "#{Process.pid}\n")
        File.rename("#{@path}.new", @path) # nobody reads a half
      rescue SystemCallError => error
        raise ConfigurationError, "pid_file #{@path} can't be written: #{error.message}. Make its folder, or name another file"
      end

      # Takes it away, unless another server's number is in it by now.
      # @return [void]
      def remove
        File.unlink(@path) if @path && number == Process.pid
      rescue SystemCallError
        # somebody else has removed it
      end

      private

      def number
        Integer(File.read(@path), 10, exception: false)
      rescue SystemCallError
        nil
      end

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
