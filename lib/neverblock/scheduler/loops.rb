# frozen_string_literal: true

module NeverBlock
  # The schedulers of this Ractor on all threads. The registry holds them weakly.
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

    # @return [Array<Scheduler>] the open schedulers of this process
    def self.all = registry.keys.reject { |scheduler| scheduler.closed? || scheduler.forked? }

    # @return [Array<Scheduler>] in a forked child: the schedulers of its parent
    def self.forked = registry.keys.select(&:forked?)

    # @return [Array<Hash{Symbol=>Object}>] the engine and the {Scheduler#statistics} of each loop
    def self.stats = all.map { |scheduler| {engine: scheduler.engine_name, **scheduler.statistics} }

    def self.registry = Ractor.current[:neverblock_loops] ||= ObjectSpace::WeakMap.new
    private_class_method :registry
    registry # creates the main Ractor's registry now, before two threads could each create one
  end
end
