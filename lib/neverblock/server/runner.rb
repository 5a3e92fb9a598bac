# frozen_string_literal: true

require_relative "cluster/launch"
require_relative "cluster/sidecar"
require_relative "cluster/handover"
require_relative "cluster/trial"
require_relative "endpoints"
require_relative "heartbeat"
require_relative "loads"
require_relative "pid_file"
require_relative "places"
require_relative "restart_file"
require_relative "runner_table"
require_relative "systemd"

module NeverBlock
  class Server
    # Serves in a single process (`workers 0`, `bin/rails server`) until a signal ends it.
    #
    #   Runner.new(configuration).call { Server.new(load_app, configuration) }   # => true: no request was cancelled
    #
    # {RunnerTable} says what it does at a signal; its actions are methods here. Without `launch` it refuses USR1 and
    # USR2, unless the program handles them itself.
    # @api private
    class Runner
      SIGNALS = %w[TERM INT].freeze
      # Stop a process that uses its terminal in the background, so they are left to a process with a terminal.
      OF_TERMINALS = %w[TTIN TTOU].freeze
      LOADS = %w[USR1 USR2].freeze
      # Seconds for which idle connections stay open before a restart: closing at once could cross a request that is on
      # its way. The restart waits for them.
      KEEPALIVE_GRACE = 1

      # @param configuration [Configuration]
      # @param systemd [Systemd]
      # @param restart_file [RestartFile, nil]
      # @param launch [Cluster::Launch, nil] starts the program again for USR1 and USR2; nil: it can't be restarted
      # @param trial [Cluster::Trial] tells beforehand whether that program could start
      # @param succeeds [Boolean] whether its sockets come from the previous program in this process
      def initialize(configuration, systemd: Systemd.new({}), restart_file: nil, launch: nil,
        trial: Cluster::Trial.new(launch, configuration[:boot_timeout]), succeeds: false)
        @succeeds = succeeds
        @configuration = configuration
        @systemd = systemd
        @restart_file = restart_file
        @launch = launch
        @pid_file = PidFile.new(@configuration[:pid_file])
        @sidecars = @configuration[:sidecar].map { |command| Cluster::Sidecar.new(command, self) }
        @trial = trial
        @held = Places.new(configuration).held # now: the directory may be gone later, with an old release
        @loads = Loads.new
        @machine = Machine.new(RunnerTable, "booting", self)
        @signals = Thread::Queue.new
        @escalated = Thread::Queue.new
        @terminations = 0
      end

      # @yieldreturn [Server] with the app, whose loading may take long
      # @return [Boolean] whether no request was cancelled, and the program that was to follow, if any, could be started
      # @raise [BindError]
      # @raise [SignalException] if TERM or INT comes while the app loads
      def call
        @pid_file.write
        before = trap_all
        @server = load_app { yield }
        limit = @configuration[:worker_timeout]
        @heartbeat = Heartbeat.new(@server, limit, @loads, @sidecars) { |name| signalled(name) }
        @endpoints = Endpoints.new(@configuration, @heartbeat, $stderr)
        whole = serve
        failed = follow if @machine.state == "starting anew"
        say(whole ? "stopped" : "stopped; running requests were cancelled")
        whole && !failed
      ensure
        @server&.events&.leave_loop
        @server&.service&.take_back
        @pid_file.remove
        @loads.close("the server has ended")
        @endpoints&.stop(whole)
        before&.each { |name, handler| trap(name, handler || "DEFAULT") }
      end

      # @api private
      # @return [String] the directory in which sidecars run
      def directory = File.expand_path(@configuration[:directory] || Dir.pwd)

      # @api private
      # Something has come to pass that {RunnerTable} has a row for.
      # @param event [String]
      # @return [void]
      def on(event, ...) = @machine.on(event, ...)

      # @api private
      # @param message [String] for the error log
      # @param as [:info, :warn, :error]
      # @return [void]
      def say(message, as: :info) = @server.events.error_log.public_send(as, message)

      # ---- actions ----

      # @api private
      # Called in a signal handler while the app loads: interrupts the loading.
      # @return [void]
      # @raise [SignalException]
      def end_at_once(name) = raise(SignalException, name)

      # @api private
      # @return [void]
      def announce_ready
        @loads.over(:loaded, "the app has been loaded")
        tag = @configuration[:tag] || File.basename(Dir.pwd)
        Process.setproctitle("neverblock #{VERSION} (#{@server.addresses.join(", ")}) [#{tag}]")
        @systemd.tell("READY=1", "MAINPID=#{Process.pid}")
        @configuration.notes.each { |note| say(note) }
        if @succeeds && @configuration.set?(:bind)
          @server.service.binder.differences(@configuration.addresses).each { |text| say(text, as: :warn) }
        end
        places = @server.addresses.map { |uri| uri.sub("tcp:", "http:") }.join(" and ")
        say("NeverBlock #{VERSION}, Ruby #{RUBY_VERSION}, #{NeverBlock.engine.name}: #{tag} at #{places}")
        say(shallow, as: :warn) if shallow
        if @configuration.worker_count > 0
          say("workers #{@configuration.worker_count} counts for neverblock serve alone: this is one process")
        end
      end

      # @api private
      # Stops the server. A restart that has begun is given up.
      # @return [void]
      def drain(_name)
        delay = (@server.service.state == :serving) ? @configuration.drain_delay : 0
        @server.service.take_back
        @heartbeat.draining!
        @loads.close("the server is being stopped")
        @systemd.tell("STOPPING=1")
        @scope.spawn(name: "drain") do
          @escalated.pop(timeout: delay) if delay > 0
          tell_what_runs
          @server.service.stop(@configuration[:shutdown_timeout])
        end
      end

      # @api private
      # Cuts drain_delay short. {#signalled} has cancelled the running requests.
      # @return [void]
      def escalate(_name) = @escalated.close

      # @api private
      # Looks whether the next program could start, while everything is still served.
      # @return [void]
      def check(_name)
        @scope.spawn(name: "check") do
          reason = mistake
          reason ? on("check failed", reason) : on("checked")
        end
      end

      # @api private
      # The configuration may have changed since it was read.
      # @return [void]
      def check_again(_name) = @again = true

      # @api private
      # @return [void]
      def begin_anew
        say("starting anew; clients that come meanwhile wait")
        @server.service.hand_over(@configuration[:shutdown_timeout], keepalive_grace: KEEPALIVE_GRACE)
      end

      # @api private
      # Gives up a restart while everything is still served: the next program could not start.
      # @param reason [String]
      # @return [void]
      def keep_on(reason)
        message = "the program can't be started again; this one goes on: #{reason}"
        say(message, as: :error)
        @loads.over(:failed, message)
      end

      # @api private
      # @return [void]
      def reopen_logs(_name) = @server.reopen_logs

      # @api private
      # Called in the signal's handler: the loop may be blocked.
      # @return [void]
      def tell_backtraces(_name)
        log = @server&.events&.error_log || ErrorLog.early
        log.backtraces(@thread, Loops.all.find { |one| one.thread.equal?(@thread) }&.tasks || [])
      end

      # @api private
      # @param name [String]
      # @return [void]
      def refuse_workers(name) = say("#{name} has no effect: a single process has no workers (workers 0)", as: :warn)

      # @api private
      # @param words [String] how a sidecar ended; {Cluster::Sidecar} starts it again
      # @return [void]
      def start_again(words) = say("#{words}; it is started again", as: :warn)

      # @api private
      # Called in a signal handler while the app loads; the machine has noted the event.
      # @return [void]
      def later(_event) = nil

      private

      # @return [String, nil] why the next program could not start
      def mistake
        loop do
          @again = false
          @loads.begin
          reason = obstacle
          return reason unless @again
        end
      end

      # The control socket may ask for a restart where signals do not.
      def obstacle
        return "NeverBlock has not started it (Server#run). Stop it, and start it in its own way" unless @launch
        return "there is no directory #{@launch.directory}" unless File.directory?(@launch.directory)
        @trial.call(@held)
      end

      def load_app
        @loading = true
        yield
      ensure
        @loading = false # from here on signals are queued for the loop
      end

      def serve
        NeverBlock.run(exit: :cancel) do |scope|
          @scope = scope
          @endpoints.start_apart # first: if an address is taken, no client has connected in vain
          @server.start
          on("app loaded")
          scope.spawn(name: "heartbeat") { @heartbeat.run(@systemd) }
          scope.spawn(name: "signals") { process_signals }
          scope.spawn(name: "restart file") { @restart_file.watch { restart_file_touched } } if @restart_file
          @sidecars.each { |sidecar| scope.spawn(name: "sidecar") { sidecar.keep } }
          @server.service.wait.tap { @sidecars.each { |sidecar| sidecar.stop(@configuration[:shutdown_timeout]) } }
        end
      end

      def trap_all
        @thread = Thread.current
        @trapped = [*SIGNALS, "HUP", "QUIT", *LOADS, *(OF_TERMINALS unless $stdin.tty?)]
        @trapped.to_h { |name| [name, trap(name) { signalled(name) }] }.each do |name, own|
          trap(name, own) if !@launch && LOADS.include?(name) && Proc === own
        end
      end

      # A signal handler: nothing here may take a lock. The second TERM or INT cancels requests without waiting for the
      # loop. The third one is left to the kernel: Ruby's own handlers raise, and the app could rescue that.
      def signalled(name)
        return on(name, name) if @loading || name == "QUIT"
        @signals << name
        return unless SIGNALS.include?(name) && (@terminations += 1) == 2
        SIGNALS.each { |one| trap(one, "SYSTEM_DEFAULT") }
        @server.service&.stop(0)
      end

      def process_signals
        while (name = @signals.pop)
          on(name, name)
        end
      end

      def restart_file_touched
        say("#{@configuration[:restart_file]} was touched")
        @signals << "USR1"
      end

      # Replaces this program by the next one.
      # @return [Boolean, nil] true if it can't be started, nil if a signal says that none follows
      def follow
        Cluster::Handover.pass_on(@launch, @server.service.binder, @trapped) { [[], []] if @terminations.zero? }
      rescue SystemCallError => error
        say("the program can't be started again: #{error.message}", as: :error)
        true
      end

      def tell_what_runs
        requests, queued, streams = @server.stats.values_at(:in_flight, :queued, :streams)
        left = {"request" => requests + queued, "stream" => streams}.select { |_, count| count > 0 }
        return if left.empty?
        words = left.map { |word, count| "#{count} #{word}#{"s" if count > 1}" }.join(", ")
        say("stopping: #{words} left, for up to #{@configuration[:shutdown_timeout]} s; " \
          "a second signal cancels the rest")
      end

      # @return [String, nil] a warning if fibers have smaller stacks than configured
      def shallow
        wanted, got = @configuration[:stack_depth_vm], RubyVM::DEFAULT_PARAMS[:fiber_vm_stack_size]
        return unless wanted && got < wanted
        "requests have stacks of #{got / 1024} KiB, where stack_depth asks for #{wanted / 1024}: " \
          "start with neverblock serve, or set RUBY_FIBER_VM_STACK_SIZE=#{wanted} and " \
          "RUBY_FIBER_MACHINE_STACK_SIZE=#{@configuration[:stack_depth_machine] || wanted}"
      end
    end
  end
end
