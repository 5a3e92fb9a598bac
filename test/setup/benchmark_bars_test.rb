# frozen_string_literal: true

require "test_helper"
%w[catalogue options result].each { |file| require_relative "../../benchmark/bench/#{file}" }

# The arithmetic of each benchmark's report: which figures are compared, with which peer, and whether that passes. A wrong
# ratio makes a published verdict wrong, and a run of the benchmark (test/programs/benchmarks_test.rb) doesn't show it.
class BenchmarkBarsTest < Minitest::Test
  # Figures that a table shows beside those of a test.
  HIT = {rate: 1.0, cpu: 1.0, p50: 1.0, p99: 1.0, longest: 1.0, memory: 1, calls: 0, asked: 0}.freeze

  def test_active_record_compares_with_the_pool_and_with_the_waves_of_sleeps
    bars = bars("active_record", ["heavy_1ms", "neverblock 8"] => {operations: 1000, wall: 0.5, cpu: 0.2}, ["heavy_1ms", "pool 8"] => {operations: 1000, wall: 1.0, cpu: 0.3},
      ["connections_8", "neverblock 8"] => {wall: 0.1, cpu: 0.1, slept: 3.03, backends: 8}, ["connections_4", "neverblock 4"] => "ended")
    assert_bars [[2.0, true], [nil, false], [1.01, true]], bars
    assert_equal [10, 5, 3, 2, 1], Bench::ActiveRecord::ROWS.filter_map { |row| row.waves if row.connections }, "of 20 sleeps"
  end

  # 10 µs are the server's and the app's: 30 µs of 90 are a third in total, and a quarter of rack-cache's own share.
  def test_cache_compares_a_hit_in_total_and_by_its_own_share
    alone = {["hit_1kB", "the app alone"] => {**HIT, cpu: 10.0}, ["hit_1kB", "memory"] => {**HIT, cpu: 30.0}}
    others = {["hit_1kB", "rack-cache heap"] => {**HIT, cpu: 90.1}, ["hit_1kB", "file"] => {**HIT, cpu: 30.0}, ["hit_1kB", "rack-cache file"] => {**HIT, cpu: 40.0}}
    assert_bars [[0.33, true], [0.25, true], [0.75, false], [0.67, false]], bars("cache", {**alone, **others})
    assert_empty bars("cache", alone)
    assert_equal [[nil, "it ended"]] * 2, bars("cache", {**alone, ["hit_1kB", "rack-cache heap"] => "it ended"}).map { |bar| [bar.figure, bar.beside] }
  end

  # The worst of all rounds counts.
  def test_cache_expects_one_call_and_short_holds_of_a_crowd
    figures = {**HIT, calls: 1, held: 0.019, held_working: 0.01, held_first: 0.04, collecting: 0.1, memory_each: 1_000}
    assert_bars [[1, true], [21.0, false], [10.0, true]], bars("cache", ["herd_1000", "memory"] => [figures, {**figures, held: 0.021}])
  end

  def test_cost_takes_the_ratios_of_paired_rounds
    mine = [[1.0, 1.0], [2.0, 2.0], [1.0, 0.9]]
    {[[1.0, 1.1], [2.0, 2.0], [1.0, 1.0]] => true, [[0.9, 1.0], [1.8, 2.0], [0.9, 1.0]] => false, [[1.0, 0.9], [2.0, 1.8], [1.0, 0.8]] => false}.each do |others, pass|
      assert_equal [pass], verdicts(mine, others).map { |verdict| verdict.fetch(:pass) }, "processor and wall time of the pool: #{others}"
    end
    cpu, rate = verdicts(mine, [[1.0, 1.1], [2.0, 2.0], [1.0, 1.0]]).first.values_at(:cpu, :rate).map { |ratio| ratio.fetch(:mean) }
    assert_in_delta 1.0, cpu
    assert_in_delta 1.0691, rate, 0.001
    assert_equal [nil], verdicts(mine, "ended")
  end

  def test_database_compares_with_pools_and_with_itself_alone
    row = "active_record_find_1ms_1000"
    bars = bars("database", [row, "neverblock 8"] => {rate: 2100.0, cpu: 0.8, backends: 9}, [row, "pool 8"] => {rate: 1000.0, cpu: 1.0, backends: 8}, [row, "pool 32"] => {rate: 2200.0, cpu: 1.1, backends: 32},
      ["active_record_find_0ms_1000", "neverblock 8"] => {rate: 50.0, cpu: 1.0, backends: 8}, ["active_record_find_0ms_1000", "pool 8"] => {rate: 40.0, cpu: 1.0, backends: 8},
      ["raw_same_1ms", "neverblock 8"] => {rate: 10.0, alone_p99: 1.0, p99: 1.5}, ["sequel_crowd_1ms_10000", "neverblock 8"] => {bytes: 65 * 1024, wall: 2.0})
    assert_bars [[2.1, true], [0.95, false], [0.28, false], [1.25, true], [0.8, true], [1.0, false], [1.5, true], [65, false]], bars
    assert_short "not there yet", bars("database", [row, "neverblock 8"] => "not there yet", [row, "pool 8"] => {rate: 1.0, cpu: 1.0})
  end

  # As the founding project reported it: 16 % to 160 %.
  def test_http_ratios_are_advantages_in_percent_beside_those_of_2008
    bars = bars("http_ratios", **pair("1_to_5_at_10", 200.0, 100.0), **pair("1_to_100_at_10", 90.0, 100.0), ["1_to_20_at_10", "fibers"] => "ended", ["1_to_20_at_10", "blocking"] => {rate: 1.0, cpu: 1.0, backends: 1})
    assert_equal [[100, true], [nil, false], [-10, false]], bars.map { |bar| [bar.figure&.round, bar.pass?] }
    ratios = Bench::HttpRatios
    assert_equal [16, 160], ratios::ROWS.map { |row| ratios::Report.advantage(*ratios::Report::FOUNDING.dig(row.short, row.concurrency)).round }.minmax
  end

  def test_mysql_compares_with_the_stock_adapter_and_with_one_sleep
    ours, threads = ["find_1ms_1000", "neverblock trilogy 32"], ["find_1ms", "threads trilogy 32"]
    bars = bars("mysql", ours => {operations: 10, rate: 1000.0, cpu: 1.1}, threads => {operations: 10, rate: 1000.0, cpu: 1.0},
      ["sleeps", "neverblock trilogy 12"] => {wall: 1.02, backends: 10}, ["sleeps", "neverblock mysql2 12"] => {wall: 2.01, backends: 12})
    assert_bars [[1.02, true], [2.01, false], [1.0, true], [1.1, false]], bars
    assert_short "no threads", bars("mysql", ours => {rate: 1.0, cpu: 1.0}, threads => "no threads")
  end

  def test_proxied_divides_the_figures_of_the_socket_by_those_of_tcp
    text = report("proxied", ["hello", "tcp"] => {operations: 1_000, rate: 1_000, app_cpu: 0.2, nginx_cpu: 0.2}, ["hello", "unix"] => {operations: 1_000, rate: 1_500, app_cpu: 0.1, nginx_cpu: 0.2}).markdown
    assert_match(/^\| hello +\| +1000 ±0 % \| +1500 ±0 % +\| +1\.50 \| +400 µs \(200 µs \+ 200 µs\) \| +300 µs \(100 µs \+ 200 µs\) \| +0\.75 \|$/, text)
  end

  def test_proxy_compares_with_nginx_turn_by_turn
    ours = [1.9, 6.0, 2.0].map { |cpu| {**HIT, cpu:} }
    assert_bars [[2.0, true]], bars("proxy", ["hit", "neverblock epoll"] => ours, ["hit", "nginx"] => [1.0, 3.0, 0.5].map { |cpu| {**HIT, cpu:} })
    assert_bars [[nil, false]], bars("proxy", ["pass", "neverblock epoll"] => HIT)
  end

  def test_rails_compares_with_the_best_peer_and_with_itself_alone
    turns = {"neverblock" => [110.0, 220.0, 60.0], "puma 5" => [100.0, 200.0, 10.0], "falcon" => [120.0, 230.0, 70.0]}
      .to_h { |name, rates| [["turns", name], rates.map { |rate| {rate:, cpu: 1.0} }] }
    bars = bars("rails", ["hello", "neverblock"] => {memory: 90}, ["hello", "puma 5"] => {memory: 100}, ["hello", "falcon"] => {memory: 50}, **turns,
      ["beside", "neverblock"] => {alone_p99: 1.0, queries_p99: 1.5, seconds_p99: 2.5, memory: 95}, ["together", "neverblock"] => {wall: 1.04})
    assert_bars [[1.1, true], [0.92, false], [1.5, true], [2.5, false], [1.04, true], [0.95, true]], bars
    assert_equal "did not answer", bars("rails", ["turns", "neverblock"] => "did not answer", ["turns", "puma 3"] => {rate: 100.0, cpu: 1.0}).first.beside
  end

  def test_rails_sqlite_compares_turn_by_turn_and_leaves_out_turns_without_an_answer
    bars = sqlite("neverblock" => [100.0, 220.0, 60.0], "puma 3" => [100.0, 200.0, 10.0], "puma 5" => [125.0, 200.0, 60.0])
    assert_equal [1.1, 1.0], figures(bars, "requests per second")
    assert_equal [1.0, 1.0], figures(bars, "processor time")
    assert_equal 12, bars.count(&:pass?)
    assert_equal [1.1], figures(sqlite("neverblock" => [100.0, 220.0], "puma 3" => [0.0, 200.0]), "requests per second")
    assert_short "did not answer", sqlite("neverblock" => "did not answer", "puma 3" => [100.0])
  end

  def test_rails_workloads_compare_with_puma_and_with_the_arithmetic_limit
    ours, puma = {cpu: 0.5, memory: 120, errors: 0}, {cpu: 0.6, memory: 600, errors: 0}
    bars = bars("rails_workloads", {["one_in_10_1000", "neverblock 1x12"] => {operations: 1_000, wall: 9.1, rate: 109.9, **ours}, ["one_in_10_1000", "puma 12x1"] => {operations: 1_000, wall: 9.2, rate: 108.7, **puma},
                                    ["one_in_10_1000", "puma 4x5"] => {operations: 1_000, wall: 5.2, rate: 192.0, **puma}, ["one_in_200_200", "neverblock 1x12"] => {operations: 1_000, wall: 1.7, rate: 588.0, **ours}})
    assert_bars [[1.01, true], [0.99, true], [0.2, true], [0, true]], bars
    assert_short "did not answer", bars("rails_workloads", ["one_in_10_1000", "neverblock 1x12"] => "did not answer", ["one_in_10_1000", "puma 12x1"] => {operations: 1_000, wall: 9.2, rate: 108.7, **puma})
  end

  # A hundred sleeps on twelve connections are nine waves; late requests end late.
  def test_the_limit_of_rails_workloads
    Bench::Catalogue.load("rails_workloads")
    {["one_in_10_200", 12, 0.0] => 9.0, ["one_in_10_200", 20, 0.0] => 5.0, ["one_in_200_200", 12, 0.001] => 1.8, ["one_in_200_200", 12, 0.01] => 10.0, ["one_in_20_10", 20, 0.0] => 5.0}
      .each do |(id, connections, cpu), seconds|
        row = Bench::RailsWorkloads::ROWS.find { |candidate| candidate.id == id }
        assert_in_delta seconds, Bench::RailsWorkloads::Limit.seconds(row, connections:, cpu:), 0.001, id
      end
  end

  def test_servers_compare_with_the_best_peer_and_the_floor
    bars = servers("hello_32", "neverblock epoll" => {rate: 100, cpu: 1.3}, "iodine" => {rate: 90, cpu: 1.2}, "puma" => {rate: 30, cpu: 0.1}, "nginx" => {rate: 120, cpu: 1.0})
    assert_bars [[1.11, true], [1.3, true], [1.08, false], [11.0, true]], bars
    assert_equal "rate 1.11 × iodine's, processor time 1.08 × iodine's", bars.first.beside
    assert_short "ended with SIGSEGV", servers("hello_32", "neverblock epoll" => "ended with SIGSEGV", "iodine" => {rate: 1, cpu: 1})
  end

  # The client limits the rate of big responses, so processor time decides.
  def test_servers_compare_processor_time_if_the_client_is_busy
    assert_bars [[0.5, false], [0.5, false]], servers("big", "neverblock epoll" => {rate: 100, cpu: 2.0, client_busy: 0.99}, "falcon" => {rate: 50, cpu: 1.0})
  end

  # Changes of the machine's pace between turns are not differences between servers.
  def test_servers_compare_turn_by_turn
    turns = {"neverblock epoll" => [100, 300, 220], "iodine" => [110, 100, 200]}.transform_values { |rates| rates.map { |rate| {operations: rate, rate: rate.to_f, cpu: 1.0} } }
    assert_in_delta 1.1, bars("servers", turns.transform_keys { |name| ["cpu", name] }).first.figure
  end

  def test_servers_compare_latency_and_memory
    assert_in_delta 3.0, servers("beside_slow", "neverblock epoll" => {rate: 100, cpu: 1, p99: 0.003, alone_p99: 0.001}).first.figure
    best, each = servers("idle", "neverblock epoll" => {rate: 1, cpu: 1, memory_each: 300.0, answered_again: 9_999}, "puma" => {rate: 1, cpu: 1, memory_each: 3_000.0})
    assert_in_delta 10.0, best.figure
    assert_equal [300.0, "9999 of 100 answered again"], [each.figure, each.beside]
  end

  private

  # @param figures [Hash{Array(String, String)=>Hash, Array<Hash>, String}] by row and contestant: the figures of each round,
  #   or the reason of a failure
  # @return [Array<Bench::Bar>]
  def bars(name, figures) = report(name, figures).bars

  def report(name, figures)
    benchmark = Bench::Catalogue.load(name).new(Bench::Options.parse([name]))
    cells = benchmark.send(:cells, nil)
    results = figures.map do |(id, contestant), samples|
      cell = cells.find { |candidate| candidate.traits[:id] == id && candidate.contestant.name == contestant } || flunk("#{name} has no #{id} with #{contestant}")
      Bench::Result.new(cell).tap do |result|
        next result.failure = samples if String === samples
        [samples].flatten.each { |sample| result.samples << {"operations" => 1, **sample.transform_keys(&:to_s)} }
      end
    end
    rows = benchmark.rows.select { |row| results.any? { |result| result.cell.traits[:id] == row.id } }
    benchmark.define_singleton_method(:rows) { rows }
    benchmark.send(:report, results, [])
  end

  def servers(id, figures)
    samples = figures.transform_values { |sample| (String === sample) ? sample : {operations: 100, objects: 1100, **sample, cpu: sample[:cpu] * 100.0, rate: sample[:rate].to_f} }
    bars("servers", samples.transform_keys { |name| [id, name] })
  end

  def sqlite(rates)
    figures = {operations: 1_000, cpu: 1.0, p50: 0.01, p99: 0.02, write_p50: 0.01, write_p99: 0.02, memory: 1 << 20}
    samples = rates.transform_values { |list| (String === list) ? list : list.map { |rate| {**figures, rate:} } }
    bars("rails_sqlite", samples.transform_keys { |name| ["app", name] })
  end

  def pair(id, fibers, blocking) = {[id, "fibers"] => {rate: fibers, cpu: 1.0, backends: 12}, [id, "blocking"] => {rate: blocking, cpu: 1.0, backends: 1}}

  # @return [Array<Hash, nil>] of the pool's rows
  def verdicts(mine, others)
    samples = [mine, others].map { |rounds| (String === rounds) ? rounds : rounds.map { |cpu, wall| {operations: 1000, cpu:, wall:, objects: 5000, collecting: 0.001, switches: 10, others: 0.0, server_busy: 0.1} } }
    report("cost", ["ar_find_0ms_10", "neverblock 8"] => samples.first, ["ar_find_0ms_10", "pool 8"] => samples.last).to_h.fetch(:rows).map { |row| row["pool 8"] }
  end

  def figures(bars, word) = bars.select { |bar| bar.title.include?(word) }.map { |bar| bar.figure.round(3) }

  def assert_bars(expected, bars) = assert_equal(expected, bars.map { |bar| [bar.figure&.round(2), bar.pass?] })

  # What could not be measured is short, and says why.
  def assert_short(reason, bars)
    refute_empty bars
    assert_equal [[nil, false, reason]], bars.map { |bar| [bar.figure, bar.pass?, bar.beside] }.uniq
  end
end
