# frozen_string_literal: true

require_relative "sidecar"

module NeverBlock
  class Server
    module Cluster
      # All sidecars: programs that run beside the workers.
      #
      #   sidecars = Sidecars.new(configuration, supervisor)
      #   sidecars.start
      #   sidecars.stop      # waits for their end
      # @api private
      class Sidecars
        # @param configuration [Configuration]
        # @param supervisor [#spawn, #say, #directory]
        def initialize(configuration, supervisor)
          @commands = configuration[:sidecar]
          @timeout = configuration[:shutdown_timeout]
          @supervisor = supervisor
          @running = []
        end

        # Starts all, unless they run already.
        # @return [void]
        def start
          return if @running.any?
          @running = @commands.map { |command| Sidecar.new(command, @supervisor) }
          @running.each { |sidecar| @supervisor.spawn("sidecar") { sidecar.keep } }
        end

        # @return [Array<Hash{Symbol=>Object}>] Sidecar#to_h of each; empty before the app is loaded
        def stats = @running.map(&:to_h)

        # Restarts each in the directory of the new deployment.
        # @return [void]
        def restart
          @running.each(&:restart)
        end

        # @return [void]
        def stop
          @running.each { |sidecar| sidecar.stop(@timeout) }
          @running = []
        end
      end
    end
  end
end
