# frozen_string_literal: true

require_relative "../value_type"
require_relative "plugins"
require_relative "topic"

module NeverBlock
  class Server
    module FromPuma
      # Puma's directives for starting, stopping and monitoring.
      # @api private
      module Operation
        extend Topic

        TITLE = "Operation"
        # The longest time that a setting of seconds can have.
        FOR_EVER = ValueType::LONGEST

        word :environment, "The same; without it, `APP_ENV`, `RACK_ENV` or `RAILS_ENV`, as with Puma.",
          here: :environment do |name|
          set(:environment, name.to_s)
        end

        word :directory, "The same: the server enters it before it serves. Each reload resolves a link again.",
          here: :directory do |_dir|
          raise ArgumentError, "there is no such directory" unless File.directory?(@directory)
          set(:directory, @directory)
        end

        word :rackup, "The same; the command line takes precedence." do |file|
          @rackup ||= path(file)
          nil
        end

        word :app, "The same: its app is served instead of a rackup file." do |app = nil, &block|
          @app = app || block || raise(ArgumentError, "it takes a block, or an object that responds to call")
          nil
        end

        word(:pidfile, "The same under another name.", here: :pid_file) { |file| set(:pid_file, path(file)) }
        word(:tag, "The same.", here: :tag) { |name| name.to_s.strip.empty? ? "says nothing" : set(:tag, name.to_s) }

        word :force_shutdown_after, <<~TEXT, here: :shutdown_timeout do |limit = :forever|
          The seconds for running requests, 0 for `:immediately`, a year for `:forever`, which is Puma's default; ours
          is 30.
        TEXT
          shut_down_within({forever: FOR_EVER, immediately: 0}.fetch(limit) { Float(limit) })
        end

        word :drain_on_shutdown, "Needs nothing: requests that the kernel has accepted are answered."
        word :shutdown_debug, "Needs nothing: the error log has the number of running requests; " \
          "QUIT writes the backtraces of all fibers to it."
        word :raise_exception_on_sigterm,
          "Has no counterpart: TERM raises nothing, and the status is 0 when no request was cancelled."
        word :restart_command, "Has no counterpart: USR2 starts the same command again."
        word :state_path, "Has no counterpart: `neverblock status` asks the socket that `control` names, " \
          "and `pid_file` has the process number."
        word :state_permission, "Has no counterpart: as `state_path`."

        word :activate_control_app, <<~TEXT, here: :control do |url = "auto", _options = {}|
          A unix socket becomes `control`, which the server's user alone may use, and so has no token; `pumactl`'s
          place is taken by `neverblock stop`, `restart`, `reload` and `status`. With `tcp://` there is none: `health`
          has probes and numbers for others.
        TEXT
          url = "unix://tmp/neverblock.sock" if url == "auto" && File.directory?(path("tmp"))
          file = url[%r{\Aunix:(?://)?([^@?][^?]*)}, 1]
          file && set(:control, path(file))
        end

        word :plugin, <<~TEXT, here: :sidecar do |name|
          `:tmp_restart`, `:solid_queue`, `:tailwindcss`, `:litestream` and `:systemd` are known (below). Others work
          inside of Puma, and are not loaded.
        TEXT
          plugin = Plugins::KNOWN[name.to_sym]
          plugin ? instance_exec(&plugin) : "works inside of Puma, and is not loaded"
        end

        word :solid_queue_mode, "A word of Solid Queue's plugin. Here it is always a process beside the server."
      end
    end
  end
end
