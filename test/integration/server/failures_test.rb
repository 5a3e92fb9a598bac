# frozen_string_literal: true

require "test_helper"
require "support/served_in_time"
require "timeout"

# Apps that fail in every possible way: the client gets a response, the log one line, and the server goes on.
class ServerFailuresTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  class Odd < Exception; end # standard:disable Lint/InheritException -- apps may raise it

  class Deep
    def call(depth) = call(depth + 1)
  end

  # name => [what the app does, what the log contains]
  {
    "an error" => [-> { raise "no way" }, /RuntimeError: no way/],
    "an error with control characters" => [-> { raise "a\r\nb\e[2J\0" }, /RuntimeError: a\\r\\nb\\x1B\[2J\\x00/],
    "an error with a cause" => [-> { raise(KeyError, "first") rescue raise("second") }, /RuntimeError: second .* caused by KeyError: first/], # standard:disable Style/RescueModifier
    "an exception of its own" => [-> { raise Odd, "odd" }, /ServerFailuresTest::Odd: odd/],
    "a missing method" => [-> { nil.no_such_method }, /NoMethodError/],
    "exit" => [-> { exit(3) }, /SystemExit: exit/],
    "abort without a word" => [-> { raise SystemExit.new(1, "abort") }, /SystemExit: abort/],
    "throw" => [-> { throw :nowhere }, /UncaughtThrowError: uncaught throw :nowhere/],
    "a timeout" => [-> { Timeout.timeout(10) { sleep } }, /Timeout::Error: execution expired/],
    "a timeout of ours" => [-> { NB.timeout(10) { sleep } }, /NeverBlock::TimeoutError/],
    "no memory" => [-> { raise NoMemoryError, "failed to allocate memory" }, /NoMemoryError/],
    "a String without end" => [-> { "x" * (1 << 62) }, /ArgumentError: argument too big|NoMemoryError/],
    "no stack" => [-> { (recurse = -> { recurse.call }).call }, /SystemStackError: stack level too deep .* more …/],
    "no stack in a method of its own" => [-> { Deep.new.call(0) }, /SystemStackError/],
    "StopIteration" => [-> { [].each.next }, /StopIteration/],
    "a fiber that yields" => [-> { Fiber.yield(1) }, /FiberError/],
    "a syntax error" => [-> { RubyVM::InstructionSequence.compile("(") }, /SyntaxError/],
    "a missing file" => [-> { require "no/such/file" }, /LoadError/],
    "an assertion" => [-> { raise Minitest::Assertion, "failed" }, /Minitest::Assertion/],
    "Cancelled" => [-> { raise NeverBlock::Cancelled, "mine" }, /NeverBlock::Cancelled: mine/],
    "a failing task that it joins" => [-> { NB.run { |scope| scope.spawn { raise "in a task" } } }, /RuntimeError: in a task/],
    "a broken message" => [-> { raise Class.new(StandardError) { def message = raise("even this") } }, /#<Class:\S+: \(its message raised RuntimeError\)/],
    "a closed stream" => [-> { IO.pipe.each(&:close).first.read }, /IOError/],
    "a deadlock" => [-> { Thread::Mutex.new.then { |mutex| mutex.lock.lock } }, /ThreadError: deadlock/]
  }.each do |name, (code, message)|
    define_method(:"test_#{name.tr(" ", "_")}") do
      serve { |env| (env["PATH_INFO"] == "/") ? HELLO.call(env) : code.call }
      wire = connect << get("/bad") << get("/") << get("/bad") << get("/")
      answers = wire.answers(4)
      assert_equal [500, 200, 500, 200], answers.map(&:status)
      assert_equal ["an error occurred\n", "text/plain", nil], answers.first.then { |answer| [answer.body, answer["content-type"], answer["connection"]] }
      lines = await_log(2)
      assert_equal 2, lines.size
      lines.each do |line|
        assert_match(%r{\A\S+ \[\d+\] error: GET /bad HTTP/1\.1: #{message}}, line)
        refute_match(/[\x00-\x1F\x7F]/, line)
      end
      assert_equal({failed: 2, answered: 2, in_flight: 0}, server.stats.slice(:failed, :answered, :in_flight))
    end
  end

  def test_in_http_1_0
    serve { |_env| raise "no" }
    wire = connect << get("/", version: "1.0")
    assert_equal [500, "close"], wire.answer.then { |answer| [answer.status, answer["connection"]] }
    assert_predicate wire, :ended?
    log
  end

  def test_of_head
    serve { |_env| raise "no" }
    wire = connect << request("HEAD", "/") << request("HEAD", "/")
    2.times { assert_equal 500, wire.answer(head: true).status }
    assert_predicate wire, :quiet?
    log
  end

  def test_with_a_body_that_was_not_read
    serve { |_env| raise "no" }
    wire = connect << post("/", "x" * 100_000) << post_chunks("/", ["abc"])
    assert_equal [500, 500], wire.answers(2).map(&:status)
    log
  end

  def test_the_request_s_line_in_the_log_is_escaped
    serve { |env| (env["PATH_INFO"] = "/a\nb\e\"") && raise("no") }
    ask(get("/x"))
    assert_match(%r{error: GET /a\\nb\\x1B\\" HTTP/1\.1: RuntimeError}, log.join)
  end

  def test_the_log_has_the_app_s_backtrace
    serve { |_env| raise "no" }
    ask(get)
    assert_match(%r{RuntimeError: no \| .*server/failures_test\.rb:\d+:in }, log.join)
  end

  def test_two_hundred_failures_at_once
    serve do |env|
      sleep 1
      (env["PATH_INFO"] == "/") ? HELLO.call(env) : raise("no")
    end
    wires = Array.new(200) { |n| connect << get(n.odd? ? "/" : "/bad") }
    assert_equal [500, 200] * 100, wires.map { |wire| wire.answer.status }
    assert_equal 100, await_log(100).size
  end

  def test_a_failing_log_is_no_reason_to_fail
    broken = Object.new
    def broken.write(*) = raise(Errno::ENOSPC)
    def broken.puts(*) = raise(Errno::ENOSPC)
    server = NeverBlock::Server.new(->(_env) { raise "no" }, bind: "tcp://127.0.0.1:0", error_log: broken).start
    servers << server
    wire = connect(server) << get << get
    assert_equal [500, 500], wire.answers(2).map(&:status)
  end

  def test_a_failure_that_the_app_answers_itself
    serve do |_env|
      raise "no"
    rescue => error
      [422, {}, [error.message]]
    end
    assert_equal [422, "no"], ask(get).then { |answer| [answer.status, answer.body] }
  end

  def test_fiber_kill_costs_the_connection_and_its_fiber
    serve { |env| (env["PATH_INFO"] == "/") ? HELLO.call(env) : Fiber.current.kill }
    wire = connect << get("/kill") + get("/") # in one packet: a close with unread bytes is a reset
    assert_predicate wire, :ended?
    assert_equal 200, ask(get("/")).status
    await_stats(in_flight: 0, connections: 0)
  end
end

# Exceptions that end the server's thread or its program.
class ServerFailuresOfThreadsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  # As in any program, Thread#kill ends the loop on that thread together with its tasks, but cleanly, no matter which
  # code called it, or whether an app was running.
  {"the app itself" => -> { Thread.current.kill }, "another thread" => nil}.each do |name, code|
    slow "a thread that is killed"
    define_method(:"test_its_thread_is_killed_by_#{name.tr(" ", "_")}") do
      ensures = gate
      thread = nil
      serve do |env|
        thread = Thread.current
        if env["PATH_INFO"] == "/wait"
          begin
            sleep
          ensure
            ensures << 1
          end
        end
        code ? code.call : loop { Thread.pass }
      end
      waiting = connect << get("/wait")
      await_stats(in_flight: 1)
      wire = connect << get("/kill")
      await_stats(in_flight: 2) unless code
      thread.kill unless code
      assert_predicate wire, :ended?
      assert_equal 503, waiting.answer.status
      assert_equal 1, ensures.pop(timeout: 10)
      assert thread.join(10), "the thread's end"
      refute_predicate server, :serving?
      assert_raises(Errno::ECONNREFUSED) { connect }
    end
  end

  # An exception of a signal handler isn't a failure of the request that happened to run: otherwise a ^C would be lost.
  {"an Interrupt" => Interrupt, "a SignalException" => SignalException.new("TERM")}.each do |name, exception|
    define_method(:"test_#{name.tr(" ", "_")}_leaves_through_the_run") do
      ensures = gate
      listening = gate
      program = Thread.new do
        Thread.current.report_on_exception = false
        NB.run do
          listening << serve { |env|
            raise exception unless env["PATH_INFO"] == "/wait"
            begin
              sleep
            ensure
              ensures << 1
            end
          }
          sleep
        end
      end
      listening.pop(timeout: 10)
      waiting = connect << get("/wait")
      await_stats(in_flight: 1)
      assert_equal 503, ask(get("/signal")).status
      assert_equal 503, waiting.answer.status
      assert_raises(exception.is_a?(Class) ? exception : exception.class) { program.value }
      assert_equal 1, ensures.pop(timeout: 10)
      refute_predicate server, :serving?
    end
  end
end
