# frozen_string_literal: true

require_relative "../test_helper"
require_relative "../../benchmark/bench/options"
require_relative "../../benchmark/bench/result"
require_relative "../../benchmark/proxied/proxied"

# The table of bin/bench proxied.
class BenchmarkProxiedTest < Minitest::Test
  def test_figures_side_by_side
    results = [result("hello", "tcp", rate: 1_000, app: 0.2, nginx: 0.2), result("hello", "unix", rate: 1_500, app: 0.1, nginx: 0.2)]
    text = report(results).markdown
    assert_match(/^\| hello +\| +1000 ±0 % \| +1500 ±0 % +\| +1\.50 \| +400 µs \(200 µs \+ 200 µs\) \| +300 µs \(100 µs \+ 200 µs\) \| +0\.75 \|$/, text)
  end

  def test_failures_are_reported
    failed = result("hello", "unix", rate: 1, app: 1, nginx: 1).tap { |one| one.failure = "it did not answer" }
    text = report([result("hello", "tcp", rate: 1, app: 1, nginx: 1), failed]).markdown
    assert_match(/^- hello, unix: it did not answer$/, text)
    refute_match(/^\| hello/, text)
  end

  def test_every_row_is_one_of_the_servers_benchmark
    Bench::Proxied::ROWS.each { |row| assert Bench::Servers::Row.named(row.asked) }
  end

  private

  def report(results) = Bench::Proxied::Report.new(rows: Bench::Proxied::ROWS, results:, rounds: 1, seconds: 1.0)

  def result(row, name, rate:, app:, nginx:)
    contestant = Bench::Proxied::CONTESTANTS.find { |one| one.name == name }
    Bench::Result.new(Bench::Cell.new(row, contestant)).tap do |result|
      result.samples << {"operations" => 1_000, "rate" => rate, "app_cpu" => app, "nginx_cpu" => nginx}
    end
  end
end
