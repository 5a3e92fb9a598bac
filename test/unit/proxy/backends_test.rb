# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/virtual_time"

# Which upstream gets a request, and which one is left alone.
class ProxyBackendsTest < Minitest::Test
  include NeverBlockTest::VirtualTime

  Proxy = NeverBlock::Proxy

  def backends(count = 3, most_failures: 3, shortest: 10, longest: 100)
    all = Array.new(count) { |number| Proxy::Backend.new(Proxy::ConnectionPool.new(Proxy::Upstream.new("http://127.0.0.1:#{number + 1}"))) }
    Proxy::Backends.new(all, most_failures:, shortest:, longest:, random: Class.new { def self.rand = 1.0 })
  end

  # Moves the time to so many seconds after the start.
  def at(seconds) = clock.advance(seconds - clock.elapsed)

  # @return [Float] seconds from now until it gets requests again
  def pause(backend) = (backend.out_until - now).round(6)

  def picks(backends, count) = Array.new(count) { backends.pick([]).tap { |backend| backends.release(backend) } }

  def test_the_one_with_the_fewest_requests
    backends = backends()
    first = backends.pick([])
    second = backends.pick([])
    third = backends.pick([])
    assert_equal backends.all.to_set, [first, second, third].to_set
    backends.release(second)
    assert_same second, backends.pick([])
  end

  def test_equal_ones_take_turns
    backends = backends()
    assert_equal({2 => 3}, picks(backends, 6).tally.values.tally)
  end

  # The parent's requests never end there.
  def test_a_forked_child_has_no_requests_of_its_parent
    backends = backends(1)
    first = backends.pick([])
    first.trying = true
    assert backends.enter_tunnel(first, 1)
    reader, writer = IO.pipe
    pid = fork do
      writer << [first.in_flight, first.trying, first.tunnels, backends.release(first), backends.leave_tunnel(first), first.in_flight, first.tunnels].inspect
      writer.close
      exit!(0)
    end
    writer.close
    assert_equal "[0, false, 0, false, nil, 0, 0]", reader.read
    assert_equal [1, true, 1], [first.in_flight, first.trying, first.tunnels]
  ensure
    Process.wait(pid)
  end

  def test_a_limit_of_tunnels
    backends = backends(1)
    one = backends.all.first
    assert_equal [true, true, false], Array.new(3) { backends.enter_tunnel(one, 2) }
    backends.leave_tunnel(one)
    assert backends.enter_tunnel(one, 2)
  end

  def test_none_is_asked_twice_for_one_request
    backends = backends(2)
    first = backends.pick([])
    second = backends.pick([first])
    refute_same first, second
    assert_nil backends.pick([first, second])
  end

  def test_one_without_a_connection_is_left_alone_for_a_while
    backends = backends(2)
    bad, good = backends.all
    backends.failed(bad, connect: true)
    assert_equal [good], picks(backends, 4).uniq
    assert_equal [1, 1, true], bad.stats.values_at(:connect_failures, :taken_out, :out)
    at 10.5
    assert_includes picks(backends, 2), bad
  end

  # The log has a line for each change.
  def test_what_is_a_change
    backends = backends(2)
    bad = backends.all.first
    assert_equal [false, nil, nil, 10.0, nil], [backends.well(bad), *Array.new(4) { backends.failed(bad, connect: false) }]
    at 11.0
    assert_nil backends.failed(bad, connect: true), "it stays out, for longer"
    assert_equal [true, false], Array.new(2) { backends.well(bad) }
    assert_equal 10.0, backends.failed(bad, connect: true)
    assert_nil backends.failed(backends.all.last, connect: true), "the last one is never left alone"
  end

  # One that accepts some connections and no others would fill the log. Its last line is right in the end.
  def test_the_log_has_one_line_of_a_kind_a_second
    backends = backends(2)
    bad = backends.all.first
    change = ->(time, well) { at(time) && (well ? backends.well(bad) : !backends.failed(bad, connect: true).nil?) }
    assert_equal [true, true], [change.call(0.0, false), change.call(0.5, true)]
    10.times { assert_equal [false, false], [change.call(0.6, false), change.call(0.6, true)] }
    assert_equal [true, false, false, true, false], [change.call(1.01, false), *[1.2, 1.4, 1.5, 2.51].map { |time| change.call(time, true) }]
    assert_equal [true, true, false], [change.call(3.0, false), change.call(3.1, true), change.call(3.2, false)]
    assert_equal [true, false], [change.call(15.0, false), change.call(40.0, false)], "it has stayed out"
  end

  def test_for_how_long_one_is_left_alone
    backends = backends(2)
    bad, good = backends.all
    state = -> { bad.stats.values_at(:out, :out_seconds, :trying) }
    assert_equal [false, 0, false], state.call
    backends.failed(bad, connect: true)
    assert_equal [true, 10, false], state.call
    at 7.5
    assert_equal [true, 2.5, false], state.call
    at 11.0
    assert_equal [true, 0, false], state.call, "the next request tries it"
    assert_same bad, backends.pick([good])
    assert_equal [true, 0, true], state.call
    backends.well(bad)
    assert_equal [false, 0, false], state.call
  end

  def test_then_one_request_tries_it
    backends = backends(2)
    bad, good = backends.all
    backends.failed(bad, connect: true)
    at 11.0
    3.times { backends.pick([]) }
    assert_equal [1, 2], [bad.in_flight, good.in_flight]
    backends.well(bad)
    refute bad.stats[:out]
    3.times { backends.pick([]) }
    assert_equal 3, bad.in_flight
  end

  def test_each_time_it_is_longer_up_to_a_limit
    backends = backends(2)
    bad = backends.all.first
    pauses = Array.new(6) do
      backends.failed(bad, connect: true)
      pause(bad).tap { |seconds| clock.advance(seconds + 0.001) }
    end
    assert_equal [10, 20, 40, 80, 100, 100], pauses
    backends.well(bad)
    backends.failed(bad, connect: true)
    assert_in_delta 10, pause(bad)
  end

  def test_failures_of_one_moment_count_once
    backends = backends(2)
    bad = backends.all.first
    5.times { backends.failed(bad, connect: true) }
    assert_equal [1, 10], [bad.times_out, pause(bad)]
  end

  def test_other_failures_have_to_be_several_in_a_row
    backends = backends(2)
    bad = backends.all.first
    2.times { backends.failed(bad, connect: false) }
    backends.well(bad)
    2.times { backends.failed(bad, connect: false) }
    refute bad.stats[:out]
    backends.failed(bad, connect: false)
    assert bad.stats[:out]
  end

  def test_the_last_one_is_never_taken_out
    backends = backends(3)
    backends.all.each { |backend| backends.failed(backend, connect: true) }
    assert_equal [true, true, false], backends.all.map { |backend| backend.stats[:out] }
    one = backends(1)
    one.failed(one.all.first, connect: true)
    assert one.pick([])
  end

  def test_checks_change_the_state_if_several_in_a_row_say_so
    backends = backends(2)
    bad, good = backends.all
    check = ->(well) { backends.checked(bad, well, in_a_row: well ? 2 : 3) }
    assert_equal [false] * 6, [true, false, false, true, false, false].map(&check)
    assert_equal [true, false, false, false], [false, false, true, false].map(&check)
    assert bad.down
    assert_equal [false, true, false, false], [true, true, true, false].map(&check)
    refute bad.down
    assert_equal [0, 0], good.stats.values_at(:checks_passed, :checks_failed)
  end

  def test_one_that_is_down_gets_requests_only_if_all_are
    backends = backends(2)
    bad, good = backends.all
    backends.checked(bad, false, in_a_row: 1)
    assert_equal [good], picks(backends, 4).uniq
    backends.failed(good, connect: true)
    refute good.stats[:out], "the last one that is up is left alone"
    backends.checked(good, false, in_a_row: 1)
    assert_equal [bad, good].to_set, picks(backends, 4).to_set
    assert_equal [true, true], backends.all.map { |backend| backend.stats[:down] }
  end

  # It would fail otherwise.
  def test_a_request_that_failed_elsewhere_tries_those_that_are_out
    backends = backends(2)
    bad, good = backends.all
    backends.failed(bad, connect: true)
    assert_same bad, backends.pick([good])
  end
end
