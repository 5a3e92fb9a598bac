# frozen_string_literal: true

# The judging parts of bin/bench mysql: rows, contestants, bars, the report. Only the last test needs a database.
require_relative "../test_helper"
require_relative "../../benchmark/bench/options"
require_relative "../../benchmark/mysql/mysql"
require_relative "../../benchmark/database/child/executor"
require_relative "../../benchmark/database/child/sleeps"

class BenchmarkMysqlTest < Minitest::Test
  Mysql = Bench::Mysql

  # Counts what it is asked for; a sleep ends when all have begun.
  class Layer
    attr_reader :asked

    def initialize(sleeps)
      @sleeps = sleeps
      @asked = Hash.new(0)
    end

    def select_1 = @asked["select 1"] += 1

    def slow(text)
      @asked[text] += 1
      sleep 0.001 until @asked[text] == @sleeps
    end
  end

  def test_rows_have_names_of_their_own
    assert_equal 3 * 2 * 3 + 1, Mysql::ROWS.size
    assert_equal Mysql::ROWS.size, Mysql::ROWS.map(&:id).uniq.size
    assert_equal "a row by its key, 1 ms, 1000 fibers", row("find_1ms_1000").title
    assert_equal "a row by its key, 1 ms", row("find_1ms_1000").group
    assert_equal "10 × `select sleep(1)` at once", row("sleeps").title
  end

  def test_rows_are_chosen
    assert_equal %w[find_0ms_100 find_1ms_1000 transaction_of_three_1ms_1000 sleeps], mysql(%w[--quick]).rows.map(&:id)
    assert_equal %w[select_1_0ms_10 select_1_0ms_100 select_1_0ms_1000], mysql(%w[--only select_1_0ms]).rows.map(&:id)
    assert_equal ["sleeps"] * 2, mysql(%w[--rows sleeps --contestants neverblock]).fields.map { |row, _| row.id }
  end

  # The result of threads doesn't depend on the number of fibers.
  def test_threads_are_measured_once
    fields = mysql(%w[--only find_1ms --contestants trilogy_32]).fields.map { |row, contestant| "#{row.id} #{contestant}" }
    assert_equal ["find_1ms_10 neverblock trilogy 32", "find_1ms threads trilogy 32", "find_1ms_100 neverblock trilogy 32", "find_1ms_1000 neverblock trilogy 32"], fields
  end

  def test_contestants_have_an_adapter_and_a_stock_one_beside
    adapters = Mysql::CONTESTANTS.map { |contestant| [Mysql.adapter(contestant), contestant.library, contestant.connections] }
    assert_equal [["neverblock_trilogy", "neverblock", 12], ["neverblock_trilogy", "neverblock", 32], ["neverblock_mysql2", "neverblock", 12], ["trilogy", "neverblock", 12],
      ["trilogy", "threads", 12], ["trilogy", "threads", 32], ["mysql2", "threads", 12]], adapters
    Mysql::CONTESTANTS.each do |contestant|
      assert_includes Mysql::CONTESTANTS.map(&:name), Mysql.stock(contestant)
      assert contestant.name.end_with?(" #{contestant.connections}")
      assert Mysql::GROUPS.fetch(Mysql.driver(contestant))
    end
  end

  def test_sleeps_are_asked_for_at_once
    layer = Layer.new(6)
    executor = Measured::Executor.named("neverblock")
    figures = executor.run { Measured::Sleeps.new(layer, executor, text: "select sleep(1)", sleeps: 6).call }
    assert_equal 6, figures[:operations]
    assert_equal({"select 1" => 120, "select sleep(1)" => 6}, layer.asked)
  end

  def test_bars
    results = [
      result("find_1ms_1000", "neverblock trilogy 32", rate: 1000.0, cpu: 1.1), result("find_1ms", "threads trilogy 32", rate: 1000.0, cpu: 1.0),
      result("sleeps", "neverblock trilogy 12", wall: 1.02, backends: 10), result("sleeps", "neverblock mysql2 12", wall: 2.01, backends: 12)
    ]
    bars = Mysql::Bars.new(results).all
    assert_equal [1.02, 2.01, 1.0, 1.1], bars.map { |bar| bar.figure.round(3) }
    assert_equal [true, false, true, false], bars.map(&:pass?)
    assert_equal ["10 connections", "12 connections", "1000/s and 1000/s", "110 ms and 100 ms"], bars.map(&:beside)
    assert_empty Mysql::Bars.new([]).all
  end

  # A missing figure is short, and says why.
  def test_bars_of_a_failure
    results = [result("find_1ms_1000", "neverblock trilogy 32", rate: 1.0, cpu: 1.0), result("find_1ms", "threads trilogy 32", failure: "no threads"),
      result("sleeps", "neverblock trilogy 12", failure: "no sleep")]
    bars = Mysql::Bars.new(results).all
    assert_equal [nil] * 3, bars.map(&:figure)
    assert_equal [false] * 3, bars.map(&:pass?)
    assert_equal ["no sleep", "no threads", "no threads"], bars.map(&:beside)
  end

  def test_the_report_compares_with_the_stock_adapter
    figures = {p50: 0.001, p99: 0.002, server_busy: 0.95, others: 0.0, starved: 0, backends: 12}
    results = [
      result("find_1ms_1000", "neverblock trilogy 12", rate: 2000.0, cpu: 2.0, wall: 1.0, **figures), result("find_1ms", "threads trilogy 12", rate: 1000.0, cpu: 1.0, wall: 2.0, **figures),
      result("find_1ms_1000", "pool trilogy 12", failure: "ended|badly"), result("sleeps", "neverblock trilogy 12", wall: 1.02, backends: 10)
    ]
    text = Mysql::Report.new(rows: [row("find_1ms_1000"), row("sleeps")], results:, rounds: 2, seconds: 0.5, notes: ["by a test"]).markdown
    lines = text.lines.grep(/^\| a row by its key, 1 ms, 1000 fibers/).map { |line| line.split(/ *\| */).drop(2).map(&:strip) }
    assert_equal ["2000 ±0 % *", "1000 ±0 % *", "failed"], lines[0].first(3)
    assert_equal [["200 ms", "100 ms", "failed"], ["2.00 (2.00–2.00)", "–"], ["2.00 (2.00–2.00)", "–"]], [lines[1].first(3), lines[4].first(2), lines[5].first(2)]
    assert_match(/^\| 10 × `select sleep\(1\)` at once \| +1\.02 s \|/, text)
    assert_includes text, "- a row by its key, 1 ms, pool trilogy 12: ended/badly"
  end

  slow "it starts MariaDB"
  def test_a_tiny_run
    %w[trilogy active_record].each { |name| require name }
    bench = mysql(%w[--rows sleeps,find_1ms_10 --contestants neverblock_trilogy_12 --rounds 1 --seconds 0.1])
    reason = bench.send(:missing) and skip reason
    report = Bench::Progress.stub(:new, silent) { bench.run }
    refute_includes report.markdown, "failed"
    assert_equal [true], report.bars.map { |bar| bar.figure.between?(1, 30) }
    samples = report.to_h.fetch(:results).to_h { |result| [result.fetch(:id), result.fetch(:samples).first] }
    assert_operator samples.fetch("find_1ms_10").fetch("rate"), :>, 0
    assert_includes 1..12, samples.fetch("sleeps").fetch("backends")
  rescue LoadError => error
    skip "it needs trilogy and Active Record: #{error.message}"
  end

  private

  def mysql(arguments) = Mysql.new(Bench::Options.parse(["mysql", *arguments]))

  def row(id) = Mysql::ROWS.find { |candidate| candidate.id == id }

  def silent
    progress = Bench::Progress.method(:new)
    ->(total) { progress.call(total, output: StringIO.new) }
  end

  # Of two rounds, ten operations each.
  def result(id, name, failure: nil, **figures)
    contestant = Mysql::CONTESTANTS.find { |candidate| candidate.name == name }
    found = row(id) || Mysql::ROWS.map { |candidate| candidate.for(contestant) }.find { |candidate| candidate.id == id }
    Bench::Result.new(Bench::Cell.new(found.group, contestant, id:)).tap do |result|
      2.times { result.samples << {"operations" => 10, **figures.transform_keys(&:to_s)} } unless failure
      result.failure = failure
    end
  end
end
