# frozen_string_literal: true

module NeverBlock
  class Server
    module FromPuma
      # Known plugins of Puma. Each block runs in the {Translation} and returns a note about what it becomes.
      # @api private
      module Plugins
        KNOWN = {
          tmp_restart: -> { "as it is here: tmp/restart.txt, touched, loads the app again (restart_file)" },
          # Solid Queue's own script for any server, otherwise the task that every version has.
          solid_queue: lambda {
            add(:sidecar, File.exist?(path("bin/jobs")) ? "bin/jobs" : "bundle exec rake solid_queue:start")
          },
          # Without "always" it ends with its standard input.
          tailwindcss: -> { add(:sidecar, "bin/rails tailwindcss:watch[always]") },
          litestream: -> { add(:sidecar, "bin/rails litestream:replicate") },
          systemd: -> { "as it is here: systemd is notified, including its watchdog" }
        }.freeze
      end
    end
  end
end
