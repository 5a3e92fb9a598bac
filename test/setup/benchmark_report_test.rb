# frozen_string_literal: true

# What all benchmarks have in common: the catalogue, choosing, rounds, and the report that a benchmark has without one of its own.
require_relative "../test_helper"
%w[benchmark catalogue options result].each { |file| require_relative "../../benchmark/bench/#{file}" }

class BenchmarkReportTest < Minitest::Test
  # The smallest benchmark: figures that were there before.
  class Hops
    include Bench::Benchmark

    Row = Data.define(:id, :title) do
      def quick? = id == "near"
    end

    ROWS = [Row.new("near", "a near hop"), Row.new("far", "a far hop")].freeze
    CONTESTANTS = Bench::Contestant.of("threads", "blocking").freeze
    TABLES = {"Wall time of each" => Bench::Figures.time_each("wall"), "Objects" => Bench::Figures.count_each("objects")}.freeze
    RATIOS = {"Wall time" => "wall"}.freeze

    private

    def missing = ENV["HOPS_MISSING"]

    def sample(_place, row, contestant)
      raise Bench::Failure, "ended|badly" if [row.id, contestant.name] == %w[far blocking]
      {"operations" => 10, "wall" => (contestant.name == "threads") ? 0.01 : 0.02, "objects" => 30}
    end

    def notes(_place) = ["by a test"]
  end

  # Everything that is there to be told: each figure is 2.0 but these.
  SAMPLE = Hash.new(2.0).merge("operations" => 10, "system_calls" => {"read" => 2.0}, "libpq" => 180_001, "streamed" => true, "no_calls" => nil, "errors" => 0, "others" => 0.0)

  def test_a_benchmark_without_a_report_of_its_own
    report = hops([])
    text = report.markdown
    assert_includes text, "Median of 2 rounds, each in a fresh process."
    assert_match(/^Wall time of each:\n\n\| +\| threads \| blocking \|\n.*\n\| a near hop \| 1\.00 ms \|  2\.00 ms \|\n\| a far hop  \| 1\.00 ms \|   failed \|$/, text)
    assert_match(/^Objects:\n/, text)
    assert_match(/^Wall time, threads beside the others, with the interval of 95 %:\n\n.*\n.*\n\| a near hop \| 0\.50 \(0\.50–0\.50\) \|\n\| a far hop +\| +– \|$/, text)
    assert_match(/^- by a test\n- a far hop, blocking: ended\/badly\n\z/, text)
    assert_equal [[], {}, 4], [report.bars, report.charts, report.to_h.fetch(:results).size]
  end

  def test_one_contestant_has_all_figures_in_one_table
    text = hops(%w[--contestants threads]).markdown
    assert_match(/^\| +\| Wall time of each \| Objects \|\n.*\n\| a near hop \| +1\.00 ms \| +3 \|$/, text)
    refute_includes text, "beside"
  end

  def test_rows_are_chosen
    assert_equal ["near"], hops(%w[--quick]).to_h.fetch(:results).map { |result| result.fetch(:id) }.uniq
    assert_match(/There is no row "wide"; there are: near, far/, assert_raises(Bench::Failure) { hops(%w[--rows wide]) }.message)
    assert_match(/No row with a contestant is left. Contestants: threads, blocking; rows: near, far\./, assert_raises(Bench::Failure) { hops(%w[--contestants none]) }.message)
  end

  def test_what_is_missing_is_told
    ENV["HOPS_MISSING"] = "it needs a loom"
    assert_equal "bin/bench runtime cannot run here: it needs a loom.", assert_raises(Bench::Failure) { hops([]) }.message
  ensure
    ENV.delete("HOPS_MISSING")
  end

  # A table, a bar or a chart that asks for a figure that nothing has would be found after an hour of measuring.
  def test_each_benchmark_reports_on_all_its_rows
    Bench::Catalogue.names.each do |name|
      benchmark = Bench::Catalogue.load(name).new(Bench::Options.parse([name]))
      results = benchmark.send(:cells, nil).map { |cell| Bench::Result.new(cell).tap { |result| 2.times { result.samples << SAMPLE.dup } } }
      report = benchmark.send(:report, results, ["by a test"])
      text = report.markdown.delete("`")
      benchmark.rows.each { |row| row_names(name, row).each { |words| assert_includes text, words, name } }
      assert_includes text, "- by a test\n"
      report.bars.each { |bar| assert_kind_of String, bar.fields.join, name }
      report.charts.each_value { |svg| refute_match(/NaN|Infinity/, svg, name) }
      assert JSON.generate(report.to_h), name
    end
  end

  def test_each_benchmark_has_rows_with_names_of_their_own
    Bench::Catalogue.names.each do |name|
      ids = Bench::Catalogue.load(name).new(Bench::Options.parse([name])).rows.map(&:id)
      assert_equal ids.uniq, ids, name
    end
  end

  # A row that expects another response than the app's would fail for every server.
  def test_the_apps_of_servers_and_rails_have_what_the_rows_ask_for
    Bench::Catalogue.load("servers")::Row::ALL.each do |row|
      next if row.path == "/stream" # it sleeps by itself
      body = Bench::App.new.tap { |app| app.define_singleton_method(:sleep) { |_| 1 } }.call("PATH_INFO" => row.path, "rack.input" => StringIO.new("x" * row.sent)).last
      assert row.right?(body.to_enum.to_a.join), row.id
    end
    rails = Bench::Catalogue.load("rails")
    routes = File.read(File.join(rails::App::OVERLAY, "config", "routes.rb"))
    [*rails::ROWS.map(&:path), *rails::Mixed::RATES.keys, *rails::WARM, "/one", "/second"].uniq.each { |path| assert_match(/#{path[/\w+/]}\b/, routes) }
  end

  def test_each_benchmark_has_a_page_and_is_told_of_in_the_help
    help = File.read(File.join(NeverBlockTest::ROOT, "bin", "bench"))
    Bench::Catalogue.names.each do |name|
      assert_match(/^#   bin\/bench #{name} /, help)
      assert_includes File.read(File.join(NeverBlockTest::ROOT, "docs", "benchmarks", "#{name}.md")), "<!-- figures: #{name} -->"
    end
  end

  private

  def hops(arguments)
    progress = Bench::Progress.method(:new)
    Bench::Progress.stub(:new, ->(total) { progress.call(total, output: StringIO.new) }) do
      Hops.new(Bench::Options.parse(["runtime", "--rounds", "2", *arguments])).run
    end
  end

  # The tables of cost name rows by their ids.
  # A row of scaling is in the line of its thing and the column of its number.
  # @return [Array<String>]
  def row_names(name, row)
    case name
    when "cost" then [row.id]
    when "scaling" then [row.thing.title, row.count.to_s]
    else [row.title.delete("`")]
    end
  end
end
