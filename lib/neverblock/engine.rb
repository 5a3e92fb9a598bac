# frozen_string_literal: true

module NeverBlock
  # The native engine of the loops here, and the reason for its choice.
  #
  #   puts NeverBlock.engine   # epoll: the fastest for readiness that this kernel has
  class Engine
    # @return [String] "epoll", "uring" or "poll"
    attr_reader :name
    # @return [String] the reason for the choice
    attr_reader :reason

    # @api private
    def initialize(name, reason)
      @name = name
      @reason = reason
      freeze
    end

    # @return [String]
    def to_s = "#{name}: #{reason}"

    # @return [String]
    def inspect = "#<NeverBlock::Engine #{self}>"
  end

  # @return [Engine] the engine of this thread's loop, or the engine that a new loop would get
  def self.engine
    scheduler = Scheduler.of_thread || Scheduler.kept
    Engine.new(scheduler.engine_name, scheduler.engine_reason)
  end
end
