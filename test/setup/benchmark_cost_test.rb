# frozen_string_literal: true

# The judging parts of bin/bench cost: rows, the size of a sample, a process's counters, the verdict, the report. None
# needs a database.
require_relative "../test_helper"
require "minitest/mock"
require_relative "../../benchmark/bench/options"
require_relative "../../benchmark/cost/cost"
require_relative "../../benchmark/cost/samples"
require_relative "../../benchmark/database/child/executor"

class BenchmarkCostTest < Minitest::Test
  Cost = Bench::Cost

  # Answers at once and counts requests.
  class Layer
    attr_reader :asked

    def initialize = @asked = Hash.new(0)

    %i[select_1 find relation transaction_of_three exec].each { |name| define_method(name) { |*| @asked[name] += 1 } }
  end

  # An operation takes the first contestant 1 ms, and the second 2 ms.
  class Processes < Cost::Processes
    Server = Struct.new(:asked) do
      def place(_round_trip) = {}
    end

    attr_reader :asked

    def ask(contestant, operations, fibers)
      (@asked ||= []) << [contestant, operations, fibers]
      {"wall" => operations * (@children.keys.index(contestant) + 1) / 1000.0}
    end

    private

    def start = nil
  end

  def test_rows_have_names_of_their_own
    assert_equal 11 * 2 * 4, Cost::ROWS.size
    assert_equal Cost::ROWS.size, Cost::ROWS.map(&:id).uniq.size
    row = Cost::ROWS.find { |candidate| candidate.id == "ar_find_0.5ms_30" }
    assert_equal "Active Record: a row by its key, 0.5 ms, 30 fibers", row.title
    assert_equal 4, Cost::ROWS.count { |candidate| candidate.group == row.group }
    assert_equal 5 * 8, Cost::ROWS.count(&:founding?)
  end

  def test_rows_are_chosen_and_contestants_have_as_many_connections
    assert_equal %w[ar_heavy_0ms_10 sequel_find_0.5ms_1000], cost(%w[--rows sequel_find_0.5ms_1000,ar_heavy_0ms_10]).rows.map(&:id)
    assert_equal %w[ar sequel pg], cost(%w[--quick]).rows.map { |row| row.id[/\A[a-z]+/] }.uniq
    assert_equal ["neverblock 8", "pool 8"], cost([]).contestants.map(&:name)
    assert_equal [[4, true], [4, false]], cost(%w[--connections 4]).contestants.map { |contestant| [contestant.connections, contestant.own] }
    assert_equal 10, Bench::Options.parse(%w[cost]).rounds
    assert_equal ["--yjit"], Bench::Options.parse(%w[cost]).flags
    assert_match(/0, where 1 or more/, assert_raises(Bench::Options::Invalid) { Bench::Options.parse(%w[cost --connections 0]) }.message)
  end

  # Otherwise there is no interval.
  def test_one_round_is_refused
    missing = Bench::Servers::Core.missing || Bench::Database::Server.missing
    skip missing if missing
    assert_match(/two rounds or more.*is 1/, assert_raises(Bench::Failure) { cost(%w[--rounds 1]).run }.message)
  end

  def test_a_sample_is_the_same_for_all_and_takes_the_fastest_its_time
    contestants = cost([]).contestants
    processes = Processes.new(Processes::Server.new, Cost::ROWS.first, contestants, seconds: 0.3)
    contestants.each { |contestant| processes.sample(contestant, 10) }
    assert_equal [[contestants.first, 300, 10], [contestants.last, 300, 10]], processes.asked.last(2)
    processes.sample(contestants.first, 1000)
    assert_equal 1000, processes.asked.last[1], "each fiber has something to do"
  end

  # Counts of a separate pass are added to the timings, which are kept if that pass fails.
  def test_a_profile_that_fails_leaves_the_figures
    cost = cost(%w[--profile --rounds 2])
    processes = Object.new
    processes.define_singleton_method(:sample) { |_, fibers| {"operations" => fibers, "wall" => 1.0} }
    processes.define_singleton_method(:system_calls) { |*| {"system_calls" => {"read" => 1.0}} }
    processes.define_singleton_method(:calls) { |contestant, _| contestant.own ? {"calls" => 100.0} : raise(Bench::Failure, "took too long") }
    results = cost.send(:measure_group, Cost::ROWS.first(1), processes, Bench::Progress.new(8, output: StringIO.new))
    assert_equal [[10, 10], [10, 10]], results.map { |result| result.samples.map { |sample| sample["operations"] } }
    assert_equal [100.0, nil], results.map { |result| result.median("calls") }
    assert(results.all?(&:any?))
    notes = cost.send(:notes, Struct.new(:version).new("17"))
    assert_equal "calls of Active Record: `select 1`, 0 ms, 10 fibers, pool 8: took too long", notes.last
  end

  # Every started process ends; the next row starts new ones.
  def test_processes_that_do_not_all_start_are_ended
    contestants = cost([]).contestants
    stopped = []
    child = lambda do |_script, contestant, *, **|
      Object.new.tap do |one|
        one.define_singleton_method(:start) { self }
        one.define_singleton_method(:await_ready) { contestant.own || raise(Bench::Failure, "ended") }
        one.define_singleton_method(:stop) { stopped << contestant.name }
      end
    end
    processes = Bench::ChildProcess.stub(:new, child) { Cost::Processes.new(Processes::Server.new, Cost::ROWS.first, contestants, seconds: 0.3) }
    assert_raises(Bench::Failure) { processes.sample(contestants.first, 10) }
    assert_equal contestants.map(&:name), stopped
  end

  def test_samples_count_what_was_used
    layer = Layer.new
    figures = samples(layer, "find") { |samples| samples.call(operations: 50, fibers: 10) }
    assert_equal({find: 50}, layer.asked)
    assert_equal 50, figures.fetch(:operations)
    assert_empty %i[wall cpu objects collecting collections switches others server_busy] - figures.keys
    Cost::WORKS.each_value { |works| (works.keys - Measured::Workloads::NAMES.keys).each { |work| samples(layer, work) { |samples| samples.call(operations: 3, fibers: 2) } } }
    assert_equal %i[exec find relation select_1 transaction_of_three], layer.asked.keys.sort
  end

  def test_samples_count_calls_of_methods
    figures = samples(Layer.new, "find") { |samples| samples.call(operations: 50, fibers: 10, trace: true) }
    assert_equal 50, figures.fetch(:methods).fetch("Measured::Work#find")
    assert_operator figures.fetch(:methods).size, :<=, Measured::Samples::MOST_CALLED
    assert_operator figures.fetch(:calls), :>, 100
    assert_operator samples(Layer.new, "find") { |samples| samples.call(operations: 5, fibers: 1) }.fetch(:wall), :>, 0
  end

  # The workload's table is counted before and after.
  def test_a_workload_that_creates_too_little_fails
    scene = Class.new(Measured::Workloads) do
      def count = 100

      def light(_number) = nil
    end
    Measured::Workloads.stub(:new, -> { scene.allocate }) do
      error = assert_raises(RuntimeError) { samples(nil, "light") { |samples| samples.call(operations: 5, fibers: 1) } }
      assert_equal "100 entries were there where 105 should have been", error.message
    end
  end

  def test_a_verdict_takes_the_ratios_of_paired_rounds
    mine = result("neverblock 8", [[1.0, 1.0], [2.0, 2.0], [1.0, 0.9]])
    verdict = Cost::Verdict.of(mine, result("pool 8", [[1.0, 1.1], [2.0, 2.0], [1.0, 1.0]]))
    assert_in_delta 1.0, verdict.cpu.mean
    assert_in_delta 1.0691, verdict.rate.mean, 0.001
    assert_predicate verdict, :pass?
    refute_predicate Cost::Verdict.of(mine, result("pool 8", [[0.9, 1.0], [1.8, 2.0], [0.9, 1.0]])), :pass?, "11 % more processor time"
    refute_predicate Cost::Verdict.of(mine, result("pool 8", [[1.0, 0.9], [2.0, 1.8], [1.0, 0.8]])), :pass?, "a lower rate"
    assert_nil Cost::Verdict.of(mine, result("pool 8", [], failure: "ended"))
  end

  def test_the_report_has_a_line_for_each_row_and_what_it_used
    names = ["neverblock 8", "pool 8"]
    results = names.flat_map { |name| [result(name, [[1.0, 0.1], [1.0, 0.1]]), result(name, [[2.0, 2.0], [2.0, 2.0]], id: "pg_exec_0ms_10")] }
    results.first.samples.last.update("calls" => 823.4, "system_calls" => {"sendto" => 1.0, "recvfrom" => 1.25})
    results.last.failure = "ended|badly"
    report = report(results)
    assert_includes report.markdown, "1 of 2 rows pass"
    assert_match(%r{^\| `ar_find_0ms_10` \| +1\.00 ms, 10000/s \| +1\.00 ms, 10000/s \| +1\.00 \(1\.00–1\.00\) \| +1\.00 \(1\.00–1\.00\) \| pass \|}, report.markdown)
    assert_match(/^\| `ar_find_0ms_10` \| +5 \| +5 \| +1\.00 µs \|.* 823 \| +– \| +2\.25 \(recvfrom 1\.25, sendto 1\) \| +– \|/, report.markdown)
    assert_match(/^\| `pg_exec_0ms_10` \| .* failed \| +– \| +– \| \*\*short\*\* \|/, report.markdown)
    assert_includes report.markdown, "pool 8: ended/badly"
    assert_equal [true, nil], report.to_h.fetch(:rows).map { |row| row["pool 8"]&.fetch(:pass) }
  end

  # With a profile.
  def test_the_report_leaves_out_what_was_not_counted
    text = report(["neverblock 8", "before 8", "pool 8"].flat_map { |name| [result(name, [[1.0, 0.1]] * 2), result(name, [[1.0, 0.1]] * 2, id: "pg_exec_0ms_10")] }).markdown
    refute_includes text, "calls, neverblock 8"
    assert_includes text, "rate beside before 8"
  end

  private

  def cost(arguments) = Cost.new(Bench::Options.parse(["cost", *arguments]))

  def samples(layer, work)
    executor = Measured::Executor.named("neverblock")
    figures = nil
    executor.run { figures = yield Measured::Samples.new(layer, executor, work) }
    figures
  end

  # @param rounds [Array<Array(Float, Float)>] processor and wall time of a thousand operations
  def result(name, rounds, id: "ar_find_0ms_10", failure: nil)
    contestant = [Bench::Database::Contestant.ours(8), Bench::Database::Contestant.pool(8, "#e67e22")].find { |candidate| candidate.name == name } ||
      Bench::Database::Contestant.ours(8).before("/elsewhere")
    Bench::Result.new(Bench::Cell.new(id, contestant, id:)).tap do |result|
      rounds.each { |cpu, wall| result.samples << {"operations" => 1000, "cpu" => cpu, "wall" => wall, "objects" => 5000, "collecting" => 0.001, "switches" => 10, "others" => 0.0, "server_busy" => 0.1} }
      result.failure = failure
    end
  end

  def report(results)
    rows = Cost::ROWS.select { |row| %w[ar_find_0ms_10 pg_exec_0ms_10].include?(row.id) }
    Cost::Report.new(rows:, results:, rounds: 2, seconds: 0.3, notes: ["by a test"])
  end
end
