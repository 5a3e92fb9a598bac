# frozen_string_literal: true

require "test_helper"
require "support/loops"
require "support/virtual_time"
require "neverblock/server"
require "neverblock/server/heartbeat"
require "neverblock/server/loads"

# What a server in a single process tells of itself, also while its loop is blocked.
class ServerHeartbeatTest < Minitest::Test
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  # Stands for the Server.
  class Served
    attr_accessor :state, :failures

    def initialize
      @state, @failures = :serving, []
    end

    def stats = {state: @state, addresses: %w[tcp://a:1], answered: 3}

    def reopen_logs = @failures

    def events = nil
  end

  Systemd = Struct.new(:watchdog, :told) do
    def tell(line) = told << line
  end

  def setup
    @server, @signals = Served.new, []
    @loads = NeverBlock::Server::Loads.new
    @heartbeat = NeverBlock::Server::Heartbeat.new(@server, 60, @loads) { |name| @signals << name }
  end

  def test_a_loop_that_stands_still_is_not_live
    clock.advance(59)
    assert_equal [true, true], [@heartbeat.live?, @heartbeat.ready?]
    clock.advance(1)
    assert_equal [false, false, :down], [@heartbeat.live?, @heartbeat.ready?, @heartbeat.stats[:state]]
    @server.state = :starting
    assert_equal :starting, @heartbeat.stats[:state], "loading an app may take that long"
  end

  def test_without_a_limit_every_loop_is_live
    heartbeat = NeverBlock::Server::Heartbeat.new(@server, nil, @loads) {}
    clock.advance(1e8)
    assert_predicate heartbeat, :live?
  end

  def test_a_server_that_drains_is_live_and_not_ready
    refute_predicate @heartbeat, :draining?
    @heartbeat.draining!
    assert_equal [true, true, false, :draining], [@heartbeat.draining?, @heartbeat.live?, @heartbeat.ready?, @heartbeat.stats[:state]]
  end

  def test_its_figures_are_those_of_one_worker
    clock.advance(2.34)
    stats = @heartbeat.stats
    assert_equal({state: :serving, pid: Process.pid, version: NeverBlock::VERSION, ruby: RUBY_VERSION, addresses: %w[tcp://a:1], directory: Dir.pwd, load: {result: :loading}, sidecars: []},
      stats.except(:engine, :workers))
    worker = stats[:workers].first
    assert_equal({number: 0, pid: Process.pid, state: :serving, age: 2.3}, worker.except(:stats))
    assert_equal({answered: 3, runtime: {}}, worker[:stats].except(:memory))
    states = %i[starting serving stopping ended].map { |state| (@server.state = state) && @heartbeat.stats[:workers].first[:state] }
    assert_equal %i[starting serving leaving leaving], states
  end

  def test_what_an_operator_asks_for_is_signalled
    answer = Thread.new { @heartbeat.load_anew("USR1") }
    Thread.pass until @signals.any? && answer.status == "sleep"
    @loads.begin
    @loads.over(:loaded, "all is new")
    assert_equal [[:loaded, "all is new"]] * 2, [answer.value, @heartbeat.last_load]
    @heartbeat.signalled("TERM")
    assert_equal %w[USR1 TERM], @signals
  end

  def test_the_loop_opens_the_logs_again
    @server.failures = ["the log a can't be written"]
    in_loop(exit: :cancel) do
      NB.spawn { @heartbeat.run(Systemd.new(nil, [])) }
      assert_equal ["the log a can't be written"], Thread.new { @heartbeat.reopen }.value
    end
  end

  # A report comes before the time is over, and not with each second.
  def test_systemd_is_told_in_time
    systemd = Systemd.new(15.0, [])
    in_loop(exit: :cancel) do
      NB.spawn { @heartbeat.run(systemd) }
      told = [0, 13, 14, 20, 29].map do |seconds|
        clock.advance(seconds - clock.elapsed)
        systemd.told.size
      end
      assert_equal [1, 1, 2, 2, 3], told
    end
  end
end
