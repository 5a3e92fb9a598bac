# frozen_string_literal: true

require "test_helper"
require "support/clients"
require "support/loops"

# The remedy of docs/isolation.md: with the plugin persistent, httpx keeps a session's connections per thread, and a
# request that is interrupted takes them from the requests of other tasks.
class HttpxTest < Minitest::Test
  include NeverBlockTest::Loops

  SESSIONS = {
    "a persistent session in each task" => -> { HTTPX.plugin(:persistent) },
    "one session without the plugin" => -> { HTTPX }
  }.freeze

  def setup
    missing = NeverBlockTest::Clients.missing_gem("httpx")
    skip missing if missing
  end

  SESSIONS.each do |name, session|
    define_method(:"test_an_interrupted_request_leaves_others_alone_with_#{name.tr(" ", "_")}") do
      in_loop do |scope|
        server = TCPServer.new("127.0.0.1", 0)
        url = "http://127.0.0.1:#{server.addr[1]}/"
        interrupted, whole = Array.new(2) { scope.spawn { session.call.get(url).to_s } }
        clients = Array.new(2) { server.accept }
        clients.each { |client| nil until client.gets == "\r\n" }
        interrupted.cancel
        assert_kind_of NeverBlock::Cancelled, outcome(interrupted)
        clients.each { |client| client.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok") }
        assert_equal "ok", whole.value
        [server, *clients].each(&:close)
      end
    end
  end
end
