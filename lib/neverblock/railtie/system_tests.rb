# frozen_string_literal: true

module NeverBlock
  class Railtie
    # The server for system tests, on a thread beside the tests. It is the default; `Capybara.server = :puma` in
    # a test helper chooses another.
    #
    #   SystemTests.register
    # @api private
    module SystemTests
      # Seconds that requests have to end in at the end of a test run.
      SHUTDOWN = 1

      # @return [void]
      def self.register
        return unless defined?(Capybara)
        Capybara.register_server(:neverblock) { |app, port, host| serve(app, port, host) }
        Capybara.server = :neverblock if Capybara.server == Capybara.servers[:default]
      end

      # Never returns. Capybara calls it on its own thread.
      def self.serve(app, port, host)
        require_relative "../server"
        host = "[#{host}]" if host.include?(":")
        server = Server.new(app, bind: "tcp://#{host}:#{port}", shutdown_timeout: SHUTDOWN, drain_delay: 0)
        server.start
        sleep
      ensure
        server&.stop
      end
      private_class_method :serve
    end
  end
end
