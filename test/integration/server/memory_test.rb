# frozen_string_literal: true

require "test_helper"
require "support/serve_process"
require "support/starved"

# Servers that run out of memory for fibers.
class ServerMemoryTest < Minitest::Test
  include NeverBlockTest::Starved

  # /deaf makes Ruby lose count of the blocking fibers: see ext/neverblock/engine/starter.c.
  APP = <<~RUBY
    #{CODE}
    run(lambda do |env|
      starve { Fiber.blocking { exhaust } } if env["PATH_INFO"] == "/deaf"
      [200, {}, [Process.pid.to_s]]
    end)
  RUBY

  slow "it starts a Ruby"
  def test_requests_without_a_fiber_get_503_and_the_server_goes_on
    lines = starved_ruby(<<~'RUBY')
      require "neverblock/server"
      require "socket"
      require "stringio"
      gate = Queue.new
      app = ->(env) { [200, {}, [(gate.pop if env["PATH_INFO"] == "/wait").to_s]] }
      log = StringIO.new
      server = NeverBlock::Server.new(app, bind: "tcp://127.0.0.1:0", error_log: log, max_in_flight: 1000).start
      port = server.addresses.first[/\d+\z/].to_i
      ask = lambda do |path|
        TCPSocket.new("127.0.0.1", port).tap { |one| one.write("GET #{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") }
      end
      status = ->(socket) { socket.read[/\d{3}/] }
      puts status.(ask.("/"))
      waiting = nil
      starve do
        waiting = Array.new(250) { ask.("/wait") }
        Thread.pass until server.stats[:in_flight] + server.stats[:refused][:fiber] == 250
      end
      puts server.stats[:refused][:fiber] > 0
      gate.close
      puts waiting.map(&status).uniq.sort.join(" "), status.(ask.("/"))
      puts server.stats.values_at(:in_flight, :ready, :queued).inspect
      server.stop
      puts log.string.include?("no fiber can be started for it")
    RUBY
    assert_equal ["200", "true", "200 503", "200", "[0, 0, 0]", "true"], lines
  end

  slow "it starts a server"
  def test_a_single_process_that_can_not_wait_any_more_ends
    serve do |served|
      served.get("/deaf")
      assert_equal 1, served.wait.exitstatus
      assert_match(/^neverblock: this thread can't run a loop any more: .*ulimit -v/, served.errors)
    end
  end

  slow "it starts a server"
  def test_a_worker_that_can_not_wait_any_more_is_replaced
    serve("-w", "1") do |served|
      before = served.body("/")
      served.get("/deaf")
      served.until_true("another worker") { ![before, nil, ""].include?(served.body("/")) }
      served.until_true("its reason") { served.errors.match?(/warn: worker 0 .* ended .*this thread can't run a loop/) }
      assert_match(/error: worker 0.*this thread can't run a loop any more/, served.errors)
      served.stop
    end
  end

  private

  def serve(*arguments, &)
    NeverBlockTest::ServeProcess.open(APP, *arguments, "-p", "0", environment: STACKS.merge("NEVERBLOCK_BOOT" => nil), &)
  end
end
