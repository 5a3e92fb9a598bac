# frozen_string_literal: true

require_relative "sidecar"

module NeverBlock
  class Server
    module Cluster
      # All programs beside the workers.
      #
      #   sidecars = Sidecars.new(configuration, supervisor)
      #   sidecars.start
      #   sidecars.stop      # and wait for their end
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

        # Those that do not run.
        # @return [void]
        def start
          return if @running.any?
          @running = @commands.map { |command| Sidecar.new(command, @supervisor) }
          @running.each { |sidecar| @supervisor.spawn("sidecar") { sidecar.keep } }
        end

        # Each takes its place anew, in the directory that is there by then.
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
