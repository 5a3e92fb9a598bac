# frozen_string_literal: true

# The judging parts of bin/bench proxy: rows, contestants, bars, the report; and how each proxy is started.
require_relative "../test_helper"
require_relative "../../benchmark/bench/options"
require_relative "../../benchmark/proxy/proxy"

class BenchmarkProxyTest < Minitest::Test
  Proxy = Bench::Proxy

  def test_rows_have_names_of_their_own_and_quick_has_some
    assert_equal 6, Proxy::ROWS.map(&:id).uniq.size
    assert_equal %w[pass hit stampede_1000], proxy(%w[--quick]).rows.map(&:id)
  end

  def test_rows_and_contestants_are_chosen
    fields = proxy(%w[--rows hit,stampede_10000 --contestants nginx,haproxy]).fields.map { |row, contestant| "#{row.id}: #{contestant}" }
    assert_equal ["hit: nginx", "hit: haproxy", "stampede_10000: nginx"], fields
  end

  def test_contestants_are_these
    assert_equal ["neverblock epoll", "neverblock uring", "nginx", "haproxy", "varnish"], Proxy::CONTESTANTS.map(&:name)
  end

  def test_configurations_have_the_ports_of_their_own
    row = Proxy::Row.named("hit")
    %w[nginx haproxy varnish].each do |library|
      launch = Proxy::Launch.new(contestant(library), row, 4001)
      launch.stub(:program, "/bin/#{library}") { assert_includes launch.command(4002).join(" "), library }
      text = Dir[File.join(launch.folder, "*.{conf,cfg,vcl}")].map { |path| File.read(path) }.join
      assert_includes text, "4001"
      refute_match(/UPSTREAM|PORT|FOLDER/, text)
    end
  end

  def test_only_rows_of_the_cache_have_one
    commands = %w[pass hit].map { |id| Proxy::Launch.new(contestant("neverblock epoll"), Proxy::Row.named(id), 4001).command(4002) }
    assert_equal [false, true], commands.map { |command| command.include?("--cache") }
  end

  def test_a_hit_is_compared_with_nginx_turn_by_turn
    report = report("hit", "neverblock epoll" => [{cpu: 1.9}, {cpu: 6.0}, {cpu: 2.0}], "nginx" => [{cpu: 1.0}, {cpu: 3.0}, {cpu: 0.5}])
    assert_equal [2.0], report.bars.map(&:figure)
    assert report.bars.first.pass?
    assert_match(/^\| neverblock epoll +\| .* 2\.00 × \|/, report.markdown)
  end

  def test_without_nginx_the_bar_is_short
    assert_equal [[nil, false]], report("pass", "neverblock epoll" => [{cpu: 1.0}]).bars.map { |bar| [bar.figure, bar.pass?] }
  end

  def test_an_origin_that_was_asked_during_hits_is_told
    assert_match(/the origin was asked 7 times/, report("hit", "nginx" => [{asked: 7}]).markdown)
    refute_match(/the origin was asked/, report("hit", "nginx" => [{asked: 1}]).markdown)
    refute_match(/the origin was asked/, report("pass", "nginx" => [{asked: 7}]).markdown)
  end

  def test_a_stampede_tells_how_often_the_origin_was_asked
    assert_match(/^\| haproxy +\| +1000 \|/, report("stampede_1000", "haproxy" => [{asked: 1000, memory_each: 1}]).markdown)
  end

  private

  def proxy(arguments) = Proxy.new(Bench::Options.parse(["proxy", *arguments]))

  def contestant(name) = Proxy::CONTESTANTS.find { |candidate| candidate.name == name }

  # Of one operation each.
  def report(id, figures)
    row = Proxy::Row.named(id)
    results = figures.map do |name, samples|
      Bench::Result.new(Bench::Cell.new(row.title, contestant(name.to_s), id:)).tap do |result|
        samples.each do |sample|
          result.samples << {"operations" => 1, "rate" => 1.0, "cpu" => 1.0, "p50" => 1.0, "p99" => 1.0, "longest" => 1.0, "memory" => 1, "asked" => 0, **sample.transform_keys(&:to_s)}
        end
      end
    end
    Proxy::Report.new(rows: [row], results:, rounds: 1, seconds: 1.0, notes: [])
  end
end
