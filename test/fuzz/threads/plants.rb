# frozen_string_literal: true

require_relative "../runtime/plan"
require_relative "oracle"

module NeverBlockFuzz
  # Planted defects: each breaks something under fibers only, and the oracle must find it in a small program.
  #
  #   StrandsPlants.missed      # => [] if all are found
  module StrandsPlants
    # A defect: its definition, a program that runs into it as strands of steps, and what threads do there.
    Plant = Struct.new(:name, :program, :finds, :defect) do
      # @return [Plan]
      def plan
        first = Plan::Node.new(0, :setup, {host: "fibers"}, [])
        Plan.new(0, [first, *program.zip(%w[one two three]).map { |steps, name| strand(name, steps) }])
      end

      private

      def strand(name, steps)
        nodes = steps.map { |number, code, timed| Plan::Node.new(number, :"step_#{number}", {code:, timed:}.compact, []) }
        Plan::Node.new(100 + name.size, :strand, {name:}, nodes)
      end
    end

    # Replaces methods of a class, or a module's own; `super` is the original one.
    def self.change(target, &block) = target.prepend(Module.new(&block)) && nil

    CLOSED = "IOError: stream closed in another thread"
    private_constant :CLOSED

    ALL = [
      [:a_close_wakes_none, [[[1, "r1, w1 = IO.pipe; 1"], [2, "r1.read(1)"]], [[3, "r1.close"]]], CLOSED,
        -> { change(NeverBlock::Scheduler.singleton_class) { def closing(_) = nil } }],
      [:a_close_of_a_half_wakes_none, [[[1, "a1, b1 = UNIXSocket.pair; 1"], [2, "a1.read(1)"]], [[3, "a1.close_write"], [4, "a1.close_read"]]], CLOSED,
        -> { change(NeverBlock::Scheduler.singleton_class) { def closing_half(*) = nil } }],
      [:an_item_is_lost, [[[1, "q1.pop"]], [[2, "q1.push(1); 2"]]], "1", -> { change(Thread::Queue) { def push(_) = self } }],
      [:a_status_is_wrong, [[[1, "system('exit 7'); $?.exitstatus", true]]], "7", -> { change(Kernel) { def system(_) = super("exit 8") } }],
      [:a_message_differs, [[[1, "m1.unlock"]]], "ThreadError", -> { change(Thread::Mutex) { def unlock = raise(ThreadError, "other") } }],
      [:a_descriptor_is_left, [[[1, "r1, w1 = IO.pipe; 1"], [2, "r1.close"]]], "pipe 1", -> { change(IO) { def close = dup.then { |copy| copy.autoclose = false } || super } }],
      [:a_child_is_left, [[[1, "system('true')", true]]], "true", -> { change(Kernel) { def system(_) = spawn("read x") && true } }],
      [:a_timeout_comes_never, [[[1, "Timeout.timeout(9) { q1.pop }"]], [[2, "q1.push(1); 2"]]], "1", -> { change(Timeout.singleton_class) { def timeout(_) = sleep } }],
      [:it_crashes, [[[1, "1"]]], "1", -> { change(NeverBlockFuzz::Stage) { def at(_) = Process.kill(:KILL, Process.pid) } }]
    ].map { |fields| Plant.new(*fields) }.freeze

    # @return [Array<String>] defects that were missed, with what was found instead
    def self.missed
      ALL.filter_map do |plant|
        found = Oracle.new(limit: 5, plant: plant.defect).outcome(plant.plan).failures
        "#{plant.name}: expected #{plant.finds}, found #{found.inspect}" unless found.any? { |_, message| message.include?(plant.finds) }
      end
    end

    # @return [Array<String>] defects whose program differs without the defect
    def self.unsound
      ALL.filter_map do |plant|
        found = Oracle.new.outcome(plant.plan).failures
        "#{plant.name}: without the defect, #{found.inspect}" if found.any?
      end
    end
  end
end
