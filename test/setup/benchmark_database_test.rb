# frozen_string_literal: true

# The judging parts of bin/bench database: rows, contestants, a measured process's counters, bars, the report. None
# needs a database.
require_relative "../test_helper"
require_relative "../support/at_call"
require_relative "../../benchmark/bench/options"
require_relative "../../benchmark/database/database"
%w[burst executor long_short mixed_load sustained_load work].each { |file| require_relative "../../benchmark/database/child/#{file}" }

class BenchmarkDatabaseTest < Minitest::Test
  include NeverBlockTest::AtCall

  Database = Bench::Database

  # Answers at once and counts requests.
  class Layer
    attr_reader :asked

    # @param crowd [Range<Integer>] numbers of operations that wait until the last of them has begun
    def initialize(fail_at: nil, crowd: 0..0)
      @asked = Hash.new(0)
      @fail_at = fail_at
      @crowd = crowd
    end

    %i[select_1 find transaction slow].each do |name|
      define_method(name) do |*|
        number = @asked[name] += 1
        sleep((name == :slow) ? 0.01 : 0.001)
        sleep 0.001 while @crowd.cover?(number) && @asked[name] < @crowd.end
        raise "17 was answered where 18 had been asked for" if @asked[name] == @fail_at
      end
    end
  end

  def test_rows_have_names_of_their_own
    assert_equal Database::ROWS.size, Database::ROWS.map(&:id).uniq.size
    assert_equal 3 * 4 * 3 * 3, Database::ROWS.count { |row| row.kind == :closed }
    row = Database::ROWS.find { |candidate| candidate.id == "active_record_find_0.5ms_1000" }
    assert_equal "Active Record: a row by its key, round trip 0.5 ms", row.group
    assert(Database::ROWS.any? { |candidate| candidate.id == "raw_long_short_100_50" })
  end

  # Each contestant is a process of the benchmark, with its own library or that of another checkout.
  def test_contestants_are_processes
    contestants = Database::Contestant.all
    ours = contestants.find { |contestant| contestant.name == "neverblock 8" }
    [*contestants, ours.before("/elsewhere")].each { |contestant| assert Bench::ChildProcess.new("database/child.rb", contestant, "find") }
    assert_equal ["before 8", true, "/elsewhere"], ours.before("/elsewhere").then { |before| [before.name, before.own, before.root] }
  end

  # The result of threads doesn't depend on the kind of fibers: they are measured once.
  def test_fields_have_threads_once
    fields = database(%w[--only find_1ms --contestants threads_8,pool_8]).fields.map { |row, contestant| "#{row.id} #{contestant}" }
    assert_equal 3 * (3 + 1), fields.size
    assert_includes fields, "sequel_find_1ms threads 8"
    assert_includes fields, "sequel_find_1ms_1000 pool 8"
  end

  def test_rows_are_chosen_by_name_and_by_word
    assert_equal %w[raw_find_1ms_100 raw_distinct_1ms], database(%w[--rows raw_distinct_1ms,raw_find_1ms_100]).rows.map(&:id)
    assert_equal %w[raw active_record], database(%w[--only distinct]).rows.map(&:layer)
    quick = database(%w[--quick]).rows
    assert_equal Database::Row.members.size, 6
    assert_equal %i[closed mixed burst long_short], quick.map(&:kind).uniq
    assert_operator quick.size, :<, 25
  end

  slow "it sends at a rate"
  def test_work_has_its_shares
    layer = Layer.new
    kinds = %w[select_1 find transactions slow].to_h { |name| [name, Array.new(200) { |number| Measured::Work.new(layer, name).call(number) }.tally] }
    assert_equal({"select_1" => {fast: 200}, "find" => {fast: 200}, "transactions" => {fast: 180, transaction: 20}, "slow" => {fast: 198, slow: 2}}, kinds)
  end

  slow "it sends at a rate"
  def test_a_closed_loop_counts_what_was_done_meanwhile
    {"neverblock" => 10, "threads" => 4}.each do |library, workers|
      layer = Layer.new
      figures = measured(library) { |executor| Measured::SustainedLoad.new(Measured::Work.new(layer, "find"), executor, fibers: 10, seconds: 0.2, warm: 0.05).call }
      assert_operator figures[:operations], :<, layer.asked[:find]
      assert_operator figures[:rate], :<=, workers / 0.001
      assert_in_delta figures[:operations] / figures[:wall], figures[:rate]
      assert_operator figures[:p50], :>=, 0.001
      assert_equal 0, figures[:starved]
    end
  end

  def test_a_wrong_answer_ends_a_measurement
    error = assert_raises(RuntimeError) do
      measured("neverblock") { |executor| Measured::SustainedLoad.new(Measured::Work.new(Layer.new(fail_at: 4), "find"), executor, fibers: 4, seconds: 0.1, warm: 0.01).call }
    end
    assert_match(/17 was answered/, error.message)
  end

  # Otherwise the cost of an operation would be infinite.
  def test_a_measurement_in_which_nothing_was_done_fails
    counted = false
    until_its_end = ->(number) { (number <= 2) ? sleep(0) : (sleep 0.001 until counted) } # each of the two has its turn
    error = assert_raises(RuntimeError) do
      measured("neverblock") do |executor|
        at_call(Measured::Clock.singleton_class, :spread, -> { counted = true }) do
          Measured::SustainedLoad.new(until_its_end, executor, fibers: 2, seconds: 0.01, warm: 0.01).call
        end
      end
    end
    assert_equal "no operation ended in 0.01 s: take longer, by --seconds", error.message
  end

  # Each request is timed from the moment it was due, so that a delayed one counts completely.
  slow "it sends at a rate"
  def test_company_sends_at_its_rate
    layer = Layer.new
    figures = measured("threads") { |executor| Measured::MixedLoad.new(layer, executor, text: "distinct", seconds: 1.2, warm: 0.05).call }
    assert_in_delta 0.6, figures[:rate] / figures[:capacity]
    turns = Measured::MixedLoad::TURNS
    assert_equal turns * ((figures[:rate] * 1.2 / turns).ceil / Measured::Work::SLOW), layer.asked[:slow]
    assert_operator figures[:alone_p50], :>=, 0.001
    assert_operator figures[:p99], :>=, figures[:p50]
    assert_operator figures[:slow_p50], :>=, 0.01
  end

  def test_slow_texts
    assert_equal Measured::Work.slow, Measured::Work.slow
    refute_equal Measured::Work.slow(1), Measured::Work.slow(2)
    refute_match(/sleep/, Measured::Work.slow(1))
  end

  slow "it sends at a rate"
  def test_long_and_short_ones
    [nil, "neverblock"].each do |library|
      layer = Layer.new
      figures = measured(library) { |executor| Measured::LongShort.new(layer, executor, long: 3, short: 5).call }
      assert_equal 18, figures[:operations]
      assert_equal({slow: 15, find: 215}, layer.asked)
    end
  end

  def test_a_crowd_waits_together
    before = 5 * Measured::Burst::WARM
    layer = Layer.new(crowd: before + 1..before + 2_000)
    figures = measured("neverblock") { |executor| Measured::Burst.new(Measured::Work.new(layer, "find"), executor, fibers: 2_000).call }
    assert_equal 2_000, figures[:operations]
    assert_equal before + 2_000, layer.asked[:find]
    assert_operator figures[:bytes], :>, 500
  end

  def test_bars
    results = [
      result("active_record_find_1ms_1000", "neverblock 8", rate: 2100.0, cpu: 0.8, backends: 9), result("active_record_find_1ms_1000", "pool 8", rate: 1000.0, cpu: 1.0, backends: 8),
      result("active_record_find_1ms_1000", "pool 32", rate: 2200.0, cpu: 1.1, backends: 32), result("active_record_find_0ms_1000", "neverblock 8", rate: 50.0, cpu: 1.0, backends: 8),
      result("active_record_find_0ms_1000", "pool 8", rate: 40.0, cpu: 1.0, backends: 8), result("raw_same_1ms", "neverblock 8", rate: 10.0, alone_p99: 1.0, p99: 1.5),
      result("sequel_crowd_1ms_10000", "neverblock 8", bytes: 65 * 1024, wall: 2.0)
    ]
    bars = Database::Bars.new(results).all
    assert_equal [2.1, 0.955, 0.281, 1.25, 0.8, 1.0, 1.5, 65], bars.map { |bar| bar.figure.round(3) }
    assert_equal [true, false, false, true, true, false, true, false], bars.map(&:pass?)
    assert_equal "2100/s and 1000/s", bars.first.beside
  end

  # A missing figure is short, and says why.
  def test_bars_of_a_failure
    results = [result("active_record_find_1ms_1000", "neverblock 8", failure: "not there yet"), result("active_record_find_1ms_1000", "pool 8", rate: 1.0, cpu: 1.0)]
    bars = Database::Bars.new(results).all
    assert_equal [nil, nil], bars.map(&:figure)
    assert_equal ["not there yet"] * 2, bars.map(&:beside)
    assert_empty Database::Bars.new([]).all
  end

  def test_the_report_has_a_table_for_each_work_and_a_chart
    rows = Database::ROWS.select { |row| %w[raw_find_0ms_1000 raw_find_1ms_1000 raw_same_1ms raw_crowd_1ms_10000 raw_long_short_10_2].include?(row.id) }
    figures = {rate: 2000.0, p50: 0.001, p99: 0.002, p999: 0.003, cpu: 1.0, server_busy: 0.95, others: 0.0, starved: 1, backends: 8, wall: 0.5, bytes: 20_480, libpq: 180_001}
    results = rows.flat_map do |row|
      Database::Contestant.for(row.kind).map do |contestant|
        id = contestant.fibers? ? row.id : row.with(fibers: nil).id
        result(id, contestant.name, **figures, capacity: 3000.0, alone_p50: 0.001, alone_p99: 0.002, slow_p50: 0.05, slow_p99: 0.06)
      end
    end
    results.first.failure = "ended|badly"
    report = Database::Report.new(rows:, results: results.uniq { |result| [result.cell.traits, result.cell.contestant] }, rounds: 1, seconds: 1.0, notes: ["by a test"])
    text = report.markdown
    assert_match(/^\| 1 ms, 1000 fibers +\| +2000 ±0 % \*! .*1\.00 × \|/, text)
    assert_match(/^\| 0 ms, 1000 fibers +\| +failed /, text)
    assert_match(/^\| 10 long × 2 short +\| +0\.50 s .*0\.56 s, 0\.50 s: 1\.1 × \|/, text)
    assert_match(/^\| neverblock 8 \| +3000 \|/, text)
    assert_match(/^\| neverblock 8 \| +10000 \| +500 ms \| +20\.0 KiB \| +8 \|/, text)
    assert_includes text, "- neverblock 8: ended/badly (1 of its 4 rows)"
    assert_includes text, "- libpq 18.1."
    assert_includes report.charts.fetch("-raw"), "pool 100"
    refute report.charts.key?("-sequel")
  end

  private

  def database(arguments) = Database.new(Bench::Options.parse(["database", *arguments]))

  def measured(library)
    executor = library && Measured::Executor.named(library, threads: 4)
    executor ? executor.run { yield executor } : yield(nil)
  end

  def result(id, name, failure: nil, **figures)
    row = Database::ROWS.find { |candidate| candidate.id == id } || Database::ROWS.find { |candidate| candidate.id.start_with?(id) }
    contestant = Database::Contestant.all.find { |candidate| candidate.name == name }
    Bench::Result.new(Bench::Cell.new(row.group, contestant, id:)).tap do |result|
      result.samples << {"operations" => 1, **figures.transform_keys(&:to_s)} unless failure
      result.failure = failure
    end
  end
end
