# frozen_string_literal: true

require "json"
require_relative "../binder"
require_relative "channel"
require_relative "template_process"

module NeverBlock
  class Server
    module Cluster
      # What a supervisor hands to the program that replaces it in the same process (USR2): the sockets, and the
      # channels of its children, which do not notice the change.
      #
      #   Handover.pass_on(launch, binder, %w[TERM INT HUP]) { [templates, workers] }   # returns only if it fails
      #   Handover.received(ENV)&.workers
      # @api private
      class Handover
        # Programs of two versions agree on this name, so it never changes.
        VARIABLE = "NEVERBLOCK_SUCCESSION"
        # Signals that may end the new program before it has installed handlers. The others would end it too, so they
        # are ignored until then.
        ENDS = %w[TERM INT].freeze

        # Replaces this program by the new one. No handler runs in between: a signal of ENDS waits for the new program,
        # and ends it if it has no handlers yet; all others are ignored.
        # @param launch [Launch]
        # @param binder [Binder]
        # @param signals [Array<String>] that have handlers
        # @yieldreturn [Array(Array<TemplateProcess>, Array<WorkerProcess>, String), nil] templates, of which the last
        #   one forks new workers; workers, including those that are leaving; a signal for the new program, if one
        #   waits. nil: an earlier signal says that no program follows
        # @return [void] after nil only
        # @raise [SystemCallError] if the program can't be started
        def self.pass_on(launch, binder, signals)
          Scheduler.hold_signals(Signal.list.values_at(*signals))
          templates, workers, later = yield
          return unless templates
          before = (signals - ENDS).to_h { |name| [name, trap(name, "IGNORE")] }
          ios = binder.sockets + (templates + workers).map { |child| child.channel.io }
          launch.exec({VARIABLE => JSON.generate(left(binder, templates, workers, later))}, ios)
        ensure
          Scheduler.release_signals
          before&.each { |name, handler| trap(name, handler) }
        end

        def self.left(binder, templates, workers, later)
          {
            later:,
            sockets: binder.sockets.map(&:fileno).zip(binder.addresses), files: binder.files, own: binder.own?,
            templates: templates.map { |template| [template.channel.io.fileno, template.pid] },
            workers: workers.map { |worker|
              [worker.channel.io.fileno, worker.pid, worker.slot.number,
                templates.index(worker.template), worker.leaving?]
            }
          }
        end
        private_class_method :left

        # @param env [Hash] the environment; the variable is deleted from it
        # @return [Handover, nil]
        def self.received(env)
          text = env.delete(VARIABLE)
          new(JSON.parse(text, symbolize_names: true)) if text
        end

        def initialize(left)
          @left = left
        end

        # @return [String, nil] a signal that still has to be processed
        def later = @left[:later]

        # @return [Binder]
        def binder = Binder.inherited(@left[:sockets].to_h, @left[:files], own: @left[:own])

        # @return [Array<TemplateProcess>]
        def templates
          @templates ||= @left[:templates].map do |number, pid|
            TemplateProcess.new(Channel.inherited(number)).tap do |template|
              template.pid = pid
              template.ready!
            end
          end
        end

        # @yieldparam number [Integer] of the slot
        # @yieldparam template [TemplateProcess, nil] nil: it has been dismissed
        # @yieldparam channel [Channel]
        # @yieldparam pid [Integer]
        # @yieldparam leaving [Boolean] whether it was told to end
        # @return [void]
        def each_worker
          @left[:workers].each do |number, pid, slot, template, leaving|
            yield slot, template && templates[template], Channel.inherited(number), pid, leaving
          end
        end
      end
    end
  end
end
