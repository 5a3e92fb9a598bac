# frozen_string_literal: true

# The judging parts of bin/bench servers: requests, clients' figures, bars.
require_relative "../test_helper"
require "socket"
require_relative "../../benchmark/bench/contestant"
require_relative "../../benchmark/bench/options"
require_relative "../../benchmark/servers/servers"

class BenchmarkServersTest < Minitest::Test
  Row = Bench::Servers::Row

  def test_requests_have_as_many_fields_as_their_rows_say
    {"env_1" => 1, "env_9" => 9, "env_14" => 14}.each do |id, count|
      assert_equal count, Row.named(id).raw.lines.size - 2, id
    end
    assert_match(/\APOST \/upload HTTP.*Content-Length: 16384\r\n\r\nx{16384}\z/m, Row.named("upload").raw)
    assert_equal Row::ALL.size, Row::ALL.map(&:id).uniq.size
    assert_raises(KeyError) { Row.named("nothing") }
  end

  # A row that expects another response than the app's would fail for every server.
  def test_the_app_answers_what_each_row_expects
    app = Bench::App.new
    Row::ALL.each do |row|
      env = {"PATH_INFO" => row.path, "rack.input" => StringIO.new("x" * row.sent)}
      app.stub(:sleep, 1) do
        status, _, body = app.call(env)
        assert_equal 200, status, row.id
        next if row.path == "/stream" # it sleeps by itself
        text = +""
        body.each { |part| text << part }
        assert row.right?(text), row.id
      end
    end
    refute Row.named("upload").right?("16383")
  end

  def test_figures_of_wrk
    text = "Running 1s test\n  Latency 1ms\n{\"answers\":10,\"seconds\":0.5,\"errors\":1,\"p50\":0.001,\"p99\":0.002,\"longest\":0.003}\n"
    assert_in_delta 0.002, Bench::Servers::Wrk.parse(text)["p99"]
    assert_match(/refused/, assert_raises(Bench::Failure) { Bench::Servers::Wrk.parse("unable to connect: refused\n") }.message)
    assert_match(/7 errors/, assert_raises(Bench::Failure) { Bench::Servers::Wrk.parse('{"answers":0,"errors":7}') }.message)
  end

  def test_bars_compare_with_the_best_peer_and_the_floor
    results = [result("neverblock epoll", rate: 100, cpu: 1.3), result("iodine", rate: 90, cpu: 1.2),
      result("puma", rate: 30, cpu: 0.1), result("nginx", rate: 120, cpu: 1.0)]
    bars = bars_of("hello_32", results)
    assert_equal [1.11, 1.3, 1.08, 11.0], bars.map { |bar| bar.figure.round(2) }
    assert_equal [true, true, false, true], bars.map(&:pass?)
    assert_equal "rate 1.11 × iodine's, processor time 1.08 × iodine's", bars.first.beside
  end

  # The client limits the rate there, so processor time decides.
  def test_bars_of_a_client_bound_row_go_by_processor_time
    results = [result("neverblock epoll", rate: 100, cpu: 2.0, client_busy: 0.99), result("falcon", rate: 50, cpu: 1.0)]
    best, falcon = bars_of("big", results)
    assert_in_delta 0.5, best.figure
    assert_in_delta 0.5, falcon.figure
    refute_predicate best, :pass?
  end

  def test_bars_of_what_failed_are_short_and_say_why
    failed = result("neverblock epoll", rate: 1, cpu: 1)
    failed.failure = "ended with SIGSEGV"
    bars = bars_of("hello_32", [failed, result("iodine", rate: 1, cpu: 1)])
    refute_empty bars
    bars.each { |bar| assert_equal [false, "ended with SIGSEGV"], [bar.pass?, bar.beside] }
  end

  def test_bars_of_latency_and_memory
    slow = result("neverblock epoll", rate: 100, cpu: 1, id: "beside_slow", p99: 0.003, alone_p99: 0.001)
    assert_in_delta 3.0, bars_of("beside_slow", [slow]).first.figure
    idle = result("neverblock epoll", rate: 1, cpu: 1, id: "idle", memory_each: 300.0, answered_again: 9_999)
    puma = result("puma", rate: 1, cpu: 1, id: "idle", memory_each: 3_000.0)
    best, each = bars_of("idle", [idle, puma])
    assert_in_delta 10.0, best.figure
    assert_equal [300.0, "9999 of 100 answered again"], [each.figure, each.beside]
  end

  # Changes of the machine's pace between turns are not differences between servers.
  def test_bars_of_what_is_asked_in_turns_go_turn_by_turn
    ours, iodine = [["neverblock epoll", [100, 300, 220]], ["iodine", [110, 100, 200]]].map do |name, rates|
      result(name, rate: rates.first, cpu: 1.0 / rates.first).tap do |result|
        rates.drop(1).each { |rate| result.samples << {"operations" => rate, "rate" => rate.to_f, "cpu" => 1.0} }
      end
    end
    assert_in_delta 1.1, bars_of("cpu", [ours, iodine]).first.figure
  end

  def test_a_server_that_fails_does_not_take_the_others_turns
    skip Bench::Servers::Core.missing if Bench::Servers::Core.missing
    good, broken, refused = %w[puma iodine agoo].map { |name| Bench::Result.new(Bench::Cell.new("row", Bench::Contestant.named(name))) }
    asked = Hash.new(0)
    Bench::Servers::Turns.new([broken, refused, good], turns: 3) { |result| Answering.new(result.cell.contestant, (result == refused) ? "Ask me not" : nil) }
      .call do |result, server|
        raise Bench::Failure, "2 errors" if result == broken && (asked[result] += 1) == 2
        server.watch(objects: false) { {"rate" => 1.0} }
      end
    assert_equal [nil, "2 errors", "Ask me not"], [good, broken, refused].map(&:failure)
    assert_equal [3, 1, 0], [good, broken, refused].map { |result| result.samples.size }
    assert_equal [true, false, false], [good, broken, refused].map(&:any?)
  end

  # A server that says hello, or the reason why it can't run.
  Answering = Data.define(:contestant, :missing) do
    def folder = __dir__

    def core = Bench::Servers::Core::SERVER

    def counts_objects? = false

    def environment = {"RUBYOPT" => nil}

    def command(port) = [RbConfig.ruby, "--disable-gems", "-rsocket", "-e", <<~RUBY, port.to_s]
      server = TCPServer.new("127.0.0.1", Integer(ARGV.first))
      loop { server.accept.tap { |socket| socket.readpartial(4_096) }.tap { |socket| socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n") }.close }
    RUBY
  end
  private_constant :Answering

  def test_our_client_reads_every_framing
    skip Bench::Servers::Core.missing if Bench::Servers::Core.missing
    ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"].each do |rest|
      serving("HTTP/1.1 200 OK\r\n#{rest}") do |port|
        ready = false
        answered = Bench::Servers::Load.count(port, Bench::Servers::Load.closed(2, Row.named("hello_1").raw), 10) { ready = true }
        assert_equal 10, answered
        assert ready
      end
    end
  end

  slow "it starts a server"
  def test_our_client_counts_other_answers_as_errors
    skip Bench::Servers::Core.missing if Bench::Servers::Core.missing
    serving("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n") do |port|
      failure = assert_raises(Bench::Failure) { Bench::Servers::Load.count(port, Bench::Servers::Load.closed(2, Row.named("hello_1").raw), 10) { nil } }
      assert_match(/only 0 of 10 /, failure.message)
    end
  end

  private

  def bars_of(id, results)
    results.each { |result| result.cell.traits[:id] = id }
    Bench::Servers::Bars.new(results).of(Row.named(id))
  end

  def result(name, rate:, cpu:, id: nil, **figures)
    cell = Bench::Cell.new("row", Bench::Contestant.named(name), id:) { nil }
    Bench::Result.new(cell).tap do |result|
      result.samples << {"operations" => 100, "rate" => rate.to_f, "cpu" => cpu * 100.0, "objects" => 1100, **figures.transform_keys(&:to_s)}
    end
  end

  # Answers every request, a byte at a time first, until the block is done.
  def serving(answer)
    server = TCPServer.new("127.0.0.1", 0)
    threads = Thread.new { loop { answer_all(server.accept, answer) } }
    yield server.addr[1]
  ensure
    threads&.kill&.join
    server&.close
  end

  def answer_all(socket, answer)
    Thread.new do
      socket.setsockopt(:TCP, :NODELAY, true)
      while socket.readpartial(4_096)
        socket.write(answer[0, 20])
        socket.write(answer[20..])
      end
    rescue SystemCallError, EOFError
      socket.close
    end
  end
end
