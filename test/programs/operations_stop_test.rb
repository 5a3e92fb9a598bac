# frozen_string_literal: true

# slow: it starts servers (10 s)

require "test_helper"
require "support/operated"

# The end of a server, by a signal or by a command: what it waits for, and what cuts that short.
class OperationsStopTest < Minitest::Test
  include NeverBlockTest::Operated

  [0, 2].each do |workers|
    define_method(:"test_a_second_term_cuts_the_delay_and_the_requests_with_#{workers}_workers") do
      serve(workers, "drain_delay 60\nshutdown_timeout 60\n") do |served|
        held = hold(served)
        served.signal(:TERM)
        served.until_true("no readiness") { probe("/readyz").first == 503 }
        served.signal(:TERM)
        assert_match(%r{\AHTTP/1.1 503 }, held.read)
        assert_equal 1, served.wait.exitstatus
        assert_match(/stopped; running requests were cancelled/, served.errors)
      end
    end

    define_method(:"test_stop_waits_for_running_requests_with_#{workers}_workers") do
      serve(workers, "control 'control.sock'\npid_file 'server.pid'\n") do |served|
        held = hold(served)
        order = Thread.new { served.order("stop") }
        served.until_true("the drain") { stats[:state] == "draining" }
        assert_predicate order, :alive?
        assert_equal ["stop: begun; the error log will have the result\n", 0], served.order("stop", "--no-wait") # the second: it cuts nothing short
        assert_nil held.wait_readable(0.1)
        assert_predicate order, :alive?
        assert_equal ["stop: begun; the error log will have the result\n", 0], served.order("stop", "--no-wait", "--now")
        assert_equal ["stop: stopped; running requests were cancelled\n", 1], order.value
        refute_path_exists "#{served.folder}/server.pid"
        refute_predicate served, :running?
      end
    end

    # What sends TERM by itself, and then waits, has asked once.
    define_method(:"test_a_stop_of_what_is_being_stopped_cuts_no_delay_short_with_#{workers}_workers") do
      serve(workers, "control 'control.sock'\ndrain_delay 600\n") do |served|
        served.signal(:TERM)
        served.until_true("no readiness") { probe("/readyz").first == 503 }
        waiting = Array.new(2) { UNIXSocket.new("#{served.folder}/control.sock").tap { |socket| socket << "POST /stop HTTP/1.0\r\nContent-Length: 0\r\n\r\n" } }
        assert_equal ["stop: begun; the error log will have the result\n", 0], served.order("stop", "--no-wait")
        assert_match(/first\z/, served.get("/")) # still accepting
        assert(waiting.none? { |socket| socket.wait_readable(0) })
        assert_equal ["stop: stopped\n", 0], served.order("stop", "--now")
        waiting.each { |socket| assert_match(/ 200 OK.*\n\r?\nstopped\n\z/m, socket.read) }
      ensure
        waiting&.each(&:close)
      end
    end

    define_method(:"test_stop_now_cancels_what_runs_with_#{workers}_workers") do
      serve(workers, "control 'control.sock'\ndrain_delay 600\n") do |served|
        hold(served)
        assert_equal ["stop: stopped; running requests were cancelled\n", 1], served.order("stop", "--now")
      end
    end

    define_method(:"test_stop_of_a_server_that_is_killed_with_#{workers}_workers") do
      serve(workers, "control 'control.sock'\n") do |served|
        hold(served)
        order = Thread.new { served.order("stop") }
        served.until_true("the drain") { stats[:state] == "draining" }
        served.signal(:KILL)
        output, status = order.value
        assert_match(/\Aneverblock: (the server at .* has ended without a response|no server answers at .*reset)/, output)
        assert_equal 1, status
      end
    end
  end
end
