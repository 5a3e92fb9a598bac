# frozen_string_literal: true

# Repeats an operation in several fibers, on request, and reports the costs.
#
#   samples = Measured::Samples.new(layer, executor, "find")
#   samples.call(operations: 5_000, fibers: 30)                # => {operations: 5_000, wall: 0.3, cpu: 0.3, objects: 400_000, ...}
#   samples.call(operations: 300, fibers: 30, trace: true)     # => {operations: 300, calls: 60_000, methods: {"Item.find" => 300, ...}}
require_relative "../active_record/workloads"
require_relative "../database/child/clock"
require_relative "../database/child/closed_loop"
require_relative "../database/child/work"

module Measured
  class Samples
    MOST_CALLED = 40 # methods that are named

    # @param layer [Object] see Work
    # @param executor [Object] of Executor, running
    # @param work [String] of Work or Workloads
    def initialize(layer, executor, work)
      @executor = executor
      @scene = Workloads.new if Workloads::NAMES.key?(work)
      @creates = @scene&.creates(work)
      @work = (@scene || Work.new(layer, work)).method(work)
    end

    # @param operations [Integer]
    # @param fibers [Integer] which are started for it
    # @param trace [Boolean] whether calls of methods are counted, which takes so long that nothing else is
    # @return [Hash{Symbol=>Object}]
    def call(operations:, fibers:, trace: false)
      before = @scene&.count
      GC.start
      figures = trace ? traced { all(operations, fibers) } : timed { all(operations, fibers) }
      check(before + operations * @creates) if @scene
      {operations:, **figures}
    end

    private

    def all(operations, fibers) = ClosedLoop.new(@executor, fibers:).call(operations, &@work)

    def timed
      used = Clock.used
      yield
      Clock.since(used)
    end

    def traced
      counts = Hash.new(0)
      tracer = TracePoint.new(:call, :c_call) { |point| counts[[point.defined_class, point.method_id]] += 1 }
      tracer.enable
      yield
      tracer.disable
      {calls: counts.values.sum, methods: counts.max_by(MOST_CALLED, &:last).to_h { |(owner, name), count| ["#{owner}##{name}", count] }}
    ensure
      tracer.disable
    end

    def check(wanted)
      found = @scene.count
      raise "#{found} entries were there where #{wanted} should have been" unless found == wanted
    end
  end
end
