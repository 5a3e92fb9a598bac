# frozen_string_literal: true

module NeverBlockFuzz
  # One task of the program, with everything that may unwind it. An exception without such an explanation is a failure.
  class Strand
    # The owner of a `run`, `concurrently` or `race`. `reason` says why its tasks may be cancelled.
    Group = Struct.new(:owner, :scope, :reason) do
      # @return [Object, nil] why a task of the group may be cancelled
      def explanation = reason || owner&.explanation
    end

    # A timeout around the running code: its deadline.
    Limit = Struct.new(:deadline)

    # @return [Integer] its place in the order of creation; a task waits only for younger ones
    attr_reader :serial
    # @return [Integer, nil] the number of the operation that spawned it
    attr_reader :id
    # @return [Group] its scope
    attr_reader :group
    # @return [Array<Limit>] the timeouts around the running code
    attr_reader :limits
    # @return [String] the block's value
    attr_reader :token
    # @return [NeverBlock::Task, nil]
    attr_accessor :task
    # @return [Thread, nil] the thread of its loop
    attr_accessor :thread
    # @return [Plan::Node, nil] the operation that began last
    attr_accessor :doing
    # @return [Object, nil] why it may be unwound at any time: cancelled, killed, raised in
    attr_accessor :reason
    # @return [Boolean] whether its ensure blocks may be dropped: inside an Enumerator that is left in the middle
    attr_accessor :droppable
    # @return [Array<Group>] the scopes that it has opened, innermost last
    attr_reader :opened
    # @return [Boolean] whether it was killed through its fiber, so that none of its ensure blocks can wait
    attr_accessor :killed
    # @return [Boolean] whether Fiber#raise or Fiber#kill has reached it
    attr_accessor :struck
    # @return [Boolean] whether its scope may end without it: it need not end by itself, so no task waits for it
    attr_accessor :transient
    # @return [Boolean] whether it was cancelled with force, which passes a shield
    attr_accessor :forced
    # @return [Boolean] whether one of its timeouts is of plain Ruby, around its loop
    attr_accessor :outer

    @serials = 0
    # @return [Integer]
    def self.next_serial = @serials += 1

    # @param id [Integer, nil]
    # @param group [Group]
    def initialize(id, group)
      @serial = Strand.next_serial
      @id = id
      @group = group
      @limits = []
      @opened = []
      @token = "token #{@serial}"
    end

    # @return [Object, nil] why it may be unwound now
    def explanation
      @reason || (:transient if @transient) || (@limits.any? { |limit| limit.deadline <= Process.clock_gettime(Process::CLOCK_MONOTONIC) } && :timeout) ||
        @opened.filter_map(&:reason).first || @group.explanation
    end

    # @return [Boolean] whether there is a timeout of plain Ruby around its loop
    def outer_timeout? = @outer || @group.owner&.outer_timeout? || false

    # @return [String]
    def inspect = "strand #{@serial} (#{@id ? "operation #{@id}" : "helper"}, at #{@doing&.title || "its beginning"})"
  end
end
