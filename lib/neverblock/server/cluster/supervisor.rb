# frozen_string_literal: true

# Several processes; docs/architecture.md has the replacement of a worker:
#
#     supervisor.rb           signals, children; supervisor_table.rb: its states
#     deployment.rb           loads an app and replaces the workers
#     workers.rb              all workers; slot.rb: the place of one
#     worker_monitor.rb       replaces silent and grown workers
#     templates.rb            the processes that load the app and fork
#     sidecars.rb             programs beside the workers; sidecar.rb: one of them
#     handover.rb             one supervisor replaces another; launch.rb: how programs start
#     trial.rb                the next program reads its configuration before a single process makes way
#     backoff.rb              pauses between attempts
#
#     channel.rb              messages between the processes
#     child.rb                the supervisor's view of a process: template_process.rb, worker_process.rb
#     template.rb, worker.rb  these processes themselves
#     sockets.rb              the listening sockets that they inherit

require_relative "../binder"
require_relative "../endpoints"
require_relative "../events"
require_relative "../loads"
require_relative "../pid_file"
require_relative "../places"
require_relative "../restart_file"
require_relative "../systemd"
require_relative "deployment"
require_relative "handover"
require_relative "launch"
require_relative "sidecars"
require_relative "supervisor_table"
require_relative "templates"
require_relative "worker_monitor"
require_relative "workers"

module NeverBlock
  class Server
    module Cluster
      # The supervisor: keeps a number of workers serving one app. It never loads the app, so the app can't break it.
      #
      #   Supervisor.new(configuration, Launch.new(boot.command)).run   # => true
      #
      # {SupervisorTable} says what it does at a signal or at a child's end; its actions are methods here and in
      # {Deployment}.
      # @api private
      class Supervisor
        SIGNALS = %w[TERM INT USR1 USR2 HUP QUIT TTIN TTOU].freeze
        # Seconds between two checks whether all workers are ready.
        LOOK = 0.01
        # The machine's states in /stats; all others are serving, or down without a ready worker.
        STATES = {"booting" => :starting, "draining" => :draining}.freeze

        # @return [Binder]
        attr_reader :binder

        # @return [Endpoints]
        attr_reader :endpoints

        # @return [Sidecars]
        attr_reader :sidecars

        # @return [Loads]
        attr_reader :loads

        # @return [Hash{Symbol=>String}] files and addresses that only one supervisor can have open
        attr_reader :held

        # @param configuration [Configuration]
        # @param launch [Launch] starts the templates and the program that replaces this one
        # @param systemd [Systemd]
        def initialize(configuration, launch, systemd: Systemd.new({}))
          @configuration = configuration
          @launch = launch
          @systemd = systemd
          @events = Events.new(configuration)
          @endpoints = Endpoints.new(configuration, self, $stderr)
          @pid_file = PidFile.new(configuration[:pid_file])
          @held = Places.new(configuration).held # now: the directory may be gone later, with an old release
          @signals = Thread::Queue.new
          @escalated = Thread::Queue.new
          @loads = Loads.new
          @templates = Templates.new(self, launch, configuration[:boot_timeout])
          @workers = Workers.new(configuration, self, @templates)
          @sidecars = Sidecars.new(configuration, self)
          @deployment = Deployment.new(self, @templates, @workers, launch, systemd)
        end

        # Serves until a signal ends it.
        # @param handover [Handover, nil] from the previous program in this process
        # @return [Boolean] whether no request was cancelled
        # @raise [BindError]
        # @raise [AppError] if the app can't be loaded
        def run(handover = nil)
          @pid_file.write
          @restart_file = RestartFile.new(@configuration[:restart_file], directory)
          @binder = handover&.binder || Binder.for(@configuration, given: @systemd.sockets).open
          changes = (handover && @configuration.set?(:bind)) ? @binder.differences(@configuration.addresses) : []
          handover = nil if handover&.templates&.empty? # from a single process, which hands over sockets only
          before = SIGNALS.to_h { |name| [name, trap(name) { @signals << name }] }
          @configuration.notes.each { |note| say(note) }
          changes.each { |text| say(text, as: :warn) }
          @machine = Machine.new(SupervisorTable, handover ? "reloading" : "booting", self, @deployment)
          NeverBlock.run(exit: :cancel, on_error: @events.error_log.method(:task_failed)) do |scope|
            @scope = scope
            @endpoints.start
            handover ? succeed(handover) : boot
            attend
            process_signals
          end
        ensure
          before&.each { |name, handler| trap(name, handler || "DEFAULT") }
          @binder&.close
          @pid_file.remove
        end

        # Does what {SupervisorTable} says about an event.
        # @param event [String]
        # @return [void]
        def on(event, ...) = @machine.on(event, ...)

        # @return [String, nil] the signal that was put off
        def waiting = @machine.waiting

        # @return [String] the app's directory
        def directory = @launch.directory

        # @return [Array<WorkerProcess>]
        def workers = @workers.present

        # @return [Boolean] false when only a restart of this process can help
        def live? = STATES.key?(@machine.state) || @workers.live?

        # @return [Boolean] whether a balancer should send requests
        def ready? = !STATES.key?(@machine.state) && @workers.ready?

        # @return [Boolean] whether the server is being stopped
        def draining? = @machine.state == "draining"

        # @return [Hash{Symbol=>Object}] documented in docs/operations.md
        def stats
          {state: STATES.fetch(@machine.state) { @workers.ready? ? :serving : :down },
           pid: Process.pid, version: VERSION, ruby: RUBY_VERSION, engine: NeverBlock.engine.name,
           addresses: @binder.addresses, directory: directory, load: @loads.to_h, workers: @workers.all.map(&:to_h),
           sidecars: @sidecars.stats}
        end

        # Queues a signal as if it had been sent.
        # @param name [String]
        # @return [void]
        def signalled(name) = @signals << name

        # Starts a deployment and waits for its result.
        # @param name [String] USR1 or USR2
        # @return [Array(Symbol, String), nil] as Loads#ask; nil: the next program will have the result
        def load_anew(name)
          answer = @loads.ask
          signalled(name)
          answer.pop
        end

        # @return [Array(Symbol, String), nil] the result of the last deployment
        def last_load = @loads.join(!waiting.nil?).pop

        # Opens the logs again, in all processes.
        # @return [Array<String>] files and addresses that could not be opened
        def reopen
          answering = workers.select(&:ready?)
          others = @workers.all - answering # leaving, starting, forking
          [*others, *@templates.present].each { |other| other.tell({do: "reopen"}) }
          [*@events.reopen, *NeverBlock.concurrently(answering, &:reopen_logs).flatten].uniq
        end

        # Lets all workers run a command of the app.
        # @param name [String]
        # @param argument [String]
        # @return [Array<Array(String, Boolean, String)>] of each worker whether it has succeeded, and its text
        def command(name, argument)
          NeverBlock.concurrently(workers.select(&:ready?)) { |worker| [worker.to_s, *worker.command(name, argument)] }
        end

        # Starts a task that ends with the supervisor.
        # @param name [String]
        # @return [Task]
        def spawn(name, &) = @scope.spawn(name:, &)

        # @param message [String] for the error log
        # @param as [:info, :warn, :error] :warn for a problem that the server corrects itself
        # @return [void]
        def say(message, as: :info) = @events.error_log.public_send(as, message)

        # @param worker [WorkerProcess] the one to replace
        # @return [Boolean] whether a new one serves in its place
        def recycle(worker) = @workers.recycle(worker)

        # @param template [TemplateProcess]
        # @param message [Hash{Symbol=>Object}]
        # @return [void]
        def template_said(template, message)
          case message[:event]
          when "loaded" then template.ready!
          when "failed" then template.failure = message[:message]
          when "rehearsed" then template.rehearsed(message[:failures])
          when "forked", "ended" then template.tells(message)
          when "trouble" then say(message[:message], as: :error)
          end
        end

        # The app is loaded again if it was the present template: without one no worker can be replaced.
        # @param template [TemplateProcess]
        # @return [void]
        def template_ended(template)
          return if draining? || !template.equal?(@templates.present)
          say("#{template.exit_report}: without a template no worker can be replaced; the app is loaded again",
            as: :error)
          on("template ended")
        end

        # ---- actions ----

        # Stops the server: accepts connections for `drain_delay`, then none; running requests finish.
        # @return [void]
        def drain
          @systemd.tell("STOPPING=1")
          @loads.close("the server is being stopped")
          @templates.give_up_loading
          spawn("drain") do
            @escalated.pop(timeout: @configuration.drain_delay) if @announced # a balancer sees it at /readyz
            @binder.close # the workers close theirs too: clients are refused instead of waiting in vain
            @templates.dismiss_all
            @whole = @workers.stop
            @sidecars.stop
            @templates.wait_end
            @endpoints.stop(@whole)
          ensure
            @signals << nil
          end
        end

        # Cancels running requests. The next signal ends this process, and the workers end with it.
        # @return [void]
        def escalate
          %w[TERM INT].each { |name| trap(name, "SYSTEM_DEFAULT") }
          @escalated.close
          @workers.all.each(&:escalate)
        end

        # @param error [AppError] why the app could not be loaded at the start
        # @return [void]
        def give_up(error)
          @failure = error
          drain
        end

        # @return [void]
        def reopen_logs = spawn("logs") { reopen }

        # Workers, and templates that load the app, write what they do.
        # @return [void]
        def ask_for_backtraces = [*@workers.all, *@templates.loading].each { |child| child.signal(:QUIT) }

        # @return [void]
        def add_worker = @workers.add

        # @return [void]
        def remove_worker = @workers.remove

        # @param worker [WorkerProcess] one that received a TERM
        # @return [void]
        def replace_worker(worker)
          spawn("#{worker} was asked to end") { recycle(worker) } unless worker.leaving?
        end

        # Writes how a worker ended. Its slot starts another one.
        # @param worker [WorkerProcess] one that ended unasked
        # @return [void]
        def report_exit(worker)
          spawn("#{worker} has ended") do
            time = " when the app has been loaded" unless @templates.present?
            say("#{worker.exit_report}; another one is started#{time}", as: :warn)
          end
        end

        # @param words [String] how a sidecar ended; {Sidecar} starts it again
        # @return [void]
        def start_again(words) = say("#{words}; it is started again", as: :warn)

        # @return [void]
        def announce_ready
          @loads.over(:loaded, "the app has been loaded") if @machine.state == "serving"
          @announced = true
          tag = @configuration[:tag] || File.basename(directory)
          Process.setproctitle("neverblock #{VERSION} (#{@binder.addresses.join(", ")}) [#{tag}]")
          @systemd.tell("READY=1", "MAINPID=#{Process.pid}")
          say("NeverBlock #{VERSION}, Ruby #{RUBY_VERSION}, #{NeverBlock.engine.name}, " \
            "#{@workers.slots.size} worker#{"s" if @workers.slots.size > 1}: " \
            "#{tag} at #{@binder.addresses.map { |uri| uri.sub("tcp:", "http:") }.join(" and ")}")
        end

        # @return [void]
        def later(_event) = say("the app is loaded once more, when this has been done")

        private

        def boot
          @configuration.worker_count.times { @workers.add } # each slot waits for the template
          @deployment.load
        end

        # The last template belongs to this program; the previous one has waited until it was ready, and has stopped the
        # sidecars.
        def succeed(handover)
          handover.templates.each { |template| @templates.attend(template) }
          @workers.adopt(handover)
          reopen_logs # a HUP during the handover was ignored
          on(handover.later) if handover.later
          @deployment.succeed(handover.templates.last)
        end

        def attend
          spawn("announcement") do
            sleep LOOK until @workers.complete?
            on("all workers serve")
          end
          spawn("worker monitor") { WorkerMonitor.new(@configuration, self).run }
          spawn("restart file") { @restart_file.watch { restart_file_touched } }
          spawn("watchdog") { keep_watchdog } if @systemd.watchdog
        end

        # Processes signals until the drain has ended.
        def process_signals
          while (name = @signals.pop)
            on(name)
          end
          raise @failure if @failure
          say(@whole ? "stopped" : "stopped; running requests were cancelled")
          @whole
        end

        # During a load the file is looked at again later: the load may have begun before the change.
        def restart_file_touched
          return unless @machine.state == "serving"
          say("#{@configuration[:restart_file]} was touched")
          signalled("USR1")
        end

        def keep_watchdog
          loop do
            @systemd.tell("WATCHDOG=1") if live?
            sleep @systemd.watchdog
          end
        end
      end
    end
  end
end
