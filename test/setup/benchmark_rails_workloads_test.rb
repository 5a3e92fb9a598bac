# frozen_string_literal: true

# The judging parts of bin/bench rails_workloads: rows, contestants, the arithmetic limit, the client, bars, the report.
# None needs a database.
require_relative "../test_helper"
require_relative "../../benchmark/bench/options"
require_relative "../../benchmark/rails_workloads/rails_workloads"

class BenchmarkRailsWorkloadsTest < Minitest::Test
  Scene = Bench::RailsWorkloads

  def test_rows_have_names_of_their_own_and_a_measurement_and_columns
    assert_equal Scene::ROWS.size, Scene::ROWS.map(&:id).uniq.size
    assert_equal 10, Scene::ROWS.count { |row| [200, 1_000].include?(row.concurrency) }
    Scene::ROWS.each do |row|
      assert_respond_to Scene::MEASUREMENTS.fetch(row.measure).call(row, 1.0), :call
      assert Scene::Report::COLUMNS.fetch(row.measure), row.id
    end
  end

  def test_rows_are_chosen
    assert_equal %w[one_in_10_200 one_in_20_50], scene(%w[--rows one_in_20_50,one_in_10_200]).rows.map(&:id)
    assert_equal Scene::ROWS, scene([]).rows
    assert_equal 3, scene(%w[--quick]).rows.size
  end

  def test_all_have_as_many_connections
    assert_equal [12, 12, 12, 20, 20], Scene::CONTESTANTS.map(&:connections)
    puma = Scene::CONTESTANTS.find { |contestant| contestant.name == "puma 4x3" }
    assert_equal({"SHOP_CONNECTIONS" => "3", "WEB_CONCURRENCY" => "4", "RAILS_MAX_THREADS" => "3"}, puma.environment)
  end

  # A path that the app does not know would fail for every server.
  def test_the_app_routes_every_path
    routes = File.read(File.join(Bench::Rails::App::OVERLAY, "config", "routes.rb"))
    %w[one second].each { |path| assert_match(/get "#{path}"/, routes) }
  end

  # A hundred sleeps on twelve connections are nine waves; late requests end late.
  def test_the_limit
    assert_in_delta 9.0, Scene::Limit.seconds(row("one_in_10_200"), connections: 12, cpu: 0.0)
    assert_in_delta 5.0, Scene::Limit.seconds(row("one_in_10_200"), connections: 20, cpu: 0.0)
    assert_in_delta 1.8, Scene::Limit.seconds(row("one_in_200_200"), connections: 12, cpu: 0.001)
    assert_in_delta 10.0, Scene::Limit.seconds(row("one_in_200_200"), connections: 12, cpu: 0.01)
    assert_in_delta 5.0, Scene::Limit.seconds(row("one_in_20_10"), connections: 20, cpu: 0.0), 0.001, "no more sleep than there are"
    assert Scene::Limit.sleeping?(row("one_in_10_200"), connections: 12, cpu: 0.001)
    refute Scene::Limit.sleeping?(row("one_in_200_200"), connections: 12, cpu: 0.001)
  end

  # The first of each twenty is another request; each connection is used once before.
  def test_the_client_sends_so_many_and_each_so_manyth_is_another
    Bench::Servers::Core.missing&.then { |reason| skip reason }
    asked = Thread::Queue.new
    server = TCPServer.new("127.0.0.1", 0)
    serving = Thread.new { loop { answer(server.accept, asked) } }
    loads = [Bench::Servers::Load.closed(4, Scene::Workload::ONE.raw), Bench::Servers::Load.every(20, Scene::Workload::ONE.raw("/second"))]
    figures = Bench::Servers::Load.exactly(server.addr[1], loads, 100, seconds: 10)["loads"]
    assert_equal [95, 5], figures.map { |load| load["answers"] }
    paths = Array.new(asked.size) { asked.pop }
    assert_equal 104, paths.size
    assert_equal 5, paths.count("/second")
    assert_equal "/one", paths.first
  ensure
    serving&.kill&.join
    server&.close
  end

  def test_bars
    results = [
      result("one_in_10_1000", "neverblock 1x12", wall: 9.1, rate: 109.9, cpu: 0.5, memory: 120, errors: 0),
      result("one_in_10_1000", "puma 12x1", wall: 9.2, rate: 108.7, cpu: 0.6, memory: 600, errors: 0),
      result("one_in_10_1000", "puma 4x5", wall: 5.2, rate: 192.0, cpu: 0.6, memory: 300, errors: 0),
      result("one_in_200_200", "neverblock 1x12", wall: 1.7, rate: 588.0, cpu: 0.7, memory: 110, errors: 0),
      result("one_in_200_200", "puma 12x1", wall: 1.0, rate: 1000.0, cpu: 0.7, memory: 600, errors: 0),
      result("one_in_20_500", "neverblock 1x12", wall: 9.0, rate: 111.0, cpu: 0.7, memory: 110, errors: 0)
    ]
    bars = Scene::Bars.new(Scene::ROWS, results).all
    assert_equal ["rate beside puma 12x1", "share of the limit", "PSS beside puma 12x1", "failures"], bars.map { |bar| bar.title[/: (.*)/, 1] }
    assert_equal [1.01, 0.99, 0.2, 0], bars.map { |bar| bar.figure.round(2) }
    assert(bars.all?(&:pass?))
  end

  # A missing figure is short, and says why.
  def test_bars_of_a_failure
    results = [result("one_in_10_1000", "neverblock 1x12", failure: "did not answer"), result("one_in_10_1000", "puma 12x1", wall: 9.2, rate: 108.7, cpu: 0.6, memory: 600, errors: 0)]
    bars = Scene::Bars.new(Scene::ROWS, results).all
    assert_equal [nil] * 4, bars.map(&:figure)
    assert_equal ["did not answer"], bars.map(&:beside).uniq
    assert_empty bars.select(&:pass?)
  end

  def test_the_report_has_a_table_for_each_row_and_a_graph
    figures = {wall: 5.0, rate: 200.0, p50: 0.01, p99: 0.02, slow_p50: 1.0, slow_longest: 5.0, cpu: 0.5, memory: 1 << 20, backends: 12, errors: 3}
    rows = [row("one_in_20_200"), row("one_in_20_50")]
    results = rows.map { |row| result(row.id, "neverblock 1x12", **figures) } << result("one_in_20_50", "puma 4x5", failure: "ended|badly")
    report = Scene::Report.new(rows:, results:, rounds: 1, seconds: 1.0, notes: ["by a test"])
    assert_match(/^\| neverblock 1x12 \| +5\.00 s \| +200 \| +1\.0\d \|.* 1\.00 MiB \| +12 \| 3 errors \|/, report.markdown)
    assert_includes report.markdown, "ended/badly"
    assert_includes report.charts.fetch(""), "requests at once"
  end

  private

  def scene(arguments) = Scene.new(Bench::Options.parse(["rails_workloads", *arguments]))

  def row(id) = Scene::ROWS.find { |row| row.id == id }

  def answer(socket, asked)
    asked << socket.gets[/ (\S+)/, 1]
    nil until socket.gets == "\r\n"
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1")
  ensure
    socket.close
  end

  def result(id, name, failure: nil, **figures)
    contestant = Scene::CONTESTANTS.find { |candidate| candidate.name == name }
    Bench::Result.new(Bench::Cell.new(row(id).title, contestant, id:)).tap do |result|
      result.samples << {"operations" => 1_000, **figures.transform_keys(&:to_s)} unless failure
      result.failure = failure
    end
  end
end
