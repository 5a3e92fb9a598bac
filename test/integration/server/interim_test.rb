# frozen_string_literal: true

# engines: every - io_uring sends, the others write when the socket is writable

require "test_helper"
require "support/served_in_time"

# 100 Continue (RFC 9110 §10.1.1), 103 Early Hints (RFC 8297), and other interim responses (RFC 9110 §15.2).
class ServerInterimTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  ECHO = ->(env) { [200, {}, [env["rack.input"].read]] }

  def expecting(path = "/", length = 3, *lines, version: "1.1")
    request("POST", path, "Content-Length: #{length}", "Expect: 100-continue", *lines, version:)
  end

  # ---- 100 ----

  {"length" => ["Content-Length: 3", "abc"], "chunks" => ["Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\n"]}.each do |name, (line, body)|
    %i[buffer stream].each do |mode|
      define_method(:"test_continue_before_#{name}_in_#{mode}") do
        serve(ECHO, request_body: mode)
        wire = connect
        2.times do
          wire << request("POST", "/", line, "Expect: 100-Continue")
          assert_equal [100, []], wire.read_head.then { |head| [head.status, head.fields] }
          answer = (wire << body).answer
          assert_equal [200, "abc", []], [answer.status, answer.body, answer.interim]
        end
      end
    end
  end

  def test_none_where_the_body_is_there_already
    serve(ECHO)
    answer = (connect << expecting + "abc").answer
    assert_equal ["abc", []], [answer.body, answer.interim]
  end

  def test_one_after_the_answers_before
    serve(ECHO)
    wire = connect << get << expecting
    assert_equal 200, wire.answer.status
    assert_equal 100, wire.read_head.status
    assert_equal "abc", (wire << "abc").answer.body
  end

  def test_none_without_a_body
    serve(ECHO)
    answer = (connect << request("GET", "/", "Expect: 100-continue")).answer
    assert_equal [200, []], [answer.status, answer.interim]
    answer = (connect << expecting("/", 0)).answer
    assert_equal [200, []], [answer.status, answer.interim]
  end

  def test_none_in_http_1_0
    serve(ECHO)
    wire = connect << expecting(version: "1.0")
    assert_predicate wire, :quiet?
    answer = (wire << "abc").answer
    assert_equal ["abc", []], [answer.body, answer.interim]
  end

  # The client need not send a body that is refused.
  {
    "too large" => [{max_body_size: 100}, 101, 413],
    "more than the quota" => [{max_body_size: 100, body_quota: 100}, 101, 413]
  }.each do |name, (directives, length, status)|
    define_method(:"test_refused_#{name.tr(" ", "_")}") do
      serve(ECHO, **directives)
      wire = connect << expecting("/", length)
      answer = wire.answer
      assert_equal [status, [], "close"], [answer.status, answer.interim, answer["connection"]]
      assert_predicate wire, :ended?
      await_refused(content_too_large: 1)
    end
  end

  def test_refused_by_an_app_that_does_not_ask_for_it
    serve(->(_env) { [401, {}, ["no"]] }, request_body: :stream)
    wire = connect << expecting
    answer = wire.answer
    assert_equal [401, [], "close"], [answer.status, answer.interim, answer["connection"]]
    assert_predicate wire, :ended?
  end

  def test_an_app_that_does_not_ask_for_what_has_come_without
    serve(->(_env) { [401, {}, ["no"]] }, request_body: :stream)
    wire = connect << expecting + "abc" << get
    assert_equal [[401, nil]] * 2, wire.answers(2).map { |answer| [answer.status, answer["connection"]] }
  end

  def test_not_before_the_app_asks
    steps = gate
    serve(request_body: :stream) { |env| steps.pop && ECHO.call(env) }
    wire = connect << expecting
    await_stats(in_flight: 1)
    assert_predicate wire, :quiet?
    steps << 1
    assert_equal 100, wire.read_head.status
    assert_equal "abc", (wire << "abc").answer.body
  end

  def test_not_after_the_answer_has_begun
    serve(request_body: :stream) do |env|
      [200, {}, Enumerator.new { |yielder| yielder << "a" << env["rack.input"].read }]
    end
    wire = connect << expecting
    answer = wire.read_head
    assert_equal [200, "close"], [answer.status, answer["connection"]]
    wire << "xyz"
    assert_equal "1\r\na\r\n3\r\nxyz\r\n0\r\n\r\n", wire.read(19)
  end

  def test_unknown_expectations_in_http_1_0_are_passed_over
    serve(ECHO)
    assert_equal 200, ask(request("GET", "/", "Expect: x", version: "1.0")).status
  end

  # ---- 103 ----

  LINKS = ["</a.css>; rel=preload", "</b.js>; rel=preload"].freeze

  def test_early_hints
    serve do |env|
      env["rack.early_hints"].call("link" => LINKS)
      env["rack.early_hints"].call("link" => LINKS.first, "x" => "y")
      [200, {"link" => LINKS.last}, ["a"]]
    end
    wire = connect
    2.times do
      answer = (wire << get).answer
      assert_equal [[103, LINKS.map { |link| ["link", link] }], [103, [["link", LINKS.first], %w[x y]]]], answer.interim.map { |one| [one.status, one.fields] }
      assert_equal [200, LINKS.last, "a"], [answer.status, answer["link"], answer.body]
      assert_equal "Early Hints", answer.interim.first.reason
    end
  end

  # As with Puma.
  def test_early_hints_in_lines_are_fields
    serve { |env| env["rack.early_hints"].call("link" => LINKS.join("\n")) || HELLO.call(env) }
    assert_equal [LINKS.map { |link| ["link", link] }], ask(get).interim.map(&:fields)
  end

  def test_early_hints_leave_at_once
    steps = gate
    serve do |env|
      env["rack.early_hints"].call("link" => LINKS.first)
      steps.pop
      HELLO.call(env)
    end
    wire = connect << get
    assert_equal 103, wire.read_head.status
    assert_predicate wire, :quiet?
    steps << 1
    assert_equal 200, wire.answer.status
  end

  # What an app calls, and with what.
  {"rack.early_hints" => [{"link" => LINKS}], "neverblock.interim" => [102, {}]}.each do |entry, arguments|
    define_method(:"test_none_by_#{entry}_in_http_1_0") do
      serve { |env| env[entry].call(*arguments) || HELLO.call(env) }
      answer = ask(get("/", version: "1.0"))
      assert_equal [200, []], [answer.status, answer.interim]
    end

    define_method(:"test_no_#{entry}_where_early_hints_are_off") do
      serve(early_hints: false) { |env| [200, {}, [env.key?(entry).to_s]] }
      assert_equal "false", ask(get).body
    end

    define_method(:"test_#{entry}_that_comes_too_late") do
      late = nil
      serve do |env|
        late = env[entry]
        [200, {}, Enumerator.new { |yielder| late.call(*arguments) || yielder << "a" }]
      end
      wire = connect
      answer = (wire << get).answer
      assert_equal ["a", []], [answer.body, answer.interim]
      wire.close
      await_stats(connections: 0)
      assert_raises(IOError) { late.call(*arguments) }
    end
  end

  def test_early_hints_within_early_hints
    serve do |env|
      inner = Class.new { define_method(:to_s) { env["rack.early_hints"].call("link" => LINKS) || "2" } }.new
      env["rack.early_hints"].call("a" => "1", "b" => inner)
      HELLO.call(env)
    end
    assert_equal [LINKS.map { |link| ["link", link] }, [%w[a 1], %w[b 2]]], ask(get).interim.map(&:fields)
  end

  def test_early_hints_whose_values_outlast_the_request
    over, told = gate, gate
    serve do |env|
      slow = Class.new { define_method(:to_s) { over.pop.to_s } }.new
      NeverBlock.spawn do
        env["rack.early_hints"].call("a" => slow)
      rescue IOError => error
        told << error.message
      end
      HELLO.call(env)
    end
    wire = connect
    assert_equal "hello", (wire << get).answer.body
    wire.close
    await_stats(connections: 0)
    over << 1
    assert_match(/the request is over/, told.pop(timeout: 10))
  end

  def test_refused_early_hints_leave_nothing_for_a_hijack
    serve do |env|
      env["rack.early_hints"].call("good" => "1", "bad" => "\0")
    rescue NeverBlock::ProtocolError
      env["rack.hijack"].call.tap { |io| io.write("mine") }.close
    end
    assert_equal "mine", (connect << get).rest
  end

  {"CRLF in a value" => {"link" => "a\r\nset-cookie: evil"}, "CRLF in a name" => {"link: a\r\nx" => "y"}, "NUL" => {"a" => "\0"}}.each do |name, hints|
    define_method(:"test_early_hints_with_#{name.tr(" ", "_")}") do
      serve do |env|
        env["rack.early_hints"].call({"good" => "1"}.merge(hints))
        HELLO.call(env)
      rescue NeverBlock::ProtocolError
        [200, {}, ["rescued"]] if env["PATH_INFO"] == "/rescue"
      end
      answer = ask(get("/rescue"))
      assert_equal ["rescued", []], [answer.body, answer.interim]
      answer = ask(get)
      assert_equal [500, [], %w[Content-Type Content-Length Date]], [answer.status, answer.interim, answer.fields.map(&:first)]
      assert_match(/Rack app returns/, log.join)
    end
  end

  # ---- others ----

  def test_other_interim_responses
    serve do |env|
      interim = env["neverblock.interim"]
      [[102, {}], [103, {"link" => LINKS}], [104, {"upload-offset" => "5"}], [199, nil]].each { |status, headers| interim.call(status, headers) }
      HELLO.call(env)
    end
    wire = connect
    2.times do
      answer = (wire << get).answer
      assert_equal [[102, "Processing", []], [103, "Early Hints", LINKS.map { |link| ["link", link] }], [104, "", [%w[upload-offset 5]]], [199, "", []]],
        answer.interim.map { |one| [one.status, one.reason.to_s.strip, one.fields] }
      assert_equal [200, "hello"], [answer.status, answer.body]
    end
  end

  # A second object would be one more for every request.
  def test_one_object_sends_all_of_them
    serve { |env| [200, {}, [env["neverblock.interim"].equal?(env["rack.early_hints"]).to_s]] }
    assert_equal "true", ask(get).body
  end

  def test_other_interim_responses_leave_at_once
    steps = gate
    serve { |env| env["neverblock.interim"].call(102, {}) || steps.pop && HELLO.call(env) }
    wire = connect << get
    assert_equal 102, wire.read_head.status
    assert_predicate wire, :quiet?
    steps << 1
    assert_equal 200, wire.answer.status
  end

  # 100 is the server's own, after 101 the connection is no HTTP, and after 200 another response could follow.
  [100, 101, 99, 0, -102, 200, 1020, 2**70, "102", 102.0, nil].each do |status|
    define_method(:"test_no_interim_response_with_the_status_#{status.inspect}") do
      serve do |env|
        env["neverblock.interim"].call(status, {"good" => "1"})
      rescue NeverBlock::ProtocolError => error
        [200, {}, [error.message]]
      end
      answer = ask(get)
      assert_equal [200, []], [answer.status, answer.interim]
      assert_includes answer.body, "has the status #{status.inspect}: it is a number from 102 to 199"
    end
  end

  {"CRLF in a value" => {"link" => "a\r\nset-cookie: evil"}, "CRLF in a name" => {"link: a\r\nx" => "y"}, "NUL" => {"a" => "\0"}}.each do |name, headers|
    define_method(:"test_another_interim_response_with_#{name.tr(" ", "_")}") do
      serve { |env| env["neverblock.interim"].call(102, {"good" => "1"}.merge(headers)) || HELLO.call(env) }
      answer = ask(get)
      assert_equal [500, [], %w[Content-Type Content-Length Date]], [answer.status, answer.interim, answer.fields.map(&:first)]
      assert_match(/ProtocolError/, log.join)
    end
  end

  # The server alone says how a message ends, and what becomes of the connection.
  def test_the_apps_framing_and_connection_are_not_in_an_interim_response
    serve do |env|
      %w[close upgrade].each do |connection|
        env["rack.early_hints"].call("transfer-encoding" => "chunked", "content-length" => "5", "connection" => connection, "x" => "y")
      end
      HELLO.call(env)
    end
    wire = connect
    2.times do
      answer = (wire << get).answer
      assert_equal [[[%w[x y]]] * 2, "hello", nil], [answer.interim.map(&:fields), answer.body, answer["connection"]]
    end
  end

  # What followed would be a part of the torn head, for the client or a proxy in front.
  def test_nothing_follows_an_interim_response_that_is_broken_off_in_its_middle
    over = gate
    serve do |env|
      next HELLO.call(env) if env["PATH_INFO"] == "/next"
      sent = 0
      sender = NeverBlock.spawn { loop { env["rack.early_hints"].call("x" => "y" * 60_000) || sent += 1 } }
      clock.settle
      assert_operator sent, :>, 0
      sender.cancel
      sender.join
      over << 1
      HELLO.call(env)
    end
    wire = connect(receive: 4_096) << get << get("/next")
    over.pop(timeout: 10) or flunk("all of them were taken")
    whole = "HTTP/1.1 103 Early Hints\r\nx: #{"y" * 60_000}\r\n\r\n"
    torn = wire.rest.split(/(?<=\r\n\r\n)/).drop_while { |head| head == whole }
    assert_equal 1, torn.size, "after it"
    assert whole.start_with?(torn.first), torn.first[-200..]
    assert_match(/IOError: a write before this one was broken off in its middle/, await_log.join)
  end

  def test_no_100_in_the_middle_of_another_interim_response
    blocked = gate
    serve(request_body: :stream) do |env|
      NeverBlock.run do |scope|
        left = 100
        scope.spawn { env["rack.early_hints"].call("x" => "y" * 60_000) while (left -= 1) >= 0 }
        scope.spawn do
          clock.settle # the other waits for the client
          blocked << 1
          env["rack.input"].read
        end
      end
      HELLO.call(env)
    end
    wire = connect(receive: 4_096) << expecting
    blocked.pop(timeout: 10) or flunk("all of them were taken")
    assert_equal({103 => 100, 100 => 1}, Array.new(101) { wire.read_head.status }.tally)
    assert_equal 200, (wire << "abc").answer.status
  end

  def test_a_failure_while_another_task_is_in_the_middle_of_an_interim_response
    blocked = gate
    serve do |env|
      next HELLO.call(env) if env["PATH_INFO"] == "/next"
      left = 100
      NeverBlock.spawn { env["rack.early_hints"].call("x" => "y" * 60_000) while (left -= 1) >= 0 }
      clock.settle # it waits for the client
      blocked << 1
      raise "no"
    end
    wire = connect(receive: 4_096) << get << get("/next")
    blocked.pop(timeout: 10) or flunk("all of them were taken")
    assert_equal [500, 200], wire.answers(2).map(&:status)
    assert_match(/RuntimeError: no/, await_log.join)
  end
end
