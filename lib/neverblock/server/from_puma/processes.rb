# frozen_string_literal: true

require_relative "topic"

module NeverBlock
  class Server
    module FromPuma
      # Puma's words for its workers.
      # @api private
      module Processes
        extend Topic

        TITLE = "Processes"

        word :workers, <<~TEXT, here: :workers do |count|
          The same, `WEB_CONCURRENCY` included; `:auto` needs no gem, and respects a container's share of the
          processors.
        TEXT
          set(:workers, (count.to_s == "auto") ? :auto : Integer(count || 0))
        end

        word :preload_app!, <<~TEXT do |answer = true|
          The template always loads the app once, and forks. With `preload_app! false` each worker of Puma loads it;
          here workers share what the app opens while it loads: close it in `before_fork`.
        TEXT
          answer ? "as it is here: the template loads the app, and forks the workers" : nil
        end

        word :prune_bundler, "Needs nothing: the supervisor never loads the app, " \
          "and a new template uses the current Gemfile.lock."
        word :extra_runtime_dependencies, "Needs nothing: as `prune_bundler`."
        word :fork_worker, <<~TEXT
          Needs nothing: workers are forked from the template, which serves no requests and does not grow. `recycle`
          replaces workers that have grown.
        TEXT
        word :worker_check_interval, "Needs nothing: the supervisor notices a worker's end at once."

        word(:worker_timeout,
          "The same; the worker writes its backtraces first, and is not replaced while a debugger is attached.",
          here: :worker_timeout) do |seconds|
          set(:worker_timeout, Integer(seconds))
        end

        word(:worker_boot_timeout, "The same under another name, for the template too.",
          here: :boot_timeout) do |seconds|
          set(:boot_timeout, Integer(seconds))
        end

        word(:worker_shutdown_timeout, <<~TEXT, here: :shutdown_timeout) do |seconds|
          The seconds for running requests; with `force_shutdown_after` too, the smaller number counts. Then they are
          cancelled, and answered with 503 where nothing was sent.
        TEXT
          shut_down_within(Integer(seconds))
        end

        word :worker_culling_strategy, "Has no counterpart: TTOU ends the worker with the highest number."
        word :silence_single_worker_warning, "Needs nothing: there is no such warning."
        word :silence_fork_callback_warning, "Needs nothing: there is no such warning."
        word :cluster, "The same: the block is run if there are workers." do |&block|
          raise ArgumentError, "it takes a block" unless block
          false
        end
        word :single, "The same: the block is run if there are none." do |&block|
          raise ArgumentError, "it takes a block" unless block
          false
        end

        private

        def shut_down_within(seconds)
          @shutdown = [@shutdown, seconds].compact.min
          set(:shutdown_timeout, @shutdown)
        end
      end
    end
  end
end
