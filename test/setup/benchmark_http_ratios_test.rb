# frozen_string_literal: true

# The judging parts of bin/bench http_ratios: rows, contestants, bars, the report. None needs a database.
require_relative "../test_helper"
require_relative "../../benchmark/bench/options"
require_relative "../../benchmark/http_ratios/http_ratios"

class BenchmarkHttpRatiosTest < Minitest::Test
  Ratios = Bench::HttpRatios

  def test_fifteen_rows_each_of_which_there_was_in_2008
    assert_equal 15, Ratios::ROWS.map(&:id).uniq.size
    Ratios::ROWS.each { |row| assert_equal 2, Ratios::Report::FOUNDING.dig(row.short, row.concurrency).size }
  end

  # As the founding project reported it: 16 % to 162 %.
  def test_the_advantage_in_2008
    advantages = Ratios::ROWS.map { |row| Ratios::Report.advantage(*Ratios::Report::FOUNDING.dig(row.short, row.concurrency)).round }
    assert_equal [16, 160], advantages.minmax
  end

  def test_rows_are_chosen
    assert_equal %w[1_to_20_at_100], ratios(%w[--rows 1_to_20_at_100]).rows.map(&:id)
    assert_equal [["1_to_20_at_100", "blocking"]], ratios(%w[--rows 1_to_20_at_100 --contestants blocking]).fields.map { |row, contestant| [row.id, contestant.name] }
    assert_equal 6, ratios(%w[--quick]).rows.size
  end

  def test_a_row_asks_the_url_of_the_contestant
    row = Ratios::ROWS.find { |candidate| candidate.id == "1_to_20_at_100" }
    assert_equal ["GET /fibers/20 HTTP/1.1", "GET /blocking/20 HTTP/1.1"], Ratios::CONTESTANTS.map { |contestant| row.raw(contestant).lines.first.chomp }
  end

  def test_bars_and_report
    results = [
      *pair("1_to_5_at_10", 200.0, 100.0), *pair("1_to_100_at_10", 90.0, 100.0),
      result("1_to_20_at_10", "fibers", failure: "ended|badly"), result("1_to_20_at_10", "blocking", rate: 1.0, cpu: 1.0, backends: 1)
    ]
    rows = Ratios::ROWS.select { |row| %w[1_to_5_at_10 1_to_100_at_10 1_to_20_at_10].include?(row.id) }
    report = Ratios::Report.new(rows:, results:, rounds: 1, seconds: 1.0, notes: ["by a test"])
    assert_equal [100, nil, -10], report.bars.map { |bar| bar.figure&.round }
    assert_equal [true, false, false], report.bars.map(&:pass?)
    assert_match(/^\| 1 long to 5 short, 10 at once +\| 200 ±0 % \| 100 ±0 % \| +100 % \| +70 \| +41 \| +71 % \|/, report.markdown)
    assert_includes report.markdown, "- 1_to_20_at_10, fibers: ended/badly"
    assert_includes report.charts.fetch(""), "10 at once, in 2008"
  end

  # One row makes no graph.
  def test_no_graph_of_one_row
    row = Ratios::ROWS.first
    assert_empty Ratios::Report.new(rows: [row], results: pair(row.id, 2.0, 1.0), rounds: 1, seconds: 1.0, notes: []).charts
  end

  private

  def ratios(arguments) = Ratios.new(Bench::Options.parse(["http_ratios", *arguments]))

  def pair(id, fibers, blocking) = [result(id, "fibers", rate: fibers, cpu: 1.0, backends: 12), result(id, "blocking", rate: blocking, cpu: 1.0, backends: 1)]

  def result(id, name, failure: nil, **figures)
    contestant = Ratios::CONTESTANTS.find { |candidate| candidate.name == name }
    Bench::Result.new(Bench::Cell.new(id, contestant, id:)).tap do |result|
      result.samples << {"operations" => 1, **figures.transform_keys(&:to_s)} unless failure
      result.failure = failure
    end
  end
end
