# frozen_string_literal: true

# The judging parts of bin/bench active_record: rows, contestants, bars, the report. None needs a database.
require_relative "../test_helper"
require_relative "../../benchmark/bench/options"
require_relative "../../benchmark/active_record/active_record"
require_relative "../../benchmark/database/child/executor"
require_relative "../../benchmark/database/child/closed_loop"

class BenchmarkActiveRecordTest < Minitest::Test
  Scenes = Bench::ActiveRecord

  def test_rows_have_names_of_their_own_and_a_workload
    assert_equal Scenes::ROWS.size, Scenes::ROWS.map(&:id).uniq.size
    Scenes::ROWS.each { |row| assert row.title }
    works = Scenes::ROWS.reject(&:connections).map(&:work).uniq
    works.each { |work| assert_includes Measured::Workloads.public_instance_methods(false), work.to_sym }
    assert_equal [0, 1, 0, 1, 1], works.map { |work| Measured::Workloads.new.creates(work) }
  end

  def test_rows_are_chosen
    assert_equal %w[heavy_1ms connections_8], scenes(%w[--rows heavy_1ms,connections_8]).rows.map(&:id)
    assert_equal [["connections_8", "pool 8"]], scenes(%w[--rows connections_8 --contestants pool]).fields.map { |row, contestant| [row.id, contestant.name] }
    assert_equal 5 + 3, scenes(%w[--quick]).rows.size
  end

  # Twenty over eight make waves of eight, eight and four.
  def test_waves
    assert_equal [10, 5, 3, 2, 1], Scenes::ROWS.filter_map { |row| row.waves if row.connections }
  end

  def test_together_does_each_once
    [nil, "neverblock", "threads"].each do |library|
      done = []
      together(library) { |many| many.call(50) { |number| (sleep 0.0001) && done << number } }
      assert_equal (0...50).to_a, done.sort
    end
  end

  def test_together_fails_with_whoever_fails
    [nil, "neverblock", "threads"].each do |library|
      error = assert_raises(KeyError) { together(library) { |many| many.call(50) { |number| {}.fetch(number) if number == 7 } } }
      assert_match(/7/, error.message)
    end
  end

  def test_bars_and_report
    results = [
      result("heavy_1ms", "neverblock 8", wall: 0.5, cpu: 0.2), result("heavy_1ms", "pool 8", wall: 1.0, cpu: 0.3), result("heavy_1ms", "blocking", failure: "ended|badly"),
      result("connections_8", "neverblock 8", wall: 0.1, cpu: 0.1, slept: 3.03, backends: 8), result("connections_4", "neverblock 4", failure: "ended")
    ]
    rows = Scenes::ROWS.select { |row| %w[heavy_1ms connections_8 connections_4].include?(row.id) }
    report = Scenes::Report.new(rows:, results:, rounds: 1, notes: ["by a test"])
    assert_equal [2.0, nil, 1.01], report.bars.map { |bar| bar.figure&.round(2) }
    assert_equal [true, false, true], report.bars.map(&:pass?)
    assert_match(/^\| heavy: three counts.* +2000 \| +1000 \| +failed \|/, report.markdown)
    assert_match(/^\| 8 connections +\| +100 ms \| +– \| +3\.03 s \| +– \| +3 s \| +3 s \| +8 \| +– \|/, report.markdown)
    assert_includes report.markdown, "- heavy_1ms, blocking: ended/badly"
    assert_includes report.charts.fetch(""), "pool 8"
  end

  private

  def scenes(arguments) = Scenes.new(Bench::Options.parse(["active_record", *arguments]))

  def together(library)
    executor = library && Measured::Executor.named(library, threads: 4)
    many = Measured::ClosedLoop.new(executor, fibers: 10)
    executor ? executor.run { yield many } : yield(many)
  end

  def result(id, name, failure: nil, **figures)
    row = Scenes::ROWS.find { |candidate| candidate.id == id }
    contestant = row.contestants.find { |candidate| candidate.name == name }
    Bench::Result.new(Bench::Cell.new(row.id, contestant, id:)).tap do |result|
      result.samples << {"operations" => 1000, **figures.transform_keys(&:to_s)} unless failure
      result.failure = failure
    end
  end
end
