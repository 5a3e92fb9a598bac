# frozen_string_literal: true

require_relative "../binder"
require_relative "../endpoints"
require_relative "../events"
require_relative "../pid_file"
require_relative "../restart_file"
require_relative "../systemd"
require_relative "launch"
require_relative "reloads"
require_relative "sidecar"
require_relative "slot"
require_relative "succession"
require_relative "templates"
require_relative "watch"

module NeverBlock
  class Server
    module Cluster
      # Keeps a number of workers serving one app. It never loads the app, so nothing in it can break this process.
      #
      #   Supervisor.new(configuration, Launch.new(boot.command)).run   # => true
      #
      # TERM and INT end it; USR1 loads the app anew and replaces the workers one by one; USR2 replaces this program first,
      # in the same process; HUP opens the logs again; TTIN and TTOU make it one more or one less.
      # @api private
      class Supervisor
        SIGNALS = %w[TERM INT USR1 USR2 HUP TTIN TTOU].freeze

        # Seconds after which the readiness of all workers is noticed at the latest.
        LOOK = 0.01

        # @return [Numeric] seconds that a template, and a worker, have until they are ready
        attr_reader :boot_timeout

        # @param configuration [Configuration]
        # @param launch [Launch] of the templates, and of the program that follows this one
        # @param systemd [Systemd]
        def initialize(configuration, launch, systemd: Systemd.new({}))
          @configuration = configuration
          @launch = launch
          @systemd = systemd
          @boot_timeout = configuration[:boot_timeout]
          @events = Events.new(configuration)
          @endpoints = Endpoints.new(configuration, self, $stderr)
          @pid_file = PidFile.new(configuration[:pid_file])
          @signals = Thread::Queue.new
          @slots = []
          @leaving = {} # workers, and who waits for their end
          @templates = Templates.new(self, launch, @boot_timeout)
          @reloads = Reloads.new(self, @templates)
          @sidecars = []
          @state = :starting
        end

        # Serves until a signal ends it.
        # @param succession [Succession, nil] from the program that was here before
        # @return [Boolean] whether it served, and nothing was cut short
        # @raise [BindError]
        # @raise [CLI::AppError] if the app can't be loaded
        def run(succession = nil)
          @pid_file.write
          @restart_file = RestartFile.new(@configuration[:restart_file], directory)
          @binder = succession&.binder || Binder.for(@configuration, given: @systemd.sockets).open
          before = SIGNALS.to_h { |name| [name, trap(name) { @signals << name }] }
          @configuration.notes.each { |note| say(note) }
          NeverBlock.run(exit: :cancel, on_error: @events.error_log.method(:task_failed)) do |scope|
            @scope = scope
            @endpoints.start
            succession ? succeed(succession) : begin_anew
            attend
            obey
            raise @failure if @failure
            end_all
          end
        ensure
          before&.each { |name, handler| trap(name, handler || "DEFAULT") }
          @binder&.close
          @pid_file.remove
        end

        # @api private
        # @return [TemplateProcess] for new workers; where it has ended, the one that follows it is waited for
        def template = @templates.wait

        # @api private
        # @param slot [Slot]
        # @param template [TemplateProcess]
        # @return [WorkerProcess]
        def start_worker(slot, template)
          ours, theirs = Channel.pair
          worker = attend_worker(ours, slot, template)
          template.tell({do: "fork", slot: slot.number}, theirs.io)
          theirs.close
          worker
        end

        # @return [String] where the app is
        def directory = @launch.directory

        # @return [Array<WorkerProcess>]
        def workers = @slots.filter_map(&:worker)

        # @return [Boolean] false when only a new process can help
        def live? = @state != :serving || workers.any? { |worker| !worker.leaving? }

        # @return [Boolean] whether requests should be sent
        def ready? = @state == :serving && workers.any? { |worker| worker.ready? && !worker.leaving? }

        # @return [Hash{Symbol=>Object}] docs/operations.md has them
        def stats
          {state: @state, pid: Process.pid, version: VERSION, ruby: RUBY_VERSION, engine: NeverBlock.engine.name,
           addresses: @binder.addresses, directory: directory, workers: [*workers, *@leaving.keys].map(&:to_h)}
        end

        # @param name [String] of a signal, that nobody need have sent
        # @return [void]
        def signalled(name) = @signals << name

        # @api private
        # Others serve in its place; it finishes its requests, for which the end of all waits.
        # @param worker [WorkerProcess]
        # @return [void]
        def retire(worker, farewell: 0) = leave(worker) { worker.stop(farewell:) }

        # @api private
        # @return [Task]
        def meanwhile(name, &) = @scope.spawn(name:, &)

        # @api private
        # @param message [String] for the error log
        def say(message) = @events.error_log.info(message)

        # @api private
        # @param worker [WorkerProcess] that a fresh one is to replace
        def recycle(worker) = worker.slot.replace(template)

        # @api private
        # @param template [TemplateProcess]
        # @param message [Hash{Symbol=>Object}] from it
        # @return [void]
        def template_said(template, message)
          case message[:event]
          when "loaded" then template.ready!
          when "failed" then template.failure = message[:message]
          when "forked", "ended" then template.tells(message)
          when "trouble" then say(message[:message])
          end
        end

        # @api private
        # Without a template no worker can be replaced.
        # @param template [TemplateProcess]
        # @return [void]
        def template_ended(template)
          return if @state == :draining || !template.equal?(@templates.present)
          @events.error_log.error("#{template.obituary}: without a template no worker can be replaced; the app is loaded anew")
          @reloads.heal
        end

        # @api private
        # @param kind [Symbol] :reload, :restart; :replace: it is loaded already
        # @return [void]
        def load_anew(kind)
          return boot if kind == :boot
          return replace_all if kind == :replace
          say("loading the app anew, in #{directory}")
          @systemd.tell("RELOADING=1", "MONOTONIC_USEC=#{Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)}")
          template = @templates.load(@binder)
          if @state == :draining then template.signal(:KILL)
          elsif !template.ready? then keep_old(template)
          elsif kind == :restart then make_way(template)
          else move_to(template)
          end
          @systemd.tell("READY=1") unless @state == :draining
        end

        private

        def begin_anew
          @configuration.worker_count.times { add } # they wait for the template
          @reloads.ask(:boot)
        end

        # The app is loaded for the first time.
        def boot
          template = @templates.load(@binder)
          return if @state == :draining
          return give_up(template) unless template.ready?
          @templates.present = template
          start_sidecars
        end

        def give_up(template)
          @failure = CLI::AppError.new(template.failure)
          @signals << "TERM"
        end

        # The last template is the new program's own, for which the old one has waited. Sidecars have ended with it.
        def succeed(succession)
          succession.templates.each { |template| @templates.attend(template) }
          @templates.present = succession.templates.last
          succession.each_worker do |number, template, channel, pid, leaving|
            slot = leaving ? Slot.new(number, self) : @slots[number] ||= Slot.new(number, self)
            worker = attend_worker(channel, slot, template)
            worker.pid = pid
            worker.ready!
            next slot.worker = worker unless leaving
            worker.leaving!
            leave(worker) { worker.wait_stopped }
          end
          @slots.compact!
          @slots.each { |slot| keep(slot) }
          add while @slots.size < @configuration.worker_count
          remove while @slots.size > @configuration.worker_count
          start_sidecars
          reopen_logs # a HUP meanwhile was not heard
          @reloads.ask(:replace)
        end

        def attend
          meanwhile("greeting") { greet }
          meanwhile("reloads") { @reloads.run }
          meanwhile("watch") { Watch.new(@configuration, self).run }
          meanwhile("restart file") { @restart_file.watch { restart_file_touched } }
          meanwhile("watchdog") { keep_watchdog } if @systemd.watchdog
        end

        def obey
          loop do
            case @signals.pop
            when "TERM", "INT" then return
            when "USR1" then @reloads.ask(:reload)
            when "USR2" then @reloads.ask(:restart)
            when "HUP" then reopen_logs
            when "TTIN" then add
            when "TTOU" then remove
            end
          end
        end

        # ---- templates and workers ----
        def attend_worker(channel, slot, template)
          worker = WorkerProcess.new(channel, slot:, template:, timeout: @configuration[:shutdown_timeout])
          template&.workers&.<<(worker)
          meanwhile(worker.to_s) { worker.listen { |message| worker_said(worker, message) } }
          worker
        end

        def leave(worker)
          @leaving[worker] = meanwhile("#{worker} ends") do
            whole = yield
            @cut = true if @state == :draining && !whole
          ensure
            @leaving.delete(worker)
          end
        end

        def worker_said(worker, message)
          worker.heard!(message)
          case message[:event]
          when "ready"
            worker.pid = message[:pid]
            worker.ready!
          when "asked" # TERM, to the worker itself
            meanwhile("#{worker} was asked to end") { recycle(worker) } unless worker.leaving?
          when "full", "room" then worker.full = message[:event] == "full"
          end
          spread
        end

        # A full worker takes no connections while another one has room.
        def spread
          serving = workers.select { |worker| worker.ready? && !worker.leaving? }
          room = serving.any? { |worker| !worker.full }
          serving.each { |worker| worker.stand_back(worker.full && room || false) }
        end

        # ---- a new app ----
        # While the app is being loaded it has to wait: that may have begun too early for it.
        def restart_file_touched
          return if @reloads.busy?
          say("#{@configuration[:restart_file]} was touched")
          signalled("USR1")
        end

        def move_to(template)
          @templates.present = template
          replace_all
          @sidecars.each(&:restart)
        end

        def replace_all
          template = @templates.present
          moved = @slots.count { |slot| slot.replace(template) }
          @templates.dismiss_others
          say("#{moved} of #{@slots.size} workers have been replaced")
        end

        def keep_old(template)
          template.signal(:KILL)
          @events.error_log.error("the app can't be loaded anew; the old one goes on: #{template.failure}")
        end

        # The new program is known to start: its template has.
        def make_way(template)
          say("the supervisor makes way for a new one")
          @sidecars.each { |sidecar| sidecar.stop(@configuration[:shutdown_timeout]) }
          @endpoints.stop
          Succession.pass_on(@launch, @binder, SIGNALS) do
            sleep LOOK # what has been signalled is obeyed
            [[*@templates.all - [template], template], [*workers.select(&:ready?), *@leaving.keys].reject(&:ended?)] unless @state == :draining
          end
        rescue SystemCallError => error
          keep_old(template.tap { |one| one.failure = error.message })
          @endpoints.start
          start_sidecars
        end

        def start_sidecars
          @sidecars = @configuration[:sidecar].map { |command| Sidecar.new(command, self) }
          @sidecars.each { |sidecar| meanwhile("sidecar") { sidecar.keep } }
        end

        # ---- more, less, logs, the end ----
        def add
          slot = Slot.new(@slots.size, self)
          @slots << slot
          keep(slot)
        end

        def keep(slot) = meanwhile("slot #{slot.number}") { slot.keep }

        def remove
          return say("there is one worker left, which stays; TERM ends it all") if @slots.size == 1
          @slots.pop.close&.then { |worker| retire(worker) }
        end

        def reopen_logs
          @events.reopen
          workers.each { |worker| worker.tell({do: "reopen"}) }
        end

        def greet
          sleep LOOK until @slots.all? { |slot| slot.worker&.ready? }
          @state = :serving if @state == :starting
          Process.setproctitle("neverblock #{VERSION} (#{@binder.addresses.join(", ")}) [#{@configuration[:tag] || File.basename(directory)}]")
          @systemd.tell("READY=1", "MAINPID=#{Process.pid}")
          say("NeverBlock #{VERSION}, Ruby #{RUBY_VERSION}, #{NeverBlock.engine.name}, #{@slots.size} workers: " \
            "#{@configuration[:tag] || File.basename(directory)} at #{@binder.addresses.map { |uri| uri.sub("tcp:", "http:") }.join(" and ")}")
        end

        def keep_watchdog
          loop do
            @systemd.tell("WATCHDOG=1") if live?
            sleep @systemd.watchdog
          end
        end

        # A second signal cancels what runs; a third one ends this process, and the workers follow.
        def end_all
          delay = (@state == :serving) ? @configuration.drain_delay : 0
          @state = :draining
          @systemd.tell("STOPPING=1")
          @templates.give_up_loading
          hurry = meanwhile("hurry") do
            await_termination
            SIGNALS.first(2).each { |name| trap(name, "SYSTEM_DEFAULT") }
            [*workers, *@leaving.keys].each(&:hurry)
          end
          hurry.join(delay) # accepting: a balancer learns from /readyz
          @binder.close # the workers close theirs, too: a client is refused, where it would wait for nobody
          @templates.dismiss_all
          whole = NeverBlock.concurrently(@slots, &:stop).all?
          @leaving.values.each(&:join) # with one that came to serve as its slot was closed
          whole &&= !@cut
          hurry.cancel
          @sidecars.each { |sidecar| sidecar.stop(@configuration[:shutdown_timeout]) }
          @templates.wait_end
          @endpoints.stop
          say(whole ? "stopped" : "stopped; running requests were cancelled")
          whole
        end

        def await_termination
          nil until %w[TERM INT].include?(@signals.pop)
        end
      end
    end
  end
end
