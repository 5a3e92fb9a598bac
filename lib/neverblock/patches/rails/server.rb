# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # `bin/rails server` takes the first of a fixed list of servers. Here it takes ours, unless -u, RACKUP_HANDLER or
      # RACK_HANDLER name another. And before it loads the app it becomes a process whose fibers have the stacks that
      # `stack_depth` asks for or, where there are to be workers, `neverblock serve`.
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

          # Ours tells where it listens, which config/neverblock.rb may say.
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
