# frozen_string_literal: true

require_relative "../binder"
require_relative "../events"
require_relative "slot"
require_relative "succession"
require_relative "template_process"

module NeverBlock
  class Server
    module Cluster
      # Keeps a number of workers serving one app. It never loads the app, so nothing in it can break this process.
      #
      #   Supervisor.new(configuration, command: boot.command, environment: boot.additions).run   # => true
      #
      # TERM and INT end it; USR1 loads the app anew and replaces the workers one by one; USR2 replaces this program first,
      # in the same process; HUP opens the logs again; TTIN and TTOU make it one more or one less.
      # @api private
      class Supervisor
        SIGNALS = %w[TERM INT USR1 USR2 HUP TTIN TTOU].freeze

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
          @templates = []
          @whole = true
        end

        # Serves until a signal ends it.
        # @param succession [Succession, nil] from the program that was here before
        # @return [Boolean] whether it served, and nothing was cut short
        # @raise [BindError]
        # @raise [CLI::AppError] if the app can't be loaded
        def run(succession = nil)
          @binder = succession&.binder || Binder.new(@configuration.addresses, backlog: @configuration[:backlog]).open
          before = SIGNALS.to_h { |name| [name, trap(name) { @signals << name }] }
          NeverBlock.run(exit: :cancel, on_error: @events.error_log.method(:task_failed)) do |scope|
            @scope = scope
            succession ? succeed(succession) : begin_anew
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
          worker = attend_worker(ours, slot, template)
          template.tell({do: "fork", slot: slot.number}, theirs.io)
          theirs.close
          worker
        end

        # @api private
        # @return [Task]
        def meanwhile(name, &) = @scope.spawn(name:, &)

        # @api private
        # @param message [String] for the error log
        def say(message) = @events.error_log.info(message)

        private

        def obey
          loop do
            case @signals.pop
            when "TERM", "INT" then return
            when "USR1" then reload { |template| move_to(template) }
            when "USR2" then reload { |template| make_way(template) }
            when "HUP" then reopen_logs
            when "TTIN" then add
            when "TTOU" then remove
            end
          end
        end

        def begin_anew
          @template = load_template
          raise CLI::AppError, @template.failure unless @template.ready?
          @configuration.worker_count.times { add }
        end

        # The last template is the new program's own, for which the old one has waited.
        def succeed(succession)
          @templates = succession.templates.each { |template| attend_template(template) }
          succession.each_worker do |number, template, channel, pid|
            slot = @slots[number] ||= Slot.new(number, self)
            slot.worker = attend_worker(channel, slot, template).tap { |worker| worker.pid = pid }
            slot.worker.ready!
          end
          @slots.compact!
          @slots.each { |slot| keep(slot) }
          @template = @templates.last
          adjust
          @reloading = @scope.spawn(name: "reload") { replace_all }
        end

        def adjust
          add while @slots.size < @configuration.worker_count
          remove while @slots.size > @configuration.worker_count
        end

        def load_template
          template = TemplateProcess.start(@binder.sockets.zip(@binder.addresses).to_h, @command, @environment, @directory)
          attend_template(template)
          template.wait_ready(@boot_timeout)
          @templates << template
          template.failure ||= "it did not come up within #{@boot_timeout} s" unless template.ready?
          template
        end

        def attend_template(template)
          @scope.spawn(name: "template") { template.listen { |message| template_said(template, message) } }
          Process.detach(template.pid)
        end

        def attend_worker(channel, slot, template)
          worker = WorkerProcess.new(channel, slot:, template:, timeout: @configuration[:shutdown_timeout])
          template.forked[slot.number] = worker
          @scope.spawn(name: worker.to_s) { worker.listen { |message| worker_said(worker, message) } }
          worker
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
          return say("the app is being loaded already") if @reloading&.alive?
          @reloading = @scope.spawn(name: "reload") do
            say("loading the app anew, in #{@directory}")
            template = load_template
            template.ready? ? yield(template) : keep_old(template)
          end
        end

        def move_to(template)
          @template = template
          replace_all
        end

        def replace_all
          moved = @slots.count { |slot| slot.replace(@template) }
          dismiss_old
          say("#{moved} of #{@slots.size} workers have been replaced")
        end

        # A template that no worker is of any more.
        def dismiss_old
          @templates.delete_if { |template| template != @template && template.dismiss }
        end

        def keep_old(template)
          @templates.delete(template)
          template.signal(:KILL)
          say("the app can't be loaded anew; the old one goes on: #{template.failure}")
        end

        # The new program is known to start: its template has. Its signals do nothing until it has handlers of its own.
        def make_way(template)
          say("the supervisor makes way for a new one")
          SIGNALS.each { |name| trap(name, "IGNORE") }
          workers = @slots.filter_map(&:worker).select(&:ready?)
          Succession.pass_on(@binder, @templates, workers, @command, @environment, @directory)
        rescue SystemCallError => error
          SIGNALS.each { |name| trap(name) { @signals << name } }
          keep_old(template.tap { |one| one.failure = error.message })
        end

        def add
          slot = Slot.new(@slots.size, self)
          @slots << slot
          keep(slot)
        end

        def keep(slot) = @scope.spawn(name: "slot #{slot.number}") { slot.keep }

        def remove
          return say("there is one worker left, which stays; TERM ends it all") if @slots.size == 1
          slot = @slots.pop
          meanwhile("slot #{slot.number} ends") { slot.stop }
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
          @templates.each(&:dismiss)
          say(@whole ? "stopped" : "stopped; running requests were cancelled")
        end
      end
    end
  end
end
