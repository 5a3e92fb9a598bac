# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "neverblock/server/cluster/supervisor"
require "neverblock/cli/first_process"

# The tables of the server's state machine, cell by cell, and the machine that runs them. The actions' effects on real
# processes: test/programs/supervision_table_test.rb
class ServerMachineTest < Minitest::Test
  Server = NeverBlock::Server
  Machine = Server::Machine
  WORDS = [Machine::IGNORE, Machine::LATER, Machine::NEVER].freeze
  TABLES = {
    Server::Cluster::SupervisorTable => [Server::Cluster::Supervisor, Server::Cluster::Deployment],
    Server::RunnerTable => [Server::Runner]
  }.freeze

  # Accepts every action, and records it.
  class Recorder
    attr_reader :done

    def initialize
      @done = []
    end

    def respond_to_missing?(*) = true

    def method_missing(name, *details) = @done << [name.to_s.tr("_", " "), *details]
  end

  TABLES.each do |table, classes|
    name = classes.first.name[/\w+\z/].downcase
    table.events.product(table.states).each do |event, state|
      define_method(:"test_#{event}_in_the_state_#{state}_of_a_#{name}") do
        action, following = table.cell(event, state)
        refute_empty action
        assert_includes [nil, *table.states], following
        assert WORDS.include?(action) || classes.one? { |one| one.public_method_defined?(action.tr(" ", "_")) }, "#{action} is no action of #{classes.join(" or ")}"
        assert_walks(table, event, state, action, following)
      end
    end

    define_method(:"test_each_state_of_a_#{name}_can_be_come_to_and_left") do
      cells = table.events.product(table.states).map { |event, state| [state, *table.cell(event, state)] }
      reached = cells.filter_map { |_, _, following| following }.uniq
      assert_equal table.states, [table.states.first, *reached].uniq.sort_by { |state| table.states.index(state) }
      table.states[..-2].each { |state| assert(cells.any? { |from, _, following| from == state && following && following != state }, "nothing leads out of #{state}") }
    end

    define_method(:"test_the_manual_has_the_table_of_a_#{name}") do
      text = File.read("docs/operations.md")
      documented = text.scan(/^\| event .*?\n\n/m).map { |lines| Machine::Table.new(lines.strip) }.find { |one| one.states == table.states }
      assert documented, "no table with these states"
      assert_equal table.events, documented.events
      table.events.product(table.states).each { |event, state| assert_equal table.cell(event, state), documented.cell(event, state), "#{event} in the state #{state}" }
    end
  end

  # Every trapped signal has a row, and process 1 of a container passes it on.
  def test_signals
    assert_empty Server::Cluster::Supervisor::SIGNALS - NeverBlock::CLI::FirstProcess::SIGNALS
    assert_empty Server::Cluster::Supervisor::SIGNALS - Server::Cluster::SupervisorTable.events
    assert_empty %w[TERM INT HUP QUIT TTIN TTOU USR1 USR2] - Server::RunnerTable.events
  end

  def test_the_last_of_what_is_to_be_done_later_is_done
    recorder = Recorder.new
    machine = Machine.new(Server::Cluster::SupervisorTable, "reloading", recorder)
    machine.on("USR2")
    machine.on("USR1")
    machine.on("workers replaced")
    assert_equal [["later", "USR2"], ["later", "USR1"], ["settle"], ["load"]], recorder.done
    assert_equal "reloading", machine.state
  end

  def test_a_table_with_an_empty_cell_is_none
    error = assert_raises(ArgumentError) { Machine::Table.new("| event | a | b |\n| - | - | - |\n| x | y | |\n") }
    assert_match(/x in the state b: an empty cell/, error.message)
  end

  def test_a_wide_table_is_several_side_by_side
    left, right = "| event | a |\n| - | - |\n| x | go → c |\n", "| event | b | c |\n| - | - | - |\n| x | stay | never |\n"
    table = Machine::Table.new(left, right)
    assert_equal %w[a b c], table.states
    assert_equal [%w[go c], %w[stay], %w[never]], table.states.map { |state| table.cell("x", state) }
    error = assert_raises(ArgumentError) { Machine::Table.new(left, right.sub("x", "y")) }
    assert_match(/tables side by side need the same events in the same order/, error.message)
  end

  private

  def assert_walks(table, event, state, action, following)
    recorder = Recorder.new
    machine = Machine.new(table, state, recorder)
    return assert_raises(RuntimeError) { machine.on(event) } if action == Machine::NEVER
    machine.on(event, :detail)
    assert_equal following || state, machine.state
    expected = {Machine::IGNORE => [], Machine::LATER => [["later", event]]}.fetch(action) { [[action, :detail]] }
    assert_equal expected, recorder.done
  end
end
