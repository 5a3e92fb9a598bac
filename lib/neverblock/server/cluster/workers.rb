# frozen_string_literal: true

require_relative "channel"
require_relative "slot"

module NeverBlock
  class Server
    module Cluster
      # The workers of a cluster: those in a slot, and those that have been told to end.
      #
      #   workers = Workers.new(configuration, supervisor, templates)
      #   2.times { workers.add }       # each starts as soon as there is a template
      #   workers.replace(template)     # => 2 workers were replaced
      #   workers.stop                  # => true: no request was cancelled
      # @api private
      class Workers
        # @return [Array<Slot>]
        attr_reader :slots

        # @param configuration [Configuration]
        # @param supervisor [#spawn, #say, #on]
        # @param templates [Templates]
        def initialize(configuration, supervisor, templates)
          @configuration = configuration
          @supervisor = supervisor
          @templates = templates
          @slots = []
          @leaving = {} # workers that were told to end => the tasks that wait for it
        end

        # @return [Array<WorkerProcess>] those in the slots
        def present = @slots.filter_map(&:worker)

        # @return [Array<WorkerProcess>] those in the slots and those that are leaving
        def all = [*present, *@leaving.keys]

        # @return [Boolean] whether one is not leaving
        def live? = present.any? { |worker| !worker.leaving? }

        # @return [Boolean] whether one serves
        def ready? = serving.any?

        # @return [Boolean] whether each slot has a ready worker
        def complete? = @slots.all? { |slot| slot.worker&.ready? }

        # @return [void]
        def add
          number = (0..).find { |one| @slots.none? { |slot| slot.number == one } } # after a restart there can be gaps
          slot = Slot.new(number, self)
          @slots.insert(@slots.index { |one| one.number > number } || -1, slot)
          keep(slot)
        end

        # @return [void]
        def remove
          return @supervisor.say("there is one worker left, which stays; TERM ends it all") if @slots.size == 1
          @slots.pop.close&.then { |worker| retire(worker) }
        end

        # Takes over the workers of the previous program.
        # @param handover [Handover]
        # @return [void]
        def adopt(handover)
          handover.each_worker do |number, template, channel, pid, leaving|
            slot = leaving ? Slot.new(number, self) : @slots[number] ||= Slot.new(number, self)
            worker = attend(channel, slot, template)
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
        end

        # Replaces the workers one after another.
        # @param template [TemplateProcess] forks the new ones
        # @return [Integer] how many were replaced
        def replace(template) = @slots.count { |slot| slot.replace(template) }

        # @param worker [WorkerProcess] the one to replace
        # @return [Boolean] whether a new one serves in its place
        def recycle(worker) = worker.slot.replace(template)

        # Stops a worker that others have replaced. {#stop} waits for its end too.
        # @param worker [WorkerProcess]
        # @param keepalive_grace [Numeric] seconds for which its idle connections stay open
        # @return [void]
        def retire(worker, keepalive_grace: 0) = leave(worker) { worker.stop(keepalive_grace:) }

        # @return [Boolean] whether no request was cancelled
        def stop
          @ending = true
          whole = NeverBlock.concurrently(@slots, &:stop).all?
          @leaving.values.each(&:join) # one may have become ready while its slot was being closed
          whole && !@cut
        end

        # Waits for a template that can fork.
        # @return [TemplateProcess]
        def template = @templates.wait

        # @param slot [Slot]
        # @param template [TemplateProcess]
        # @return [WorkerProcess, nil] nil, with a line in the log, if there is no descriptor left for the channel
        def start(slot, template)
          ours, theirs = Channel.pair
          worker = attend(ours, slot, template)
          template.tell({do: "fork", slot: slot.number}, theirs.io)
          theirs.close
          worker
        rescue SystemCallError => error
          say("worker #{slot.number} can't be started: #{error.message}; it is tried again", as: :error)
          nil
        end

        # Waits until the worker is ready; after boot_timeout it is killed.
        # @param worker [WorkerProcess]
        # @return [Boolean] false: it has ended
        def await(worker)
          limit = @configuration[:boot_timeout]
          return true if worker.wait_ready(limit)
          give_up(worker, limit) unless worker.ended?
          false
        end

        # @param worker [WorkerProcess] one that ended unasked
        # @return [void]
        def ended(worker) = @supervisor.on("worker ended", worker)

        # @return [void]
        def say(message, as: :info) = @supervisor.say(message, as:)

        private

        def keep(slot) = @supervisor.spawn("slot #{slot.number}") { slot.keep }

        # If the template has not even forked the worker it is blocked, and would fork no other one.
        def give_up(worker, limit)
          say("#{worker} was not ready after #{limit} s (boot_timeout): it is given up", as: :error)
          worker.template&.signal(:KILL) unless worker.pid
          worker.kill
        end

        def attend(channel, slot, template)
          worker = WorkerProcess.new(channel, slot:, template:, timeout: @configuration[:shutdown_timeout])
          template&.workers&.<<(worker)
          @supervisor.spawn(worker.to_s) { worker.listen { |message| said(worker, message) } }
          worker
        end

        def said(worker, message)
          worker.heard!(message)
          case message[:event]
          when "ready"
            worker.pid = message[:pid]
            worker.ready!
          when "asked" then @supervisor.on("worker asked to end", worker) # TERM, to the worker itself
          when "failed" then worker.failure = message[:message]
          when "full", "room" then worker.full = message[:event] == "full"
          end
          spread
        end

        def serving = present.select { |worker| worker.ready? && !worker.leaving? }

        # A full worker takes no connections while another one has room.
        def spread
          room = serving.any? { |worker| !worker.full }
          serving.each { |worker| worker.stand_back(worker.full && room || false) }
        end

        def leave(worker)
          @leaving[worker] = @supervisor.spawn("#{worker} ends") do
            whole = yield
            @cut = true if @ending && !whole
          ensure
            @leaving.delete(worker)
          end
        end
      end
    end
  end
end
