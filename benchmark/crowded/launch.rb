# frozen_string_literal: true

# How a server is started among processes that compute: tied to no core, as in production.
#
#   Bench::Crowded::Launch.new(contestant, row).command(3000)   # => ["nice", "-n", "-5", ...]
require_relative "../servers/launch"

module Bench
  class Crowded
    class Launch < Servers::Launch
      # In the place of a core.
      module Anywhere
        def self.tie(*command) = command
      end

      # @return [#tie]
      def core = Anywhere

      # @return [Boolean] the app has no page about itself
      def counts_objects? = false

      # @param port [Integer]
      # @return [Array<String>]
      def command(port)
        ["nice", "-n", @row.nice.to_s, *super, "-w", @row.workers.to_s]
      end

      private

      def rackup = File.join(__dir__, "app.ru")
    end
  end
end
