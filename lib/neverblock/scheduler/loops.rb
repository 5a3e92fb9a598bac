# frozen_string_literal: true

module NeverBlock
  # The schedulers of this Ractor, of whatever thread, as long as something else keeps them.
  #
  #   Loops.all   # => [#<NeverBlock::Scheduler epoll, 3 tasks>]
  #
  # @api private
  module Loops
    # @param scheduler [Scheduler]
    # @return [void]
    def self.register(scheduler)
      registry[scheduler] = true
    end

    # @return [Array<Scheduler>] those that are open in this process
    def self.all = registry.keys.reject { |scheduler| scheduler.closed? || scheduler.forked? }

    # @return [Array<Scheduler>] in a forked child: those of its parent
    def self.forked = registry.keys.select(&:forked?)

    # @return [Array<Hash{Symbol=>Object}>] of each loop its engine and the figures of {Scheduler#statistics}
    def self.stats = all.map { |scheduler| {engine: scheduler.engine_name, **scheduler.statistics} }

    def self.registry = Ractor.current[:neverblock_loops] ||= ObjectSpace::WeakMap.new
    private_class_method :registry
    registry # the main Ractor's, before threads could make two
  end
end
