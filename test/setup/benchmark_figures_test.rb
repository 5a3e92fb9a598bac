# frozen_string_literal: true

# The benchmarks' own arithmetic and rendering: a wrong median or limit would make
# every published figure wrong.
require_relative "../test_helper"
require "tmpdir"
%w[bar cell contestant docs_page markdown options progress ratio rounds statistics svg system_calls units].each do |file|
  require_relative "../../benchmark/bench/#{file}"
end
require_relative "../../benchmark/delays/limit"

class BenchmarkFiguresTest < Minitest::Test
  def test_median_is_the_middle_or_the_mean_of_two
    assert_equal 2, Bench::Statistics.median([3, 1, 2])
    assert_in_delta 2.5, Bench::Statistics.median([4, 1, 2, 3])
    assert_raises(ArgumentError) { Bench::Statistics.median([]) }
  end

  def test_spread_is_the_median_distance_as_a_share
    assert_in_delta 0.5, Bench::Statistics.spread([1, 2, 3])
    assert_in_delta 0.0, Bench::Statistics.spread([5, 5, 5])
    assert_in_delta 0.0, Bench::Statistics.spread([0, 0])
  end

  # By the binomial distribution: with five rounds more than 5 % lie beyond the outermost, with ten 2 % beyond the second.
  def test_the_interval_of_a_median
    assert_nil Bench::Statistics.interval([1] * 5)
    assert_equal 1..6, Bench::Statistics.interval([3, 1, 2, 6, 5, 4])
    assert_equal 2..9, Bench::Statistics.interval((1..10).to_a.reverse)
  end

  def test_a_ratio_with_its_interval
    ratio = Bench::Ratio.of([9.0, 11.0, 10.0], [10.0, 10.0, 10.0])
    assert_in_delta 0.997, ratio.mean, 0.001
    assert_in_delta 0.7768, ratio.low, 0.001 # Student's t: exp(mean - 4.30 * deviation / sqrt 3)
    assert_in_delta 1.2787, ratio.high, 0.001
    assert ratio.within?(1.0)
    refute Bench::Ratio.of([12.0, 12.1, 12.0], [10.0, 10.0, 10.1]).within?(1.0)
    assert Bench::Ratio.of([12.0, 12.1, 12.0], [10.0, 10.0, 10.1]).within?(1.0, least: true)
    assert_raises(ArgumentError) { Bench::Ratio.of([1.0], [1.0]) }
  end

  def test_limit_is_the_processor_time_or_the_last_answer
    assert_in_delta 0.75, Bench::Limit.seconds(cpu: 0.3, cpu_until_sent: 0.25, delay: 0.5)
    assert_in_delta 0.3, Bench::Limit.seconds(cpu: 0.3, cpu_until_sent: 0.25, delay: 0.01)
  end

  def test_shared_limit_counts_all_processes_on_the_processors
    assert_in_delta 0.4, Bench::Limit.shared(0.3, cpu: 0.8, processors: 2)
    assert_in_delta 0.3, Bench::Limit.shared(0.3, cpu: 0.4, processors: 2)
  end

  def test_bars_pass_at_their_limit_and_are_short_without_a_figure
    assert_predicate Bench::Bar.at_least("yield", 2.0, 2.0, unit: "×"), :pass?
    refute_predicate Bench::Bar.at_least("yield", 1.999, 2.0, unit: "×"), :pass?
    assert_predicate Bench::Bar.at_most("objects", 0, 0, unit: ""), :pass?
    refute_predicate Bench::Bar.at_most("objects", nil, 0, unit: ""), :pass?
    assert_equal ["yield", "none", "≥ 2×", "**short**", "no library"],
      Bench::Bar.at_least("yield", nil, 2.0, unit: "×", beside: "no library").fields
  end

  # A figure just below the limit must not be printed as the limit.
  def test_bars_are_judged_before_they_are_rounded
    fields = Bench::Bar.at_least("yield", 1.9961, 2.0, unit: "×").fields
    assert_equal "**short**", fields[3]
    assert_equal "1.99×", fields[1]
    assert_equal "1.26 ×", Bench::Bar.at_most("cost", 1.2501, 1.25, unit: " ×").fields[1]
  end

  def test_units_keep_three_digits
    assert_equal "410 ns", Bench::Units.time(4.1e-7)
    assert_equal "1.29 µs", Bench::Units.time(1.294e-6)
    assert_equal "15.2 KiB", Bench::Units.bytes(15_538)
    assert_equal "2", Bench::Units.count(2.0)
    assert_equal "0", Bench::Units.count(0.001)
  end

  def test_a_failure_tells_what_the_process_said_without_the_machines_folders
    lines = ["started\n", "/home/me/.rubies/3.4/lib/a.rb:82:in 'require': LoadError: no such file\n", "#{Bench::LoadPath::ROOT}/benchmark/b.rb:1: error\n"]
    assert_equal "ended with exit 1: …/a.rb:82:in 'require': LoadError: no such file / benchmark/b.rb:1: error", Bench::Failure.of("ended with exit 1", lines).message
    assert_equal "late: started", Bench::Failure.of("late", ["started\n", "\n"]).message
    assert_equal "late", Bench::Failure.of("late", []).message
    assert_equal 306, Bench::Failure.of("late", ["\xff" * 900]).message.size
  end

  def test_rows_are_chosen
    row = Struct.new(:id, :title)
    rows = [row.new("one", "first"), row.new("two", "second")]
    options = ->(*arguments) { Bench::Options.parse(["servers", *arguments]) }
    assert_equal rows, options[].choose(rows)
    assert_equal rows.first(1), options[].choose(rows) { |candidate| candidate.id == "one" }
    assert_equal rows.last(1), options["--rows", "two"].choose(rows) { false }
    assert_equal rows.last(1), options["--only", "second"].choose(rows)
    error = assert_raises(Bench::Failure) { options["--rows", "three"].choose(rows) }
    assert_equal 'There is no row "three"; there are: one, two.', error.message
  end

  def test_rounds_take_turns_and_keep_a_failure
    order = []
    cells = %w[a b].flat_map do |row|
      %w[one two].map do |name|
        Bench::Cell.new(row, name) do
          order << "#{row} #{name}"
          raise Bench::Failure, "no such engine" if name == "two" && row == "b"
          {"operations" => 10, "wall" => order.size.to_f}
        end
      end
    end
    progress = Bench::Progress.new(8, output: StringIO.new)
    results = Bench::Rounds.new(cells, rounds: 2, progress:).call
    assert_equal ["a one", "a two", "b one", "b two", "a two", "a one", "b one"], order
    assert_equal "no such engine", results.last.failure
    assert_nil results.last.per_operation("wall")
    assert_in_delta 0.35, results.first.per_operation("wall") # between 1 and 6
  end

  def test_options_choose_rows_and_refuse_what_they_do_not_know
    options = Bench::Options.parse(%w[runtime --only queue,yield --rounds 3])
    assert options.wants?("queue hop")
    refute options.wants?("sleep(0)")
    assert_equal 3, options.rounds
    assert_match(/"nothing".*runtime, delays, fibers/, assert_raises(Bench::Options::Invalid) { Bench::Options.parse(%w[nothing]) }.message)
    assert_match(/0, where 1 or more/, assert_raises(Bench::Options::Invalid) { Bench::Options.parse(%w[runtime --rounds 0]) }.message)
    assert_raises(Bench::Options::Invalid) { Bench::Options.parse([]) }
  end

  def test_system_calls_are_read_from_a_summary
    calls = Bench::SystemCalls.parse(<<~SUMMARY)
      % time     seconds  usecs/call     calls    errors syscall
      ------ ----------- ----------- --------- --------- ----------------
       87.55    0.038658       12886         3           epoll_wait
        2.35    0.001037           1       616       310 openat
      ------ ----------- ----------- --------- --------- ----------------
      100.00    0.039695                   619       310 total
    SUMMARY
    assert_equal({"epoll_wait" => 3, "openat" => 616}, calls)
  end

  def test_charts_are_well_formed
    colors = {"a<b" => "#123456"}
    bars = Bench::Svg.bars("Bars & more", {"hop" => {"a<b" => 1e-6}}, colors:, unit: Bench::Units.method(:time))
    lines = Bench::Svg.lines("Lines", {"a<b" => {100 => 0.1, 1000 => 2.0}}, colors:, x: "n", y: "s", log: true)
    [bars, lines].each do |svg|
      assert_includes svg, "a&lt;b"
      refute_match(/NaN|Infinity/, svg)
      assert_equal svg.scan(/<(?:svg|title|text)\b/).size, svg.scan(%r{</(?:svg|title|text)>}).size
    end
  end

  def test_figures_replace_those_between_the_marks
    Dir.mktmpdir do |folder|
      page = File.join(folder, "runtime.md")
      File.write(page, "before\n<!-- figures: runtime -->\nold\n<!-- end -->\nafter\n")
      Bench::DocsPage.new(folder).update("runtime", {"ruby" => "3.4"}, "new \\0 figures", {"" => "<svg/>"})
      text = File.read(page)
      assert_match(/\Abefore\n.*new \\0 figures.*\nafter\n\z/m, text)
      refute_includes text, "old"
      assert_includes text, "![runtime](runtime.svg)"
      assert_path_exists File.join(folder, "runtime.svg")
      error = assert_raises(RuntimeError) { Bench::DocsPage.new(folder).update("fibers", {}, "", {}) }
      assert_includes error.message, "docs/benchmarks/fibers.md"
      refute_path_exists File.join(folder, "fibers.md")
    end
  end
end
