# frozen_string_literal: true

require_relative "cluster/sidecar"
require_relative "endpoints"
require_relative "heartbeat"
require_relative "pid_file"
require_relative "restart_file"
require_relative "systemd"

module NeverBlock
  class Server
    # Serves in the foreground until a signal ends it.
    #
    #   Runner.new(server).call   # => true: every request came to its end
    #
    # TERM and INT end it; HUP opens the logs again; USR1 and USR2 start the program anew, where it is known how: clients
    # that come meanwhile wait.
    # @api private
    class Runner
      SIGNALS = %w[TERM INT].freeze
      # Seconds that connections which ask nothing get before a new start, which waits for them meanwhile: a close could
      # cross what a client is just sending.
      FAREWELL = 1

      # @param server [Server]
      # @param systemd [Systemd]
      # @param restart_file [RestartFile, nil]
      # @yield starts the program anew, given a binder whose sockets it gets, the signals that have handlers, and a block as
      #   {Cluster::Succession.pass_on} takes it; returns only if it can't
      def initialize(server, systemd: Systemd.new({}), restart_file: nil, &start_anew)
        @server = server
        @configuration = server.configuration
        @systemd = systemd
        @restart_file = restart_file
        @start_anew = start_anew
        @heartbeat = Heartbeat.new(server, @configuration[:worker_timeout]) { |name| signalled(name) }
        @endpoints = Endpoints.new(@configuration, @heartbeat, $stderr)
        @pid_file = PidFile.new(@configuration[:pid_file])
        @sidecars = @configuration[:sidecar].map { |command| Cluster::Sidecar.new(command, self) }
        @signals = Thread::Queue.new
        @terminations = 0
      end

      # @return [Boolean] whether nothing was cut short
      # @raise [BindError]
      def call
        @pid_file.write
        before = nil
        whole = NeverBlock.run(exit: :cancel) do |scope|
          @server.start
          before = trap_all
          Thread.new { @endpoints.start }.value # with a loop of their own, that does not stand still with this one
          announce
          scope.spawn(name: "heartbeat") { @heartbeat.run(@systemd) }
          scope.spawn(name: "signals") { obey }
          scope.spawn(name: "restart file") { @restart_file.watch { restart_file_touched } } if @restart_file
          @sidecars.each { |sidecar| scope.spawn(name: "sidecar") { sidecar.keep } }
          @server.service.wait.tap { @sidecars.each { |sidecar| sidecar.stop(@configuration[:shutdown_timeout]) } }
        end
        start_anew if @anew
        @server.service.take_back
        say(whole ? "stopped" : "stopped; running requests were cancelled")
        whole
      ensure
        @endpoints.stop
        before&.each { |name, handler| trap(name, handler || "DEFAULT") }
        @pid_file.remove
      end

      # @api private
      # @return [String] where sidecars run
      def directory = File.expand_path(@configuration[:directory] || Dir.pwd)

      # @api private
      # @param message [String] for the error log
      def say(message) = @server.events.error_log.info(message)

      private

      def trap_all
        @trapped = [*SIGNALS, "HUP", *(%w[USR1 USR2] if @start_anew)]
        @trapped.to_h { |name| [name, trap(name) { signalled(name) }] }
      end

      # In a signal's handler: nothing here may take a lock. The second one need not wait for the loop, and a third one is for
      # the kernel: Ruby's own handlers raise, and what runs could rescue that.
      def signalled(name)
        @signals << name
        return unless SIGNALS.include?(name) && (@terminations += 1) == 2
        SIGNALS.each { |one| trap(one, "SYSTEM_DEFAULT") }
        @server.service.stop(0)
      end

      def obey
        loop do
          case @signals.pop
          when "HUP" then @server.reopen_logs
          when "USR1", "USR2" then begin_anew
          else
            wind_down
            return
          end
        end
      end

      # A new start is no longer wanted, whether it was before.
      def wind_down
        @anew = false
        @server.service.take_back
        @heartbeat.draining!
        @systemd.tell("STOPPING=1")
        delay = (@server.service.state == :serving) ? @configuration.drain_delay : 0
        @signals.pop(timeout: delay) if delay > 0 # cut short by a second signal
        tell_what_runs
        @server.service.stop(@configuration[:shutdown_timeout])
      end

      def restart_file_touched
        say("#{@configuration[:restart_file]} was touched")
        @signals << "USR1"
      end

      def begin_anew
        @anew = true
        say("starting anew; clients that come meanwhile wait")
        @server.service.hand_over(@configuration[:shutdown_timeout], farewell: FAREWELL)
      end

      def start_anew
        @start_anew.call(@server.service.binder, @trapped) { [[], []] if @terminations.zero? }
      rescue SystemCallError => error
        say("the program can't be started anew: #{error.message}")
      end

      def tell_what_runs
        requests, queued, streams = @server.stats.values_at(:in_flight, :queued, :streams)
        left = {"request" => requests + queued, "stream" => streams}.select { |_, count| count > 0 }
        return if left.empty?
        words = left.map { |word, count| "#{count} #{word}#{"s" if count > 1}" }.join(", ")
        say("stopping: #{words} left, for up to #{@configuration[:shutdown_timeout]} s; a second signal cancels what is left")
      end

      def announce
        tag = @configuration[:tag] || File.basename(Dir.pwd)
        Process.setproctitle("neverblock #{VERSION} (#{@server.addresses.join(", ")}) [#{tag}]")
        @systemd.tell("READY=1", "MAINPID=#{Process.pid}")
        @configuration.notes.each { |note| say(note) }
        say("NeverBlock #{VERSION}, Ruby #{RUBY_VERSION}, #{NeverBlock.engine.name}: #{tag} at #{@server.addresses.map { |uri| uri.sub("tcp:", "http:") }.join(" and ")}")
        say(shallow) if shallow
        say("workers #{@configuration.worker_count} counts for neverblock serve alone: this is one process") if @configuration.worker_count > 0
      end

      # @return [String, nil] a warning where fibers have less of a stack than was asked for
      def shallow
        wanted, got = @configuration[:stack_depth_vm], RubyVM::DEFAULT_PARAMS[:fiber_vm_stack_size]
        return unless wanted && got < wanted
        "requests have stacks of #{got / 1024} KiB, where stack_depth asks for #{wanted / 1024}: start with neverblock serve, " \
          "or set RUBY_FIBER_VM_STACK_SIZE=#{wanted} and RUBY_FIBER_MACHINE_STACK_SIZE=#{@configuration[:stack_depth_machine] || wanted}"
      end
    end
  end
end
