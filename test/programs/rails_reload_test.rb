# frozen_string_literal: true

# slow: it starts Rails

require "test_helper"
require "support/rails_app"
require "support/web_socket"
require "net/http"

# Development: code is reloaded between requests, never during one, and a reload never waits for a request that has
# ended. Falcon's issue 359 and Rails' pull request 58600 describe the failures to avoid.
class RailsReloadTest < Minitest::Test
  def setup
    reason = NeverBlockTest::RailsApp.missing and skip reason
  end

  def test_reloading
    NeverBlockTest::RailsApp.open do |app|
      app.run("bin/rails", "db:prepare")
      app.serve do |served|
        @app, @served, @edits = app, served, 0
        get("/reloaded")
        while_requests_run
        while_a_body_streams("/endless")
        while_a_body_streams("/live/endless")
        while_a_websocket_is_open
        while_an_upgraded_connection_is_open
        after_a_failure
        served.stop(:INT)
      end
    end
  end

  private

  # Each request sees one version of the code from its beginning to its end.
  def while_requests_run
    stop = false
    answers = Queue.new
    clients = Array.new(6) { |number| Thread.new { answers << get("/reloaded?seconds=#{0.01 * number}") until stop } }
    10.times do
      text = edit
      @served.until_true("the new code") { get("/reloaded").start_with?("#{text} ") }
    end
    stop = true
    clients.each(&:join)
    seen = Array.new(answers.size) { answers.pop }
    assert_equal ["same"], seen.map { |answer| answer[/\w+\z/] }.uniq
    assert_operator seen.size, :>, 20
  end

  # The new code waits for the stream, as with any server; it is loaded once the stream's client has left.
  def while_a_body_streams(path)
    stream = TCPSocket.new("127.0.0.1", @served.port)
    stream << "GET #{path} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    stream.gets("\r\n\r\n")
    assert stream.gets
    text = edit
    waiting = Thread.new { get("/reloaded") }
    5.times { stream.gets }
    stream.close
    assert_equal "#{text} same", waiting.value
    assert_equal "fast", get("/fast")
  end

  # For reloading, its request has ended.
  def while_a_websocket_is_open
    socket = NeverBlockTest::WebSocket.new(@served.port, "/cable")
    socket.until { |message| message["type"] == "welcome" }
    text = edit
    @served.until_true("the new code") { get("/reloaded") == "#{text} same" }
  ensure
    socket&.close
  end

  def while_an_upgraded_connection_is_open
    socket = TCPSocket.new("127.0.0.1", @served.port)
    socket << "GET /upgraded HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhi"
    assert_match(/\AHTTP\/1.1 101 /, socket.gets("\r\n\r\n"))
    assert_equal "hi", socket.readpartial(99)
    text = edit
    @served.until_true("the new code") { get("/reloaded") == "#{text} same" }
  ensure
    socket&.close
  end

  # An error of loading is a response; the next edit fixes it.
  def after_a_failure
    @app.write("app/models/motto.rb", "class Motto\n")
    @served.until_true("the syntax error") { get("/reloaded").include?("SyntaxError") }
    text = edit
    @served.until_true("the fixed code") { get("/reloaded") == "#{text} same" }
  end

  # Bootsnap identifies a file by its time, in seconds, and its size: each edit has a size of its own.
  def edit
    "edit#{@edits += 1}".tap { |text| @app.write("app/models/motto.rb", "class Motto\n  TEXT = #{text.inspect}\nend\n#{"\n" * @edits}") }
  end

  def get(path) = Net::HTTP.start("127.0.0.1", @served.port, read_timeout: 60) { |http| http.get(path).body }
end
