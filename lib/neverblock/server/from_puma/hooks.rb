# frozen_string_literal: true

require_relative "hook"
require_relative "topic"

module NeverBlock
  class Server
    module FromPuma
      # Puma's hooks. Their blocks get the arguments that Puma would pass.
      # @api private
      module Hooks
        extend Topic

        TITLE = "Hooks"

        word :before_fork, <<~TEXT, here: :before_fork do |&block|
          The same: run once when the app is loaded, with workers alone. It runs in the template, and again in each
          new one; a thread that it starts lives there, and not in the supervisor.
        TEXT
          add(:before_fork, hook(block) { [nil] })
        end

        word(:before_worker_boot, "The same, with the worker's number; the app is loaded by then.",
          also: :on_worker_boot, here: :after_fork) do |key = nil, &block|
          add(:after_fork, hook(block, key) { |number| [number] })
        end

        word(:before_worker_shutdown, "The same, with the worker's number.", also: :on_worker_shutdown,
          here: :before_worker_exit) do |key = nil, &block|
          add(:before_worker_exit, hook(block, key) { |number| [number] })
        end

        word :before_worker_fork, <<~TEXT, also: :on_worker_fork
          Is not run: single forks have no hook. Work for all workers belongs in `before_fork`, work for each in
          `before_worker_boot`.
        TEXT
        word :after_worker_fork, "Is not run: as `before_worker_fork`.", also: :after_worker_boot
        word :after_worker_shutdown, "Is not run: the error log says how a worker ended."

        word :after_booted, <<~TEXT, also: :on_booted
          Is not run: it would be run by the supervisor, which has no app. To run a program beside the server, use
          `sidecar`; to wait for the start, use `/readyz` (`health`) or systemd's `READY=1`.
        TEXT
        word :after_stopped, "Is not run: run it after the command, or in systemd's `ExecStopPost=`.", also: :on_stopped
        word :before_restart, <<~TEXT, also: :on_restart
          Is not run: a new program inherits only the listening sockets, so nothing has to be closed before.
        TEXT
        word :before_refork, "Is not run: there is no `fork_worker`.", also: :on_refork
        word :after_refork, "Is not run: there is no `fork_worker`."
        word :before_thread_start, <<~TEXT, also: :on_thread_start
          Is not run: requests have fibers, on one thread. Work for each worker belongs in `before_worker_boot`.
        TEXT
        word :before_thread_exit, "Is not run: as `before_thread_start`.", also: :on_thread_exit

        private

        def hook(block, key = nil, &arguments)
          raise ArgumentError, "it takes a block" unless block
          unless [NilClass, String, Symbol].include?(key.class)
            raise ArgumentError, "its key #{key.inspect} is not a String or Symbol"
          end
          @hook_data ||= Hash.new { |all, name| all[name] = {} }
          Hook.new("#{@call.place}: #{@call}", block, arguments, key && @hook_data[key.to_sym])
        end
      end
    end
  end
end
