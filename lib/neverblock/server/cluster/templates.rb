# frozen_string_literal: true

require_relative "../app_error"
require_relative "template_process"

module NeverBlock
  class Server
    module Cluster
      # The templates of a cluster: the present one forks workers, a loading one may replace it, and earlier ones end
      # with their last worker.
      #
      #   template = templates.load(binder)  # waits until the app is loaded, or loading has failed
      #   templates.present = template
      #   templates.wait                     # => a template that can fork, as soon as there is one
      #   templates.dismiss_others
      # @api private
      class Templates
        # Seconds that a template gets to reap its workers.
        GRACE = 8

        # @return [TemplateProcess, nil] the one that forks new workers; it may have ended
        attr_reader :present

        # @return [Array<TemplateProcess>] those that have not ended
        attr_reader :all

        # @param supervisor [Supervisor]
        # @param launch [Launch]
        # @param timeout [Numeric] seconds for loading the app
        def initialize(supervisor, launch, timeout)
          @supervisor = supervisor
          @launch = launch
          @timeout = timeout
          @all = []
          @lock = Thread::Mutex.new
          @change = Thread::ConditionVariable.new
        end

        # Starts a template and waits until it has loaded the app.
        # @param binder [Binder] its sockets are handed to the template
        # @return [TemplateProcess] a ready one
        # @raise [AppError] if it does not become ready
        def load(binder)
          template = attend(TemplateProcess.start(binder.sockets.zip(binder.addresses).to_h, @launch))
          return template if template.wait_ready(@timeout)
          failure = why(template)
          template.signal(:KILL)
          raise AppError, failure
        rescue SystemCallError => error
          raise AppError, "its process can't be started: #{error.message}", cause: nil
        end

        # @param template [TemplateProcess] one that did not become ready
        # @return [String] the reason
        def why(template)
          return template.failure if template.failure
          unless template.ended?
            return "the app in #{@supervisor.directory} was not loaded within #{@timeout} s (boot_timeout)"
          end
          "its process has ended#{" (#{template.status})" if template.wait_status(1)} before the app was loaded, " \
            "without a reason; see standard error"
        end
        private :why

        # Receives its messages and reaps it from now on.
        # @param template [TemplateProcess]
        # @return [TemplateProcess]
        def attend(template)
          @all << template
          @supervisor.spawn(template.to_s) do
            template.listen { |message| @supervisor.template_said(template, message) }
            @supervisor.template_ended(template)
          ensure
            @all.delete(template)
          end
          @supervisor.spawn("#{template}: its status") { template.status = Process.wait2(template.pid).last.to_s }
          template
        end

        # @param template [TemplateProcess]
        def present=(template)
          template.tell({do: "reopen"}) # logs may have been renamed while it loaded
          @lock.synchronize do
            @present = template
            @change.broadcast
          end
        end

        # Waits for a template that can fork.
        # @return [TemplateProcess]
        def wait
          @lock.synchronize do
            @change.wait(@lock) until present?
            @present
          end
        end

        # @return [Boolean]
        def present? = !@present.nil? && !@present.ended?

        # @return [Array<TemplateProcess>] those that load the app
        def loading = @all.reject(&:ready?)

        # @return [void]
        def give_up_loading = loading.each { |template| template.signal(:KILL) }

        # @return [void]
        def dismiss_all = @all.each(&:dismiss)

        # Waits for the end of all, after their workers have ended.
        # @return [void]
        def wait_end
          @all.dup.each { |template| template.signal(:KILL) unless template.wait_end(GRACE) }
        end

        # Dismisses all but the present one; each ends with its last worker.
        # @return [void]
        def dismiss_others = @all.each { |template| template.dismiss unless template.equal?(@present) }
      end
    end
  end
end
