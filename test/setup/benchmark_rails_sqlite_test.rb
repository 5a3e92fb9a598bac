# frozen_string_literal: true

# The judging parts of bin/bench rails_sqlite: rows, comparisons, the report. None needs an app.
require_relative "../test_helper"
require_relative "../../benchmark/bench/options"
require_relative "../../benchmark/rails_sqlite/rails_sqlite"

class BenchmarkRailsSqliteTest < Minitest::Test
  Scene = Bench::RailsSqlite

  def test_rows_have_names_of_their_own_and_a_measurement_and_columns
    assert_equal Scene::ROWS.size, Scene::ROWS.map(&:id).uniq.size
    Scene::ROWS.each do |row|
      assert_respond_to Scene::MEASUREMENTS.fetch(row.measure).call(row, 1.0), :call
      assert Scene::Report::COLUMNS.fetch(row.measure), row.id
    end
  end

  # A path that the app does not know would fail for every server.
  def test_the_app_routes_every_path
    routes = File.read(File.join(Scene::App::OVERLAY, "config", "routes.rb"))
    Scene::Mixture.paths.each { |path| assert_match(/\b#{path[/\w+/]}\b/, routes) }
  end

  def test_bars_compare_turn_by_turn_with_each_peer
    results = [result("neverblock", [100.0, 220.0, 60.0]), result("puma 3", [100.0, 200.0, 10.0]), result("puma 5", [125.0, 200.0, 60.0])]
    bars = Scene::Report.new(rows: [Scene::ROWS.first], results:, rounds: 3, seconds: 1.0, notes: []).bars
    rates = bars.select { |bar| bar.title.include?("requests per second") }
    assert_equal [1.1, 1.0], rates.map(&:figure)
    costs = bars.select { |bar| bar.title.include?("processor time") }
    assert_equal [1.0, 1.0], costs.map { |bar| bar.figure.round(3) }
    assert_equal 12, bars.count(&:pass?)
  end

  # A tenth of a second may be too short for a single comment.
  def test_bars_leave_out_turns_without_an_answer
    results = [result("neverblock", [100.0, 220.0]), result("puma 3", [0.0, 200.0])]
    bars = Scene::Report.new(rows: [Scene::ROWS.first], results:, rounds: 2, seconds: 0.1, notes: []).bars
    assert_in_delta 1.1, bars.find { |bar| bar.title.include?("requests per second") }.figure
  end

  # What could not be measured is short, and says why.
  def test_bars_of_a_failure
    results = [result("neverblock", [], failure: "did not answer"), result("puma 3", [100.0])]
    bars = Scene::Report.new(rows: [Scene::ROWS.first], results:, rounds: 1, seconds: 1.0, notes: []).bars
    assert_equal [nil], bars.map(&:figure).uniq
    assert_empty bars.select(&:pass?)
    assert_equal ["did not answer"], bars.map(&:beside).uniq
  end

  def test_the_report_has_a_table_for_each_row
    report = Scene::Report.new(rows: [Scene::ROWS.first], results: [result("neverblock", [100.0])], rounds: 10, seconds: 1.0, notes: ["by a test"])
    assert_match(/^\| neverblock \| +100 ±0 % \| +1\.00 ms \|/, report.markdown)
    assert_includes report.markdown, "- by a test"
  end

  # By the binomial distribution: with five rounds more than 5 % lie beyond the outermost, with ten 2 % beyond the
  # second.
  def test_the_interval_of_a_median
    assert_nil Bench::Statistics.interval([1] * 5)
    assert_equal 1..6, Bench::Statistics.interval([3, 1, 2, 6, 5, 4])
    assert_equal 2..9, Bench::Statistics.interval((1..10).to_a.reverse)
  end

  private

  def result(name, rates, failure: nil)
    contestant = Scene::CONTESTANTS.find { |candidate| candidate.name == name }
    Bench::Result.new(Bench::Cell.new(Scene::ROWS.first.title, contestant, id: Scene::ROWS.first.id)).tap do |result|
      rates.each { |rate| result.samples << {"operations" => 1_000, "rate" => rate, "cpu" => 1.0, "p50" => 0.01, "p99" => 0.02, "write_p50" => 0.01, "write_p99" => 0.02, "memory" => 1 << 20} }
      result.failure = failure
    end
  end
end
