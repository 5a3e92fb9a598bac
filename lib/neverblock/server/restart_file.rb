# frozen_string_literal: true

module NeverBlock
  class Server
    # The file that tools touch to have an app loaded anew: `bin/rails restart` does, and deployments that know Passenger.
    #
    #   restart_file = RestartFile.new("tmp/restart.txt", "/srv/shop/current")
    #   scope.spawn { restart_file.watch { reload } }
    # @api private
    class RestartFile
      INTERVAL = 1.0

      # What was touched before now is served already, even if its time is one to come.
      # @param path [String, nil] nil: nothing is watched
      # @param directory [String] where the app is; links are followed anew each time
      def initialize(path, directory, now: Time.now)
        @path = path && File.expand_path(path, directory)
        @seen = [now, touched].compact.max
      end

      # Looks each second; a block that returns nil or false is called again.
      # @return [void]
      def watch
        return unless @path
        loop do
          sleep INTERVAL
          time = touched
          @seen = time if time && time > @seen && yield
        end
      end

      private

      def touched
        File.mtime(@path) if @path
      rescue SystemCallError
        nil # there is none, most often
      end
    end
  end
end
