# frozen_string_literal: true

module NeverBlock
  # Which native engine runs the loops here, and why.
  #
  #   puts NeverBlock.engine   # epoll: the fastest for readiness that this kernel has
  class Engine
    # @return [String] "epoll", "uring" or "poll"
    attr_reader :name
    # @return [String]
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

  # @return [Engine] of this thread's loop, or the one that a run would get
  def self.engine
    scheduler = Scheduler.of_thread || Scheduler.kept
    Engine.new(scheduler.engine_name, scheduler.engine_reason)
  end
end
