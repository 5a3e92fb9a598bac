# frozen_string_literal: true

require_relative "../clock"

module NeverBlock
  class Server
    # The file that tools touch to reload an app, such as `bin/rails restart`, and deployment tools that support
    # Passenger.
    #
    #   restart_file = RestartFile.new("tmp/restart.txt", "/srv/shop/current")
    #   scope.spawn { restart_file.watch { reload } }
    # @api private
    class RestartFile
      INTERVAL = 1.0

      # A file that was touched before now is ignored, even if its time is in the future.
      # @param path [String, nil] nil: nothing is watched
      # @param directory [String] the app's; links in it are resolved each time
      # @param now [Time]
      def initialize(path, directory, now: Clock.time)
        @path = path && File.expand_path(path, directory)
        @seen = [now, touched].compact.max
      end

      # Looks once a second and calls the block after a change. If the block returns nil or false it is called again.
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
        nil # usually there is no such file
      end
    end
  end
end
