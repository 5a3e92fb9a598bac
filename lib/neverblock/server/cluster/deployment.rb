# frozen_string_literal: true

require_relative "../../clock"
require_relative "backoff"
require_relative "handover"

module NeverBlock
  class Server
    module Cluster
      # Deploys an app, at the start and on reload: a template loads it, and its workers replace the old ones. The
      # methods are actions of {SupervisorTable}, which says when each is done.
      # @api private
      class Deployment
        # Seconds for signals that have arrived to be processed before another program follows.
        LAST_WORD = 0.01

        # @param supervisor [#spawn, #on, #say, #binder, #directory, #endpoints, #sidecars, #held, #loads]
        # @param templates [Templates]
        # @param workers [Workers]
        # @param launch [Launch] of the program that may follow
        # @param systemd [Systemd]
        def initialize(supervisor, templates, workers, launch, systemd)
          @supervisor = supervisor
          @templates = templates
          @workers = workers
          @launch = launch
          @systemd = systemd
          @backoff = Backoff.new
        end

        # Loads the app in a new template, while the old workers serve.
        # @return [void]
        def load
          announce if @templates.present
          @supervisor.loads.begin
          @supervisor.spawn("load") do
            @supervisor.on("app loaded", @templates.load(@supervisor.binder))
          rescue AppError => error
            @supervisor.on("load failed", error)
          end
        end

        # @param template [TemplateProcess] the first one: all slots wait for it
        # @return [void]
        def begin_serving(template)
          @templates.present = template
          @supervisor.sidecars.start
        end

        # @param template [TemplateProcess]
        # @return [void]
        def replace_workers(template) = replace(template) { @supervisor.sidecars.restart }

        # As {#replace_workers}, after the previous program has had the app loaded.
        # @param template [TemplateProcess]
        # @return [void]
        def succeed(template)
          @supervisor.loads.begin
          @supervisor.sidecars.start
          replace(template)
        end

        # @param moved [Integer] number of workers that were replaced
        # @param all [Integer] number of slots
        # @return [void]
        def settle(moved, all)
          @supervisor.loads.over((moved < all) ? :failed : :loaded,
            "#{moved} of #{all} workers have been replaced#{"; the error log tells why" if moved < all}")
          @systemd.tell("READY=1")
          @templates.present? ? @backoff.reset : @supervisor.on("template ended")
        end

        # @param error [AppError, ConfigurationError, SystemCallError] why the app or the program could not be
        #   started
        # @return [void]
        def keep_old(error)
          message = "the app can't be loaded again; the old one stays: #{error.message}"
          @supervisor.say(message, as: :error)
          @supervisor.loads.over(:failed, message)
          @systemd.tell("READY=1")
          return if @templates.present?
          @supervisor.spawn("another attempt") do
            @backoff.wait
            @supervisor.on("template ended") unless @templates.present?
          end
        end

        # @param template [TemplateProcess] one that is no longer needed
        # @return [void]
        def discard(template) = template.signal(:KILL)

        # Replaces this program once the new one is known to start: its template has loaded the app, and has tried what
        # only a supervisor opens.
        # @param template [TemplateProcess]
        # @return [void]
        def hand_over(template)
          @supervisor.spawn("handing over") do
            failures = template.rehearse(@supervisor.held)
            next if @supervisor.draining? # since a signal that came during the rehearsal
            next fail(template, ConfigurationError.new(failures.join("; "))) if failures.any?
            @supervisor.say("the supervisor makes way for a new one")
            @supervisor.sidecars.stop
            @supervisor.loads.pass_on
            @supervisor.endpoints.stop
            Handover.pass_on(@launch, @supervisor.binder, Supervisor::SIGNALS) { left_behind(template) }
          rescue => error # whatever failed, this program goes on
            fail(template, error)
            @supervisor.sidecars.start
            @supervisor.endpoints.start
          end
        end

        private

        def fail(template, error)
          template.signal(:KILL)
          @supervisor.on("handover failed", error)
        end

        def replace(template)
          @templates.present = template
          @supervisor.spawn("replacement") do
            moved = @workers.replace(template)
            @templates.dismiss_others
            yield if block_given?
            all = @workers.slots.size
            @supervisor.say("#{moved} of #{all} workers have been replaced", as: (moved < all) ? :error : :info)
            @supervisor.on("workers replaced", moved, all)
          end
        end

        def announce
          @supervisor.say("loading the app again, in #{@supervisor.directory}")
          @systemd.tell("RELOADING=1",
            "MONOTONIC_USEC=#{Clock.nanoseconds / 1_000}")
        end

        # The new template comes last. A template that was killed a moment ago may still be listed, for its exit status.
        # @return [Array, nil] nil if a signal has begun the drain
        # @raise [AppError] if the new template has ended
        def left_behind(template)
          sleep LAST_WORD
          return if @supervisor.draining?
          raise AppError, "#{template} ended" if template.ended?
          # The new program would not know of these.
          @workers.all.each { |worker| worker.signal(:KILL) unless worker.ready? }
          [[*@templates.all.reject(&:ended?) - [template], template], @workers.all.select(&:ready?).reject(&:ended?),
            @supervisor.waiting]
        end
      end
    end
  end
end
