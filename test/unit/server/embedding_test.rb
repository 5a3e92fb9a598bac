# frozen_string_literal: true

# engines: every - a ring belongs to the thread that opened it

require "test_helper"
require "neverblock/server"
require "support/runs"
require "net/http"
require "stringio"
require "tmpdir"

# A server inside a program: on a thread of its own, and on the caller's loop.
class ServerEmbeddingTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  Server = NeverBlock::Server

  HELLO = ->(_env) { [200, {"content-type" => "text/plain"}, ["hello"]] }

  def setup
    @errors = StringIO.new
    @servers = []
  end

  def teardown
    @servers.each { |server| server.stop(timeout: 0) }
    assert_empty @errors.string, "the error log"
  end

  def test_before_the_start
    server = server(HELLO)
    assert_equal({state: :new, addresses: [], log_lines_lost: 0}, server.stats)
    refute_predicate server, :serving?
    assert_equal true, server.stop
    assert_empty server.addresses
  end

  def test_outside_a_loop_it_has_a_thread_of_its_own
    server = server(HELLO)
    threads = Thread.list
    assert_same server, server.start
    assert_predicate server, :serving?
    assert_match(/\Atcp:\/\/127\.0\.0\.1:[1-9]\d*\z/, server.addresses.first)
    assert_equal ["neverblock server"], (Thread.list - threads).map(&:name) # Net::HTTP may add Timeout's thread
    assert_equal "hello", get(server)
    assert_equal true, server.stop
    refute_predicate server, :serving?
    wait_until("the thread's end") { (Thread.list - threads).none? { |thread| thread.name == "neverblock server" } }
    assert_raises(Errno::ECONNREFUSED) { get(server) }
  end

  def test_inside_a_loop_it_is_on_that_one
    seen = nil
    in_run do
      server = server(->(env) { (seen = [Thread.current, NeverBlock::Task.current.class]) && HELLO.call(env) }).start
      assert_equal "hello", get(server)
      assert_equal [Thread.current, NeverBlock::Task], seen
      assert_equal true, server.stop
    end
  end

  def test_the_scope_of_its_start_ends_when_it_is_stopped
    log = []
    in_run do
      server = server(HELLO)
      NeverBlock.run do |inner|
        server.start
        inner.spawn do
          NB.pass
          log << :stopping
          server.stop
        end
      end
      log << :left
    end
    assert_equal %i[stopping left], log
  end

  def test_a_scope_that_fails_takes_it_along
    server = server(->(_env) { sleep })
    client = nil
    error = raised do
      in_run do
        server.start
        client = Thread.new { get(server) }
        pass_until("the request") { server.stats[:in_flight] == 1 }
        raise "no"
      end
    end
    assert_equal "no", error.message
    refute_predicate server, :serving?
    assert_equal 0, server.stats[:connections]
    raised { client.value }
    assert_raises(Errno::ECONNREFUSED) { get(server) }
  end

  def test_it_can_be_stopped_from_another_thread
    in_run do
      server = server(HELLO).start
      assert_equal true, Thread.new { server.stop }.value
    end
  end

  def test_start_twice
    server = server(HELLO).start
    error = assert_raises(NeverBlock::ClosedError) { server.start }
    assert_match(/serves already, at tcp:.*stop it first/, error.message)
  end

  def test_start_again
    server = server(HELLO)
    ports = Array.new(2) do
      server.start
      assert_equal "hello", get(server)
      assert_equal true, server.stop
      server.addresses
    end
    assert_equal 2, ports.size
  end

  def test_an_address_in_use
    first = server(HELLO).start
    second = server(HELLO, bind: first.addresses)
    [-> { second.start }, -> { in_run { second.start } }].each do |start|
      assert_match(/in use/, assert_raises(NeverBlock::BindError, &start).message)
      refute_predicate second, :serving?
    end
    assert_equal "hello", get(first)
  end

  def test_several_addresses
    Dir.mktmpdir do |folder|
      server = server(HELLO, bind: ["tcp://127.0.0.1:0", "unix://#{folder}/a.sock"]).start
      assert_equal "hello", get(server)
      UNIXSocket.open("#{folder}/a.sock") do |socket|
        socket << "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        assert_match(/\AHTTP\/1\.1 200 .*hello\z/m, socket.read)
      end
      server.stop
      assert_empty Dir.children(folder)
    end
  end

  def test_stop_waits_for_what_runs
    steps = Thread::Queue.new
    server = server(->(env) { steps.pop && HELLO.call(env) }).start
    client = Thread.new { get(server) }
    wait_until("the request") { server.stats[:in_flight] == 1 }
    stopping = Thread.new { server.stop }
    wait_until("the stop") { server.stats[:state] == :stopping }
    steps << 1
    assert_equal true, stopping.value
    assert_equal "hello", client.value
    assert_equal [:ended, 0, 1, 0], server.stats.values_at(:state, :connections, :answered, :cut)
  end

  def test_stop_closes_idle_connections
    server = server(HELLO).start
    socket = TCPSocket.new("127.0.0.1", port(server))
    socket << "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    assert_match(/\AHTTP\/1\.1 200/, socket.readpartial(1_000))
    stopping = Thread.new { server.stop(timeout: 20) }
    assert_equal "", socket.read
    socket.close
    assert_equal true, stopping.value
  end

  def test_after_the_timeout_what_is_left_is_cancelled
    log = Thread::Queue.new
    app = lambda do |_env|
      sleep
    ensure
      log << :ensure
    end
    server = server(app).start
    client = Thread.new { raised { get(server) } }
    wait_until("the request") { server.stats[:in_flight] == 1 }
    assert_equal false, server.stop(timeout: 0.05)
    assert_equal [:ended, 1], server.stats.values_at(:state, :cut)
    assert_equal :ensure, log.pop(timeout: 5)
    client.join
  end

  def test_a_second_stop_can_be_sooner
    server = server(->(_env) { sleep }).start
    client = Thread.new { raised { get(server) } }
    wait_until("the request") { server.stats[:in_flight] == 1 }
    patient = Thread.new { server.stop(timeout: 3600) }
    wait_until("the first stop") { server.stats[:state] == :stopping }
    assert_equal [false, false], [server.stop(timeout: 0), patient.value]
    client.join
  end

  def test_stop_with_a_timeout_that_is_none
    [-1, "1"].each { |timeout| assert_raises(ArgumentError) { server(HELLO).stop(timeout:) } }
  end

  def test_an_invalid_app_and_an_invalid_configuration
    assert_match(/3 is not a Rack app/, assert_raises(NeverBlock::ConfigurationError) { Server.new(3) }.message)
    assert_raises(NeverBlock::ConfigurationError) { Server.new(HELLO, max_in_flight: 0) }
    assert_raises(NeverBlock::ConfigurationError) { Server.new(HELLO, body_quota: 1) }
  end

  def test_a_configuration_with_keywords_on_top
    configuration = Server::Configuration.new(max_in_flight: 3, queue_limit: 4)
    server = Server.new(HELLO, configuration, queue_limit: 5)
    assert_equal [3, 5], %i[max_in_flight queue_limit].map { |name| server.configuration[name] }
    assert_equal 4, configuration[:queue_limit], "the caller's own is not changed"
  end

  def test_a_failing_app_is_told
    server = server(->(_env) { raise "no\nway" }).start
    assert_equal "500", Net::HTTP.get_response(uri(server)).code
    server.stop
    assert_match(/\A\S+ \[\d+\] error: GET \/ HTTP\/1\.1: RuntimeError: no\\nway \| .*\n\z/, @errors.string)
    @errors.truncate(0)
  end

  def test_tasks_that_an_app_leaves_behind
    server = server(->(env) { NB.spawn { raise "later" } && HELLO.call(env) }).start
    assert_equal "hello", get(server)
    wait_until("the failure's line") { @errors.string.include?("later") }
    assert_equal "hello", get(server)
    server.stop
    assert_match(/\A\S+ \[\d+\] error: .*RuntimeError: later/, @errors.string)
    @errors.truncate(0)
  end

  def test_access_log_to_a_file
    Dir.mktmpdir do |folder|
      server = server(HELLO, access_log: :common, access_log_to: "#{folder}/access.log").start
      3.times { get(server) }
      server.stop
      assert_equal ['"GET / HTTP/1.1" 200 5'] * 3, File.read("#{folder}/access.log").scan(/".*$/)
      File.rename("#{folder}/access.log", "#{folder}/old")
      server.reopen_logs
      server.start
      get(server)
      server.stop
      assert_equal [3, 1], %w[old access.log].map { |name| File.readlines("#{folder}/#{name}").size }
    end
  end

  def test_access_log_of_the_server_s_own_answers
    Dir.mktmpdir do |folder|
      server = server(->(_env) { raise "no" }, access_log: :common, access_log_to: "#{folder}/access.log", error_log: StringIO.new).start
      body = get(server)
      server.stop
      assert_match(/" 500 #{body.bytesize}$/, File.read("#{folder}/access.log"))
    end
  end

  def test_a_log_that_can_not_be_written
    error = assert_raises(NeverBlock::ConfigurationError) { server(HELLO, access_log: :json, access_log_to: "/no/such/folder/a").start }
    assert_match(%r{/no/such/folder/a}, error.message)
  end

  def test_a_log_that_can_not_be_written_is_told_with_file_and_line
    Dir.mktmpdir do |folder|
      ["access_log :json, to: '/no/such/folder/a'", "access_log :json\nerror_log '/no/such/folder/a'"].each do |text|
        File.write("#{folder}/c.rb", text)
        error = assert_raises(NeverBlock::ConfigurationError) { Server.new(HELLO, Server::Configuration.load("#{folder}/c.rb")).start }
        assert_match(%r{\A#{folder}/c\.rb:#{text.lines.size}: the log /no/such/folder/a can't be written: .*Make its folder}, error.message)
      end
    end
  end

  def test_inspect
    server = server(HELLO)
    assert_equal "#<NeverBlock::Server new>", server.inspect
    server.start
    assert_equal "#<NeverBlock::Server serving #{server.addresses.first}>", server.inspect
  end

  private

  def server(app, bind: "tcp://127.0.0.1:0", **directives)
    Server.new(app, bind:, error_log: @errors, **directives).tap { |server| @servers << server }
  end

  def port(server) = server.addresses.first[/\d+\z/].to_i

  def uri(server) = URI(server.addresses.first.sub("tcp", "http"))

  def get(server) = Net::HTTP.get(uri(server))
end
