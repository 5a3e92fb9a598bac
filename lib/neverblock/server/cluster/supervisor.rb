# frozen_string_literal: true

require_relative "../binder"
require_relative "../events"
require_relative "slot"
require_relative "template_process"

module NeverBlock
  class Server
    module Cluster
      # Keeps a number of workers serving one app. It never loads the app, so nothing in it can break this process.
      #
      #   Supervisor.new(configuration, command: boot.command, environment: boot.additions).run   # => true
      #
      # TERM and INT end it, USR1 loads the app anew and replaces the workers one by one, HUP opens the logs again, TTIN and
      # TTOU make it one more or one less.
      # @api private
      class Supervisor
        SIGNALS = %w[TERM INT USR1 HUP TTIN TTOU].freeze

        # @return [Numeric] seconds that a template, and a worker, have until they are ready
        attr_reader :boot_timeout

        # @param configuration [Configuration]
        # @param command [Array<String>] that starts a process like this one
        # @param environment [Hash{String=>String}] for it
        # @param directory [String] where
        def initialize(configuration, command:, environment: {}, directory: Dir.pwd)
          @configuration = configuration
          @command = command
          @environment = environment
          @directory = directory
          @boot_timeout = configuration[:boot_timeout]
          @events = Events.new(configuration)
          @signals = Thread::Queue.new
          @slots = []
          @whole = true
        end

        # Serves until a signal ends it.
        # @return [Boolean] whether it served, and nothing was cut short
        # @raise [BindError]
        # @raise [AppError] if the app can't be loaded
        def run
          @binder = Binder.new(@configuration.addresses, backlog: @configuration[:backlog]).open
          before = SIGNALS.to_h { |name| [name, trap(name) { @signals << name }] }
          NeverBlock.run(exit: :cancel, on_error: @events.error_log.method(:task_failed)) do |scope|
            @scope = scope
            @template = load_template
            raise CLI::AppError, @template.failure unless @template.ready?
            @configuration.worker_count.times { add }
            scope.spawn(name: "greeting") { greet }
            obey
            end_all
          end
          @whole
        ensure
          before&.each { |name, handler| trap(name, handler || "DEFAULT") }
          @binder&.close
        end

        # @api private
        # @param slot [Slot]
        # @param template [TemplateProcess]
        # @return [WorkerProcess]
        def start_worker(slot, template = @template)
          ours, theirs = Channel.pair
          worker = WorkerProcess.new(ours, slot:, template:, timeout: @configuration[:shutdown_timeout])
          template.forked[slot.number] = worker
          template.tell({do: "fork", slot: slot.number}, theirs.io)
          theirs.close
          @scope.spawn(name: worker.to_s) { worker.listen { |message| worker_said(worker, message) } }
          worker
        end

        # @api private
        # @param message [String] for the error log
        def say(message) = @events.error_log.info(message)

        private

        def obey
          loop do
            case @signals.pop
            when "TERM", "INT" then return
            when "USR1" then reload
            when "HUP" then reopen_logs
            when "TTIN" then add
            when "TTOU" then remove
            end
          end
        end

        def load_template
          template = TemplateProcess.start(@binder.sockets.zip(@binder.addresses).to_h, @command, @environment, @directory)
          @scope.spawn(name: "template") { template.listen { |message| template_said(template, message) } }
          template.wait_ready(@boot_timeout)
          template.failure ||= "the app was not loaded within #{@boot_timeout} s" unless template.ready?
          Process.detach(template.pid)
          template
        end

        def template_said(template, message)
          case message[:event]
          when "loaded" then template.ready!
          when "failed" then template.failure = message[:message]
          when "forked" then template.forked[message[:slot]]&.pid = message[:pid]
          when "ended" then template.forked.each_value { |worker| worker.status = message[:status] if worker.pid == message[:pid] }
          when "trouble" then say(message[:message])
          end
        end

        def worker_said(worker, message)
          worker.heard!(message)
          case message[:event]
          when "ready"
            worker.pid = message[:pid]
            worker.ready!
          when "asked" # TERM, to the worker itself
            worker.tell({do: "stop", timeout: @configuration[:shutdown_timeout]})
          end
        end

        # The old workers go on until the new app is there.
        def reload
          return say("the app is being loaded already") if @reloading
          @reloading = true
          @scope.spawn(name: "reload") do
            say("loading the app anew, in #{@directory}")
            template = load_template
            template.ready? ? move_to(template) : keep_old(template)
          ensure
            @reloading = false
          end
        end

        def move_to(template)
          old, @template = @template, template
          moved = @slots.count { |slot| slot.replace(template) }
          old.dismiss
          say("#{moved} of #{@slots.size} workers have been replaced")
        end

        def keep_old(template)
          template.signal(:KILL)
          say("the app can't be loaded anew; the old one goes on: #{template.failure}")
        end

        def add
          slot = Slot.new(@slots.size, self)
          @slots << slot
          @scope.spawn(name: "slot #{slot.number}") { slot.keep }
        end

        def remove
          return say("there is one worker left, which stays; TERM ends it all") if @slots.size == 1
          slot = @slots.pop
          @scope.spawn(name: "slot #{slot.number} ends") { slot.stop }
        end

        def reopen_logs
          @events.reopen
          @slots.each { |slot| slot.worker&.tell({do: "reopen"}) }
        end

        def greet
          @slots.each { |slot| sleep 0.01 until slot.worker&.ready? }
          say("NeverBlock #{VERSION}, Ruby #{RUBY_VERSION}, #{NeverBlock.engine.name}, #{@slots.size} workers: " \
            "#{@configuration[:tag] || File.basename(@directory)} at #{@binder.addresses.map { |uri| uri.sub("tcp:", "http:") }.join(" and ")}")
        end

        # A second signal cancels what runs; a third one ends this process, and the workers follow.
        def end_all
          hurry = @scope.spawn(name: "hurry") do
            nil until %w[TERM INT].include?(@signals.pop)
            %w[TERM INT].each { |name| trap(name, "SYSTEM_DEFAULT") }
            @slots.each { |slot| slot.worker&.hurry }
          end
          @whole = NeverBlock.concurrently(@slots, &:stop).all?
          hurry.cancel
          @template.dismiss
          say(@whole ? "stopped" : "stopped; running requests were cancelled")
        end
      end
    end
  end
end
