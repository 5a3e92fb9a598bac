# frozen_string_literal: true

# The judging parts of bin/bench rails: rows, bars, the report.
require_relative "../test_helper"
require_relative "../../benchmark/bench/options"
require_relative "../../benchmark/rails/rails"

class BenchmarkRailsTest < Minitest::Test
  Rails = Bench::Rails

  def test_rows_have_names_of_their_own_and_a_measurement_and_columns
    assert_equal Rails::ROWS.size, Rails::ROWS.map(&:id).uniq.size
    Rails::ROWS.each do |row|
      assert_respond_to Rails::MEASUREMENTS.fetch(row.measure).call(row, 1.0), :call unless row.measure == :turns
      assert Rails::Report::COLUMNS.fetch(row.measure), row.id
    end
  end

  # A row with a path that the app lacks would fail for every server.
  def test_the_app_routes_every_path
    routes = File.read(File.join(Rails::App::OVERLAY, "config", "routes.rb"))
    paths = [*Rails::ROWS.map(&:path), *Rails::Mixed::RATES.keys, *Rails::WARM].uniq
    paths.each { |path| assert_match(/#{path[/\w+/]}\b/, routes) }
  end

  def test_answers_are_known_by_a_part_of_them
    row = Rails::ROWS.find { |candidate| candidate.id == "json" }
    assert row.right?('[{"name":"Item 19"}]')
    refute row.right?("[]")
  end

  def test_bars_compare_with_each_peer
    results = [
      result("hello", "neverblock", memory: 90), result("hello", "puma 5", memory: 100), result("hello", "falcon", memory: 50),
      turns("neverblock", [110.0, 220.0, 60.0]), turns("puma 5", [100.0, 200.0, 10.0]), turns("falcon", [120.0, 230.0, 70.0]),
      result("beside", "neverblock", alone_p99: 1.0, queries_p99: 1.5, seconds_p99: 2.5, memory: 95),
      result("together", "neverblock", wall: 1.04)
    ]
    bars = Rails::Bars.new(results).all
    assert_equal [1.1, 0.917, 1.5, 2.5, 1.04, 0.95], bars.map { |bar| bar.figure.round(3) }
    assert_equal [true, false, true, false, true, true], bars.map(&:pass?)
  end

  # A missing figure is short, and says why.
  def test_bars_of_a_failure
    results = [result("turns", "neverblock", failure: "did not answer"), turns("puma 3", [100.0]), result("beside", "neverblock", failure: "did not answer")]
    bars = Rails::Bars.new(results).all
    assert_equal [nil, nil, nil, nil], bars.map(&:figure)
    assert_empty bars.select(&:pass?)
    assert_equal "did not answer", bars.first.beside
  end

  def test_the_report_has_a_table_for_each_row_and_a_chart
    results = %w[neverblock puma\ 5].map { |name| result("hello", name, rate: 100.0, p50: 0.01, p99: 0.02, cpu: 1.0, memory: 1 << 20, connections: 5) }
    report = Rails::Report.new(rows: [Rails::ROWS.first], results:, rounds: 1, seconds: 1.0, notes: ["by a test"])
    assert_match(/^\| neverblock \| +100 ±0 % \| +1\.00 × \|/, report.markdown)
    assert_includes report.markdown, "- by a test"
    assert_includes report.charts.fetch(""), "puma 5"
  end

  private

  def turns(name, rates)
    result("turns", name, rate: rates.first, cpu: 1.0).tap { |result| rates.drop(1).each { |rate| result.samples << {"operations" => 1, "rate" => rate, "cpu" => 1.0} } }
  end

  def result(id, name, failure: nil, **figures)
    contestant = Rails::CONTESTANTS.find { |candidate| candidate.name == name }
    row = Rails::ROWS.find { |candidate| candidate.id == id }
    Bench::Result.new(Bench::Cell.new(row.title, contestant, id:)).tap do |result|
      result.samples << {"operations" => 1, **figures.transform_keys(&:to_s)} unless failure
      result.failure = failure
    end
  end
end
