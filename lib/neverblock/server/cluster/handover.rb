# frozen_string_literal: true

require "json"
require_relative "../binder"
require_relative "channel"
require_relative "template_process"

module NeverBlock
  class Server
    module Cluster
      # What a supervisor leaves to the program that takes its place in the same process (USR2): the sockets, and the
      # channels of its children, which notice nothing.
      #
      #   Handover.pass_on(launch, binder, %w[TERM INT HUP]) { [templates, workers] }   # returns only if it fails
      #   Handover.received(ENV)&.workers
      # @api private
      class Handover
        # Programs of two versions agree on this name, so it never changes.
        VARIABLE = "NEVERBLOCK_SUCCESSION"
        # Those that may end a program before it has handlers of its own. Others would, too, and are not meant to.
        ENDS = %w[TERM INT].freeze

        # Between two programs in one process no handler runs. A signal that ends a server waits for the new program,
        # and ends it where it has no handlers yet; others would do the same, so they are not heard.
        # @param launch [Launch]
        # @param binder [Binder]
        # @param signals [Array<String>] that have handlers
        # @yieldreturn [Array(Array<TemplateProcess>, Array<WorkerProcess>, String), nil] the last template is that for new
        #   workers; workers on their way out count; then a signal that is to be obeyed by the new program, if there is one.
        #   nil: a signal that came before has it that no program follows
        # @return [void] if there was nil
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
            sockets: binder.sockets.map(&:fileno).zip(binder.addresses), files: binder.files,
            templates: templates.map { |template| [template.channel.io.fileno, template.pid] },
            workers: workers.map { |worker| [worker.channel.io.fileno, worker.pid, worker.slot.number, templates.index(worker.template), worker.leaving?] }
          }
        end
        private_class_method :left

        # @param env [Hash] from which it is taken away
        # @return [Handover, nil]
        def self.received(env)
          text = env.delete(VARIABLE)
          new(JSON.parse(text, symbolize_names: true)) if text
        end

        def initialize(left)
          @left = left
        end

        # @return [String, nil] a signal that waits to be obeyed
        def later = @left[:later]

        # @return [Binder]
        def binder = Binder.inherited(@left[:sockets].to_h, @left[:files])

        # @return [Array<TemplateProcess>]
        def templates
          @templates ||= @left[:templates].map do |number, pid|
            TemplateProcess.new(Channel.inherited(number)).tap do |template|
              template.pid = pid
              template.ready!
            end
          end
        end

        # @yieldparam number [Integer] of a slot
        # @yieldparam template [TemplateProcess, nil] nil: it has been dismissed
        # @yieldparam channel [Channel]
        # @yieldparam pid [Integer]
        # @yieldparam leaving [Boolean] whether it is on its way out
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
