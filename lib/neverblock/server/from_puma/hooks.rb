# frozen_string_literal: true

require_relative "hook"
require_relative "topic"

module NeverBlock
  class Server
    module FromPuma
      # Puma's hooks. Their blocks get what Puma would give them.
      # @api private
      module Hooks
        extend Topic

        TITLE = "Hooks"

        word :before_fork, <<~TEXT, here: :before_fork do |&block|
          The same: run once when the app is loaded, with workers alone. It runs in the template, and again in each new one;
          a thread that it starts lives there, and not in the supervisor.
        TEXT
          add(:before_fork, hook(block) { [nil] })
        end

        word(:before_worker_boot, "The same, with the worker's number; the app is loaded by then.", also: :on_worker_boot, here: :after_fork) do |key = nil, &block|
          add(:after_fork, hook(block, key) { |number| [number] })
        end

        word(:before_worker_shutdown, "The same, with the worker's number.", also: :on_worker_shutdown, here: :before_worker_exit) do |key = nil, &block|
          add(:before_worker_exit, hook(block, key) { |number| [number] })
        end

        word :before_worker_fork, <<~TEXT, also: :on_worker_fork
          Is not run: forks are not announced one by one. What it does once for all belongs into `before_fork`, what it does
          for each into `before_worker_boot`.
        TEXT
        word :after_worker_fork, "Is not run: as `before_worker_fork`.", also: :after_worker_boot
        word :after_worker_shutdown, "Is not run: the error log tells how a worker has ended."

        word :after_booted, <<~TEXT, also: :on_booted
          Is not run: the supervisor, where it would be, has no app. A program that is to run beside the server is a `sidecar`;
          whoever waits for the start asks `/readyz` (`health`), or has systemd's `READY=1`.
        TEXT
        word :after_stopped, "Is not run: what is to happen after the end belongs behind the command, or into systemd's `ExecStopPost=`.", also: :on_stopped
        word :before_restart, <<~TEXT, also: :on_restart
          Is not run: a new program inherits nothing but the listening sockets, so there is nothing to close before.
        TEXT
        word :before_refork, "Is not run: there is no `fork_worker`.", also: :on_refork
        word :after_refork, "Is not run: there is no `fork_worker`."
        word :before_thread_start, <<~TEXT, also: :on_thread_start
          Is not run: requests have fibers, on one thread. What each worker needs belongs into `before_worker_boot`.
        TEXT
        word :before_thread_exit, "Is not run: as `before_thread_start`.", also: :on_thread_exit

        private

        def hook(block, key = nil, &arguments)
          raise ArgumentError, "it takes a block" unless block
          raise ArgumentError, "its key #{key.inspect} is no String or Symbol" unless [NilClass, String, Symbol].include?(key.class)
          @hook_data ||= Hash.new { |all, name| all[name] = {} }
          Hook.new("#{@call.place}: #{@call}", block, arguments, key && @hook_data[key.to_sym])
        end
      end
    end
  end
end
