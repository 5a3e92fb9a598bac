# frozen_string_literal: true

require "test_helper"
require "support/served_in_time"

# rack.response_finished: which callbacks run, when, in which order and with which arguments.
class ServerFinishedTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  # @return [Array] arguments of the callbacks
  def serve_finished(**directives)
    calls = []
    serve(**directives) do |env|
      env["rack.response_finished"] << ->(*arguments) { calls << arguments }
      yield env
    end
    calls
  end

  def test_after_the_answer
    calls = serve_finished { |_env| [201, {"a" => "b"}, ["c"]] }
    assert_equal "c", ask(get("/path")).body
    wait_until("the call") { calls.any? }
    env, status, headers, error = calls.first
    assert_equal ["/path", 201, {"a" => "b"}, nil], [env["PATH_INFO"], status, headers, error]
    assert_equal 1, calls.size
  end

  def test_the_last_that_was_added_is_called_first
    order = []
    serve do |env|
      3.times { |n| env["rack.response_finished"] << ->(*) { order << n } }
      HELLO.call(env)
    end
    ask(get)
    wait_until("the calls") { order.size == 3 }
    assert_equal [2, 1, 0], order
  end

  def test_each_request_has_its_own
    calls = serve_finished { |env| HELLO.call(env) }
    (connect << get("/1") << get("/2")).answers(2)
    wait_until("the calls") { calls.size == 2 }
    assert_equal %w[/1 /2], calls.map { |env, *| env["PATH_INFO"] }
  end

  def test_after_the_body_was_closed
    order = []
    body = Object.new
    body.define_singleton_method(:each) { |&block| block.call("a") }
    body.define_singleton_method(:close) { order << :close }
    serve do |env|
      env["rack.response_finished"] << ->(*) { order << :finished }
      [200, {}, body]
    end
    ask(get)
    wait_until("the calls") { order.size == 2 }
    assert_equal %i[close finished], order
  end

  def test_before_the_next_request_of_its_connection
    order = []
    serve do |env|
      order << env["PATH_INFO"]
      env["rack.response_finished"] << ->(*) { sleep(5) && order << "#{env["PATH_INFO"]} finished" }
      HELLO.call(env)
    end
    (connect << get("/1") << get("/2")).answers(2)
    wait_until("the calls") { order.size == 4 }
    assert_equal ["/1", "/1 finished", "/2", "/2 finished"], order
  end

  # name => [what the app does, status, the error's class]
  {
    "an error" => [->(_env) { raise KeyError, "no" }, 500, KeyError],
    "a refused header" => [->(_env) { [200, {"a" => "\n"}, []] }, 500, NeverBlock::ProtocolError],
    "an error in the body" => [->(_env) { [200, {}, Enumerator.new { |to| (to << "a") && sleep(1) && raise(KeyError, "no") }] }, 200, KeyError],
    "a body that is too short" => [->(_env) { [200, {"content-length" => "2"}, ["a"]] }, 200, NeverBlock::ProtocolError],
    "throw" => [->(_env) { throw :nowhere }, 500, UncaughtThrowError]
  }.each do |name, (app, status, error)|
    define_method(:"test_after_#{name.tr(" ", "_")}") do
      calls = serve_finished(&app)
      wire = connect << get
      wire.socket.close_write
      wire.rest
      wait_until("the call") { calls.any? }
      assert_equal [status, error], calls.first.then { |_, had, _, raised| [had, raised.class] }
      assert_equal 1, await_log.size
    end
  end

  def test_after_a_client_that_left
    calls = serve_finished { |_env| [200, {"x" => "y"}, Enumerator.new { |yielder| loop { yielder << "x" * 10_000 } }] }
    wire = connect << get
    wire.read(1_000)
    wire.reset
    wait_until("the call") { calls.any? }
    assert_equal [200, {"x" => "y"}], calls.first[1, 2]
    assert_kind_of SystemCallError, calls.first[3]
  end

  def test_after_a_hijack
    calls = serve_finished { |env| env["rack.hijack"].call.close }
    (connect << get).rest
    wait_until("the call") { calls.any? }
    assert_nil calls.first[3]
  end

  def test_one_that_fails_does_not_keep_the_others
    order = []
    serve do |env|
      env["rack.response_finished"] << ->(*) { order << :first } << ->(*) { raise "in finished" } << ->(*) { order << :last }
      HELLO.call(env)
    end
    wire = connect << get << get
    assert_equal [200, 200], wire.answers(2).map(&:status)
    wait_until("the calls") { order.size == 4 }
    assert_equal %i[last first last first], order
    assert_equal 2, await_log(2).grep(/RuntimeError: in finished/).size
  end

  def test_a_value_that_is_not_a_list
    serve { |env| (env["rack.response_finished"] = nil) || HELLO.call(env) }
    wire = connect << get << get
    assert_equal [200, 200], wire.answers(2).map(&:status)
  end
end
