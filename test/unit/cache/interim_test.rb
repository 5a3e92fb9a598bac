# frozen_string_literal: true

require "test_helper"
require "support/at_call"
require "support/runs"
require "support/cached_app"
require "neverblock/cache"

# The way of interim responses from a fetch to the client that has begun the fetch; here without a server.
class CacheInterimUnitTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::AtCall
  include NeverBlockTest::Runs
  include NeverBlockTest::CachedApp

  Interim = NeverBlock::Cache::Fill::Interim
  FRESH = {"cache-control" => "max-age=60"}.freeze

  def test_without_a_loop_the_clients_thread_sends_them
    threads = []
    cached do |env|
      2.times { |n| env["rack.early_hints"].call("n" => n) }
      threads << Thread.current
      ok("content", **FRESH)
    end
    response = get("/a", "rack.early_hints" => ->(headers) { threads << Thread.current << headers })
    assert_equal "content", response.body
    refute_same Thread.current, threads.first
    assert_equal [Thread.current, {"n" => "0"}, Thread.current, {"n" => "1"}], threads.drop(1)
  end

  def test_an_error_of_the_client_is_none_of_the_fetch
    [IOError, Errno::EPIPE].each do |error|
      sent = 0
      cached { |env| 3.times { env["rack.early_hints"].call({}) } && ok("content", **FRESH) }
      response = get("/a", "rack.early_hints" => ->(_) { (sent += 1) && raise(error) })
      assert_equal ["content", 1, 1], [response.body, sent, @calls], "#{error}: nothing more is sent"
      assert_equal ["content", 1], [get("/a").body, @calls]
    end
  end

  def test_another_error_is_the_clients_alone
    cached do |env|
      env["rack.early_hints"].call({})
      wait_here
      ok("content", **FRESH)
    end
    in_run do |scope|
      assert_raises(ZeroDivisionError) { get("/a", "rack.early_hints" => ->(_) { 1 / 0 }) }
      other = scope.spawn { get("/a").body }
      parked(other)
      go_on
      assert_equal ["content", 1], [other.value, @calls]
    end
  end

  def test_a_client_that_is_cancelled_while_it_sends
    entered = Thread::Queue.new
    cached do |env|
      50.times { env["rack.early_hints"].call({}) }
      wait_here
      ok("content", **FRESH)
    end
    in_run do |scope|
      first = scope.spawn { get("/a", "rack.early_hints" => ->(_) { (entered << 1) && sleep }) }
      entered.pop
      other = scope.spawn { get("/a").body }
      parked(other)
      first.cancel
      go_on
      assert_equal ["content", 1], [other.value, @calls]
    end
  end

  def test_so_many_wait_and_no_more
    sent = []
    interim = Interim.for({"rack.early_hints" => ->(headers) { sent << headers }})
    hints = interim.entries.fetch("rack.early_hints")
    20.times { |n| assert_nil hints.call("n" => n) }
    interim.close
    assert_nil hints.call("n" => "late")
    interim.deliver
    assert_equal((0..15).map { |n| {"n" => n.to_s} }, sent)
  end

  def test_nothing_is_kept_for_a_client_that_has_left
    sent = 0
    interim = Interim.for({"rack.early_hints" => ->(_) { (sent += 1) && raise(IOError) }})
    hints = interim.entries.fetch("rack.early_hints")
    hints.call({})
    interim.deliver
    hints.call({})
    interim.deliver
    assert_equal 1, sent
  end

  def test_what_the_client_has_decides
    assert_nil Interim.for({"rack.early_hints" => nil})
    assert_equal %w[neverblock.interim], Interim.for({"neverblock.interim" => proc {}}).entries.keys
  end

  # One or two, as the server's callable has them, whatever its name.
  def test_arguments
    sent = []
    env = %w[rack.early_hints neverblock.interim].to_h { |name| [name, ->(*arguments) { sent << arguments }] }
    interim = Interim.for(env)
    hints = interim.entries.fetch("rack.early_hints")
    [hints, interim.entries.fetch("neverblock.interim")].each { |way| way.call({}) || way.call(102, nil) }
    interim.close
    interim.deliver
    assert_equal [[{}], [102, nil], [103, {}], [102, nil]], sent
    [[], [102, {}, {}]].each { |arguments| assert_raises(ArgumentError) { hints.call(*arguments) } }
  end

  # On threads a follower may be there before the one that has begun, and a response for one client is its.
  def test_only_the_first_of_a_fill_has_them
    cached { |env| ok(env.key?("rack.early_hints").to_s, **FRESH) }
    at_return(NeverBlock::Cache::Fills, :find, ->((fill, _)) { fill.join }) do
      assert_equal "false", get("/a", "rack.early_hints" => ->(_) { flunk }).body
    end
  end
end
