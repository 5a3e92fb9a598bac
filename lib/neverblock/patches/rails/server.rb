# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Makes NeverBlock the default server of `bin/rails server`, unless -u, RACKUP_HANDLER or RACK_HANDLER names
      # another. Before the app is loaded, the process is replaced: by one whose fibers have the stacks that
      # `stack_depth` asks for, or by `neverblock serve` if there should be workers.
      module Server
        # Prepended to Rails::Server.
        module Choice
          def server
            @_server ||= begin
              require "neverblock/railtie/command"
              other = super if named?
              (other && other != NeverBlock::Server::RackHandler) ? other : Railtie::Command.new(options)
            end
          end

          # NeverBlock prints its addresses itself; config/neverblock.rb may set them.
          def served_url = (super unless Railtie::Command === server)

          def serveable?
            super.tap { |found| server.replace if found && Railtie::Command === server }
          end

          private

          def named? = options[:server] || ENV["RACKUP_HANDLER"] || ENV["RACK_HANDLER"]
        end

        def self.apply = ::Rails::Server.prepend(Choice)
      end
    end
  end
end
