# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "net/http"
require "stringio"

# A pool that is used by the requests of a server, which share fibers one after the other.
class ConnectionPoolServerTest < Minitest::Test
  def setup
    opened = 0
    @pool = NeverBlock::ConnectionPool.new(size: 1, timeout: 10, name: "served") { opened += 1 }
    calls = {
      "/use" => -> { @pool.with { |connection| connection } },
      "/leak" => -> { @pool.checkout },
      "/holds" => -> { @pool.holds? },
      "/break" => -> { @pool.with { raise "no" } }
    }
    app = ->(env) { [200, {}, [calls.fetch(env["PATH_INFO"]).call.to_s]] }
    @server = NeverBlock::Server.new(app, bind: "tcp://127.0.0.1:0", max_in_flight: 1, error_log: StringIO.new).start
    @address = URI(@server.addresses.first)
  end

  def teardown
    @server.stop
  end

  def test_requests_use_one_connection
    assert_equal %w[1 1 1], Array.new(3) { get("/use") }
  end

  def test_a_request_that_fails_closes_its_connection
    assert_equal ["1", "2"], [get("/use"), get("/break") && get("/use")]
  end

  def test_a_request_that_checks_nothing_in_leaves_nothing_to_the_next
    assert_equal %w[1 false 2 2], [get("/leak"), get("/holds"), get("/use"), get("/use")]
  end

  private

  def get(path) = Net::HTTP.get(@address.host, path, @address.port)
end
