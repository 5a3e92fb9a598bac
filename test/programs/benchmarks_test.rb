# frozen_string_literal: true

# slow: it runs each benchmark (120 s)

require "test_helper"
require "json"
require "open3"
require "tmpdir"
require_relative "../../benchmark/bench/catalogue"
require_relative "../../benchmark/bench/options"

# Each benchmark of bin/bench at its smallest size: a row or two, few contestants, hundredths of a second. All processes,
# servers and databases are real; the figures are worth nothing, but each is there and possible. The gems are those of
# test/apps/benchmark.gemfile, which the tests have anyway.
class BenchmarksTest < Minitest::Test
  include NeverBlockTest::Helpers

  ROOT = NeverBlockTest::ROOT
  GEMS = {"BUNDLE_GEMFILE" => File.join(ROOT, "test", "apps", "benchmark.gemfile"), "BUNDLE_PATH" => File.join(ROOT, "vendor", "bundle"),
          "BUNDLE_VERSION" => "system", "RUBYOPT" => nil, "RUBYLIB" => nil}.freeze

  # The arguments of each benchmark's smallest run.
  SIZES = {
    "runtime" => %w[--only queue,round --contestants neverblock_epoll,threads],
    "delays" => ["--only", "10 ms", "--contestants", "neverblock_epoll,threads"],
    "fibers" => ["--rows", "100 created,100 parked"],
    "servers" => %w[--rows hello_32,upload --contestants neverblock_epoll,puma,nginx],
    "proxied" => %w[--rows hello],
    "rails" => %w[--rows hello --contestants neverblock,puma_3],
    "database" => %w[--rows raw_find_0ms_100,sequel_find_0ms_100 --contestants neverblock_8,pool_8],
    "mysql" => %w[--rows find_0ms_100,sleeps --contestants neverblock_trilogy_12,threads_trilogy_12],
    "cost" => %w[--rows pg_exec_0ms_10],
    "active_record" => %w[--rows connections_8 --contestants neverblock_8,pool_8],
    "http_ratios" => %w[--rows 1_to_5_at_10],
    "rails_workloads" => %w[--rows one_in_20_10 --contestants neverblock_1x12,puma_4x3],
    "rails_sqlite" => %w[--rows app --contestants neverblock,puma_3],
    "tenants" => %w[--rows nothing,set],
    "stores" => %w[--rows redis_get,memcached_multiget --contestants neverblock,threads],
    "cache" => %w[--rows hit_1kB --contestants alone,memory],
    "proxy" => %w[--rows pass,hit --contestants neverblock_epoll,nginx],
    "large_answers" => %w[--rows nothing,rows_1kB],
    "offload_sizes" => %w[--rows deflate_1_2KiB],
    "crowded" => %w[--rows process],
    "scaling" => %w[--rows tasks_10,leases_10,catalogue_10,text_10,rows_10,threads_10,pools_10,loops_10]
  }.freeze

  # Seconds of a measurement in which the slowest operations end; those that aren't here need less.
  SECONDS = {"http_ratios" => 0.5, "rails" => 0.3, "rails_sqlite" => 0.3, "cache" => 0.3, "proxy" => 0.3, "servers" => 0.3, "proxied" => 0.3}.freeze
  ROUNDS = {"cost" => 2, "runtime" => 2, "tenants" => 2}.freeze

  SIZES.each_key { |name| define_method("test_#{name}") { measure(name) } }

  # @return [String, nil] why they can't be loaded; also writes the lock file, from the installed gems alone
  def self.missing
    return @missing if defined?(@missing)
    output, status = Open3.capture2e(GEMS, RbConfig.ruby, "-S", "bundle", "check", chdir: ROOT)
    @missing = (output unless status.success?)
  end

  def test_each_benchmark_has_a_smallest_run
    assert_equal Bench::Catalogue.names, SIZES.keys
  end

  private

  def measure(name)
    benchmark = load(name)
    reason = self.class.missing || benchmark.send(:missing) and skip reason
    Dir.mktmpdir do |folder|
      text = bench(folder, arguments(name))
      report = report_of(name, folder)
      if too_short?(report)
        text = bench(folder, arguments(name, 2))
        report = report_of(name, folder)
      end
      benchmark.rows.each { |row| assert_includes text.delete("`"), row_name(name, row) }
      assert_results benchmark, report.fetch("results")
      assert_figures report
      assert_operator text.scan(/^\|.*\d.*\|$/).size, :>=, 1, "no table with figures:\n#{text}"
    end
  end

  def load(name) = Bench::Catalogue.load(name).new(Bench::Options.parse(arguments(name)))

  def arguments(name, seconds = SECONDS.fetch(name, 0.05))
    [name, "--quick", "--rounds", ROUNDS.fetch(name, 1).to_s, "--seconds", seconds.to_s, *SIZES.fetch(name)]
  end

  def report_of(name, folder) = JSON.parse(File.read(File.join(folder, "#{name}.json")))

  # On a busy machine no operation may end in so short a time.
  def too_short?(report) = report.fetch("results").any? { |result| result["failure"].to_s.include?("take longer, by --seconds") }

  # @return [String] what it printed
  def bench(folder, arguments)
    program = "require './benchmark/bench/command'; exit Bench::Command.new(ARGV.drop(1), results: ARGV.first).run"
    output, status = Open3.capture2e(GEMS, "timeout", "-k", "5", NeverBlockTest::LIMIT.to_s, RbConfig.ruby, "-rbundler/setup", "-e", program, folder, *arguments, chdir: ROOT)
    assert_predicate status, :success?, output
    output
  end

  # Each row was measured with each contestant, in each round.
  def assert_results(benchmark, results)
    assert_empty results.filter_map { |result| result["failure"] }
    assert_operator results.size, :>=, benchmark.fields.size
    results.each { |result| assert_operator result.fetch("samples").sum { |sample| sample.fetch("operations") }, :>, 0 }
  end

  # Numbers that can be measured: none is negative, infinite or no number. Differences of two may be negative.
  DIFFERENCES = %w[bars others].freeze
  private_constant :DIFFERENCES

  def assert_figures(value, path = [])
    case value
    when Hash then value.except(*DIFFERENCES).each { |key, inner| assert_figures(inner, [*path, key]) }
    when Array then value.each { |inner| assert_figures(inner, path) }
    when Numeric then assert value.to_f.finite? && !value.negative?, "#{path.join(".")} is #{value}"
    end
  end

  # The tables of cost name rows by their ids.
  def row_name(name, row) = ((name == "cost") ? row.id : row.title).delete("`")
end
