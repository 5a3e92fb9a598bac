# frozen_string_literal: true

# engines: every - io_uring accepts a connection without its address
require "test_helper"
require "support/served"

# A client that sends a whole request and resets at once: the kernel doesn't tell its address any more. Blocklists and
# limits go by it, so no app runs for a client without one.
class ServerUnknownClientsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  def test_no_request_runs_without_the_address_of_its_client
    seen = Hash.new(0)
    serve { |env| (seen[env["REMOTE_ADDR"]] += 1) && HELLO.call(env) }
    300.times { leave_at_once(post("/transfer", "hi")) }
    assert_equal "hello", ask(get).body
    await_stats(connections: 0)
    assert_equal ["127.0.0.1"], seen.keys
    log
  end

  def test_limits_and_trusted_proxies_take_no_unknown_client_for_another
    serve(max_connections_per_address: 1, trusted_proxies: ["::/0"]) { |env| [200, {}, [env["REMOTE_ADDR"]]] }
    100.times { leave_at_once(get("/", "X-Forwarded-For: 203.0.113.7")) }
    await_stats(connections: 0)
    assert_equal "127.0.0.1", ask(get).body
    log
  end

  private

  def leave_at_once(bytes)
    socket = TCPSocket.new("127.0.0.1", server.addresses.first[/\d+\z/].to_i)
    socket.write(bytes)
    socket.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii"))
    socket.close
  rescue Errno::ECONNRESET, Errno::EPIPE
    socket.close # refused: the limit is one connection
  end
end
