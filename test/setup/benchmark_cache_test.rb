# frozen_string_literal: true

# The judging parts of bin/bench cache: rows, contestants, bars, the report; and the app that all caches have behind them.
require_relative "../test_helper"
require_relative "../../benchmark/bench/options"
require_relative "../../benchmark/cache/cache"
require_relative "../../benchmark/cache/kinds"

class BenchmarkCacheTest < Minitest::Test
  Cache = Bench::Cache
  App = Measured::CachedApp

  def test_rows_have_names_of_their_own_and_quick_has_some
    assert_equal 10, Cache::ROWS.map(&:id).uniq.size
    assert_equal %w[hit_1kB not_modified puma_hit_1kB puma_not_modified herd_1000 clients_1000], cache(%w[--quick]).rows.map(&:id)
  end

  def test_rows_and_contestants_are_chosen
    fields = cache(%w[--rows hit_64kB,herd_10000 --contestants memory,rack-cache_heap]).fields.map { |row, contestant| "#{row.id}: #{contestant}" }
    assert_equal ["hit_64kB: memory", "hit_64kB: rack-cache heap", "herd_10000: memory"], fields
  end

  def test_the_app_has_pages_that_a_cache_keeps
    app = App.new
    status, headers, body = app.call("PATH_INFO" => "/page_64kB")
    assert_equal [200, "64000", 64_000], [status, headers["content-length"], body.join.bytesize]
    assert_equal 304, app.call("PATH_INFO" => "/page_1kB", "HTTP_IF_NONE_MATCH" => App::TAG).first
    assert_equal ["2"], app.call("PATH_INFO" => "/calls").last
    app.call("PATH_INFO" => "/forget")
    assert_equal ["0"], app.call("PATH_INFO" => "/calls").last
  end

  def test_an_unknown_cache_is_an_error
    error = assert_raises(ArgumentError) { Measured::Kinds.wrap("varnish", App.new) }
    assert_equal 'there is no cache "varnish"', error.message
  end

  # 10 µs are the server's and the app's: 30 µs of 90 are a third in total, and a quarter of rack-cache's own share.
  def test_a_hit_is_compared_in_total_and_by_its_own_share
    report = report("hit_1kB", alone: {cpu: 10.0}, memory: {cpu: 30.0}, rack_heap: {cpu: 90.1}, file: {cpu: 30.0}, rack_file: {cpu: 40.0})
    assert_equal [0.33, 0.25, 0.75, 0.67], report.bars.map { |bar| bar.figure.round(2) }
    assert_equal [true, true, false, false], report.bars.map(&:pass?)
    assert_match(/in total, memory\z/, report.bars.first.title)
    assert_match(/^\| memory +\| .* 30\.0 s \| +20\.0 s \|/, report.markdown)
    assert_match(/^\| the app alone +\| .* 10\.0 s \| +– \|/, report.markdown)
  end

  def test_a_hit_without_its_peer_has_no_bar
    assert_empty report("hit_1kB", alone: {cpu: 10.0}, memory: {cpu: 30.0}).bars
  end

  def test_a_failed_peer_is_short_with_its_reason
    bars = report("hit_1kB", alone: {cpu: 10.0}, memory: {cpu: 30.0}, rack_heap: "it ended").bars
    assert_equal [[nil, "it ended"]] * 2, bars.map { |bar| [bar.figure, bar.beside] }
  end

  def test_an_app_that_was_asked_during_hits_is_told
    assert_match(/the app was asked 3 times/, report("hit_1kB", alone: {cpu: 1.0, calls: 9}, memory: {cpu: 1.0, calls: 3}).markdown)
    refute_match(/the app was asked/, report("hit_1kB", alone: {cpu: 1.0, calls: 9}, memory: {cpu: 1.0, calls: 0}).markdown)
  end

  # The worst of all rounds counts.
  def test_a_crowd_has_one_call_and_short_holds
    figures = {calls: 1, held: 0.019, held_working: 0.01, held_first: 0.04, collecting: 0.1, memory_each: 1_000}
    report = report("herd_1000", memory: [figures, figures.merge(held: 0.021)], rack_heap: figures.merge(calls: 1_000))
    assert_equal [1, 21.0, 10.0], report.bars.map(&:figure)
    assert_equal [true, false, true], report.bars.map(&:pass?)
    assert_match(/^\| rack-cache heap +\| +1000 \|/, report.markdown)
  end

  private

  def cache(arguments) = Cache.new(Bench::Options.parse(["cache", *arguments]))

  # Of one operation each.
  def report(id, **figures)
    row = Cache::Row.named(id)
    results = figures.map do |kind, samples|
      contestant = Cache::CONTESTANTS.find { |candidate| candidate.library == kind.name }
      Bench::Result.new(Bench::Cell.new(row.title, contestant, id:)).tap do |result|
        next result.failure = samples if String === samples
        [samples].flatten.each do |sample|
          result.samples << {"operations" => 1, "rate" => 1.0, "cpu" => 1.0, "p50" => 1.0, "p99" => 1.0, "longest" => 1.0, "memory" => 1, "calls" => 0, **sample.transform_keys(&:to_s)}
        end
      end
    end
    Cache::Report.new(rows: [row], results:, rounds: 1, seconds: 1.0, notes: [])
  end
end
