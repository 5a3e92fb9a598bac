# frozen_string_literal: true

# A process for each contestant, which all stay while a row is measured: warm, and one at work at a time.
#
#   Bench::Cost::Processes.open(server, row, contestants, seconds: 0.3) do |processes|
#     processes.sample(ours, 30)             # => {"operations"=>5000, "wall"=>0.3, ...}
#     processes.system_calls(ours, 30)       # => {"system_calls"=>{"sendto"=>0.4, ...}}, for each operation
#     processes.calls(ours, 30)              # => {"calls"=>210.0, "methods"=>{"Item.find"=>1.0, ...}}
#   end
require_relative "../bench/child_process"
require_relative "../bench/strace"
require_relative "../servers/core"

module Bench
  class Cost
    class Processes
      SCRIPT = "cost/child.rb"
      WARM = 6 # times, before anything counts: until YJIT has compiled everything
      WARM_FIBERS = 10
      WARM_OPERATIONS = 500
      ENOUGH = 0.25 # of a sample's time, to tell how many operations it has
      TRACED = 500 # operations, at least, whose system calls are counted
      CALLED = 200 # operations whose calls of methods are counted, which is slow; so many fibers at most
      NOISE = 0.02 # system calls for each operation; below that they belong to the asking

      # @return [Object] the block's value
      def self.open(...)
        processes = new(...)
        yield processes
      ensure
        processes&.stop
      end

      # @param server [Database::Server]
      # @param row [Row] the fibers do not matter
      # @param contestants [Array<Database::Contestant>]
      # @param seconds [Float] that a sample takes, about
      def initialize(server, row, contestants, seconds:)
        @server = server
        @row = row
        @seconds = seconds
        @operations = {}
        @children = contestants.to_h do |contestant|
          [contestant, ChildProcess.new(SCRIPT, contestant, row.work, wrapper: Servers::Core::SERVER.tie, groups: %i[default database],
            layer: row.layer, place: server.place(row.round_trip), own: contestant.own, connections: contestant.connections)]
        end
      end

      # @param contestant [Database::Contestant]
      # @param fibers [Integer]
      # @return [Hash{String=>Numeric}]
      # @raise [Failure]
      def sample(contestant, fibers) = ask(contestant, operations(fibers), fibers)

      # Counted the second time: strace changes the pace, so code runs that was not compiled.
      # @return [Hash{String=>Hash}] for each operation, by name
      def system_calls(contestant, fibers)
        count = [fibers, TRACED].max
        calls = Array.new(2) { traced(contestant, count, fibers) }.last
        {"system_calls" => calls.transform_values { |number| number.fdiv(count) }.select { |_, number| number > NOISE }}
      end

      # Code that YJIT has compiled is lost: nothing can be timed after it.
      # @return [Hash{String=>Object}] the number of method calls per operation, and the most frequent methods
      def calls(contestant, fibers)
        figures = ask(contestant, CALLED, [fibers, CALLED].min, trace: true)
        {"calls" => figures.fetch("calls").fdiv(CALLED), "methods" => figures.fetch("methods").transform_values { |number| number.fdiv(CALLED) }}
      end

      # @return [void]
      def stop = @children.each_value(&:stop)

      private

      # The same for all, and so many that the fastest takes the time.
      def operations(fibers)
        @operations[fibers] ||= begin
          start
          count = fibers
          count *= 2 while (time = shortest(count, fibers)) < @seconds * ENOUGH
          [(count * @seconds / time).ceil, fibers].max
        end
      end

      def start
        return if @started
        @children.each_value { |child| child.start.await_ready }
        WARM.times { shortest(WARM_OPERATIONS, WARM_FIBERS) }
        @started = true
      ensure
        stop unless @started
      end

      def traced(contestant, count, fibers)
        strace = Strace.new([@children.fetch(contestant).pid], wrapper: Servers::Core::CLIENT.tie)
        strace.attach
        ask(contestant, count, fibers)
        strace.detach
      ensure
        strace&.detach
      end

      # @return [Float] seconds
      def shortest(count, fibers) = @children.keys.map { |contestant| ask(contestant, count, fibers).fetch("wall") }.min

      def ask(contestant, operations, fibers, **more)
        @server.empty if @row.founding?
        @server.tidy if @row.work == "transaction_of_three"
        @children.fetch(contestant).ask(operations:, fibers:, **more)
      end
    end
  end
end
