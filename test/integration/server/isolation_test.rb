# frozen_string_literal: true

require "test_helper"
require "support/raised"
require "support/served_in_time"
require "timeout"

# No request ever sees another's state: on one connection, pipelined, in streaming bodies, on any fiber.
class ServerIsolationTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Raised
  include NeverBlockTest::ServedInTime

  # Methods, since variables that blocks leave belong to the scope they were written in.
  module Globals
    def self.match = "alice" =~ /ali/

    def self.last_match = $~

    def self.line = StringIO.new("alice").gets

    def self.last_line = $_

    # Without the warning about an experimental feature.
    def self.quietly
      Warning[:experimental] = false
      yield
    ensure
      Warning[:experimental] = true
    end
  end

  # State that a request may leave on its fiber: [leave, look]; look must give nil.
  TRACES = {
    "a fiber-local variable" => [-> { Thread.current[:user] = "alice" }, -> { Thread.current[:user] }],
    "fiber-local variables of any name" => [-> { Thread.current[:"user#{rand(9)}"] = 1 }, -> { Thread.current.keys.first }],
    "fiber storage" => [-> { Fiber[:user] = "alice" }, -> { Fiber[:user] }],
    "fiber storage as a whole" => [-> { Globals.quietly { Fiber.current.storage = {user: "alice"} } }, -> { Fiber.current.storage&.fetch(:user, nil) }],
    "an instance variable of the fiber" => [-> { Fiber.current.instance_variable_set(:@user, "alice") }, -> { Fiber.current.instance_variable_get(:@user) }],
    "the last match" => [-> { Globals.match }, -> { Globals.last_match }],
    "the last line" => [-> { Globals.line }, -> { Globals.last_line }],
    "the last error" => [-> { raise("alice") rescue $! }, -> { $! }], # standard:disable Style/RescueModifier
    "the name of the task" => [-> { NB::Task.current.name = "alice" }, -> { (NB::Task.current.name == "alice") || nil }],
    "a scope within" => [-> { NB.run { NB.spawn { sleep 1 } } }, -> { (NB::Task.current.inner_scope == NB::Task.current.scope) ? nil : :inner }],
    "a monitor's owner" => [-> { MONITOR.synchronize { sleep 1 } }, -> { MONITOR.mon_owned? || nil }],
    "a timeout that has passed" => [-> { Timeout.timeout(0.1) { sleep } rescue nil }, -> { sleep(1) && nil }], # standard:disable Style/RescueModifier
    "a timeout of ours that has passed" => [-> { NB.timeout(0.1) { sleep } rescue nil }, -> { sleep(1) && nil }], # standard:disable Style/RescueModifier
    "a timeout in time" => [-> { Timeout.timeout(0.1) { 1 } }, -> { sleep(1) && nil }],
    "an unfinished catch" => [-> { catch(:done) { throw :done } }, -> { (throw(:done) rescue nil) && :caught }] # standard:disable Style/RescueModifier
  }.freeze

  MONITOR = Monitor.new

  # Where the first request leaves it, and how the second is sent.
  TRACES.each do |name, (leave, look)|
    slug = name.tr(" ", "_")

    define_method(:"test_#{slug}_on_one_connection") { assert_no_trace(serve_traces(leave, look)) { |wire| [wire << get("/leave"), wire.answer, wire << get("/look"), wire.answer].last } }

    define_method(:"test_#{slug}_pipelined") { assert_no_trace(serve_traces(leave, look)) { |wire| (wire << get("/leave") + get("/look")).answers(2).last } }

    define_method(:"test_#{slug}_after_a_failure") { assert_no_trace(serve_traces(leave, look, failure: true)) { |wire| (wire << get("/leave") + get("/look")).answers(2).last } }

    define_method(:"test_#{slug}_in_streaming_bodies") { assert_no_trace(serve_streams(leave, look)) { |wire| (wire << get("/leave") + get("/look")).answers(2).last } }

    define_method(:"test_#{slug}_on_other_connections") do
      assert_no_trace(serve_traces(leave, look)) do |wire|
        8.times { ask(get("/leave")) }
        8.times { assert_equal "nil", ask(get("/look")).body }
        (wire << get("/look")).answer
      end
    end
  end

  # ---- cancellations ----

  def test_a_cancelled_request_does_not_cancel_the_next
    serve(cancel_on_disconnect: true) do |env|
      (env["PATH_INFO"] == "/wait") ? sleep : [200, {}, [sleep(1).to_s]]
    end
    5.times do
      wire = connect << get("/wait")
      await_stats(in_flight: 1)
      wire.close
      assert_equal 200, ask(get("/")).status
      await_stats(in_flight: 0)
    end
  end

  # The cancellation is requested after the last wait.
  def test_a_cancellation_that_was_not_taken
    serve do |env|
      NB::Task.current.cancel if env["PATH_INFO"] == "/cancel"
      (env["PATH_INFO"] == "/cancel") ? HELLO.call(env) : [200, {}, [sleep(1).to_s]]
    end
    wire = connect << (get("/cancel") + get("/")) * 10
    assert_equal [200] * 20, wire.answers(20).map(&:status)
  end

  def test_a_request_that_cancels_itself
    serve do |env|
      next HELLO.call(env) if env["PATH_INFO"] == "/"
      NB::Task.current.cancel
      sleep
    end
    wire = connect << (get("/cancel") + get("/")) * 3
    assert_equal [503, 200] * 3, wire.answers(6).map(&:status)
  end

  def test_a_shield_that_was_left_open_by_an_error
    serve do |env|
      next [200, {}, [sleep(1).to_s]] if env["PATH_INFO"] == "/"
      NB::Task.current.shield { raise "in the shield" }
    rescue RuntimeError
      HELLO.call(env)
    end
    wire = connect << (get("/shield") + get("/")) * 3
    assert_equal [200] * 6, wire.answers(6).map(&:status)
  end

  # ---- references to a body beyond its request ----

  # As broadcasting apps do: a yielder stays in their list when its client has left.
  def test_a_kept_yielder_does_not_write_into_a_later_answer
    kept = error = nil
    serve do |env|
      next [200, {}, Enumerator.new { |yielder| kept = yielder << "alice" }] if env["PATH_INFO"] == "/keep"
      error = raised { kept << "alice's" }
      [200, {}, ["bob"]]
    end
    wire = connect
    assert_equal %w[alice bob], [(wire << get("/keep")).answer.body, (wire << get("/next")).answer.body]
    assert_kind_of IOError, error
    assert_equal "bob", ask(get("/next")).body
  end

  def test_a_kept_block_of_the_headers_changes_no_later_answer
    kept = nil
    headers = Object.new
    headers.define_singleton_method(:each) { |&block| (kept = block).call("x-name", "alice") }
    serve do |env|
      next [200, headers, []] if env["PATH_INFO"] == "/keep"
      kept.call("x-name", "alice")
      HELLO.call(env)
    end
    wire = connect
    assert_equal ["alice", nil], ["/keep", "/next"].map { |path| (wire << get(path)).answer["x-name"] }
  end

  def test_a_body_s_block_can_not_be_called_by_another_thread
    error = nil
    serve do |_env|
      body = Enumerator.new { |yielder| error = Thread.new { raised { yielder << "from another thread" } }.value }
      [200, {}, body]
    end
    assert_equal "", ask(get).body
    assert_kind_of ThreadError, error
    assert_match(/a request's stream belongs to its server's thread/, error.message)
  end

  # ---- state within a request ----

  def test_state_is_kept_within_a_request_over_waits_and_its_body
    serve do |env|
      id = env["PATH_INFO"]
      Thread.current[:id] = Fiber[:id] = id
      sleep 2
      body = Enumerator.new do |yielder|
        3.times { sleep(1) && yielder << "#{Thread.current[:id]}=#{Fiber[:id]};" }
      end
      [200, {"x-id" => Thread.current[:id]}, body]
    end
    wires = Array.new(20) { |n| connect << get("/#{n}") << get("/#{n}b") }
    wires.each_with_index do |wire, n|
      ["/#{n}", "/#{n}b"].each do |id|
        answer = wire.answer
        assert_equal [id, "#{id}=#{id};" * 3], [answer["x-id"], answer.body]
      end
    end
  end

  def test_storage_of_whoever_started_the_server_is_seen_and_can_not_be_spoilt
    seen = []
    Fiber[:tenant] = "shop"
    serve do |env|
      seen << Fiber[:tenant]
      Fiber[:tenant] = "changed"
      HELLO.call(env)
    end
    (connect << get + get + get).answers(3)
    assert_equal %w[shop shop shop], seen
    assert_equal "shop", Fiber[:tenant]
  end

  # State left on a fiber is cleared, and the fiber serves again: Rails leaves some each time.
  def test_fibers_serve_again_whatever_was_left_on_them
    fibers = []
    serve do |env|
      fibers << Fiber.current
      next HELLO.call(env) if env["PATH_INFO"] == "/clean"
      Thread.current[:dirt] = Fiber[:dirt] = 1
      Fiber.current.instance_variable_set(:@dirt, 1)
      HELLO.call(env)
    end
    (connect << (get("/clean") + get("/dirty")) * 5).answers(10)
    assert_operator fibers.uniq.size, :<=, 3 # a busy machine may begin the next request before the previous fiber is back
  end

  def test_fibers_that_can_not_be_wiped_do_not_serve_again
    fibers = []
    serve do |env|
      fibers << Fiber.current
      Fiber.current.instance_variable_set(:@dirt, 1)
      Fiber.current.freeze
      HELLO.call(env)
    end
    assert_equal [200] * 10, (connect << get * 10).answers(10).map(&:status)
    assert_operator fibers.uniq.size, :>=, 9
  end

  private

  def serve_traces(leave, look, failure: false)
    serve do |env|
      next [200, {}, [look.call.inspect]] if env["PATH_INFO"] == "/look"
      leave.call
      failure ? raise("failed") : HELLO.call(env)
    end
  end

  # Both run within bodies that wait.
  def serve_streams(leave, look)
    serve do |env|
      found = nil
      code = (env["PATH_INFO"] == "/look") ? -> { found = look.call } : leave
      body = Enumerator.new do |yielder|
        sleep 1
        code.call
        sleep 1
        yielder << found.inspect
      end
      [200, {}, body]
    end
  end

  def assert_no_trace(_server)
    assert_equal "nil", yield(connect).body
    await_stats(in_flight: 0, streams: 0)
    log
  end
end
