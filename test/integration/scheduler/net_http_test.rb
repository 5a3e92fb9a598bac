# frozen_string_literal: true

# engines: every - a whole client on each engine

require "test_helper"
require_relative "../../support/loops"
require_relative "../../support/peer"
require "net/http"

# Stock Net::HTTP against a server of plain threads.
class NetHttpTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  # The server answers no request before it has all of them.
  slow "it starts a server"
  def test_requests_at_once
    with_server do |port|
      bodies = in_loop { NB.concurrently(Array.new(40), limit: 40) { get(port, "/together") } }
      assert_equal ["together"], bodies.uniq
    end
  end

  def test_by_name
    with_server { |port| in_loop { assert_equal "fast", Net::HTTP.get(URI("http://localhost:#{port}/fast")) } }
  end

  def test_read_timeout
    with_server do |port|
      in_loop do
        http = Net::HTTP.new("127.0.0.1", port)
        http.read_timeout, http.max_retries = 0.05, 0
        assert_raises(Net::ReadTimeout) { http.get("/never") }
      end
    end
  end

  def test_refused_connections
    closed = NeverBlockTest::Peer.free_port
    in_loop { assert_raises(Errno::ECONNREFUSED) { get(closed, "/") } }
  end

  slow "it starts a server"
  def test_bodies_both_ways_on_a_kept_connection
    with_server do |port|
      in_loop do
        Net::HTTP.start("127.0.0.1", port) do |http|
          3.times { |i| assert_equal i.to_s * 300_000, http.post("/echo", i.to_s * 300_000, "Content-Type" => "text/plain").body }
        end
      end
    end
  end

  def test_cancelled_requests_close_their_sockets
    with_server do |port|
      in_loop do
        get(port, "/fast")
        GC.start # close descriptors that other tests left open before the count
        before = Dir.children("/dev/fd").size
        tasks = Array.new(10) { NB.spawn { get(port, "/never") } }
        pass_until("the answers' absence") { tasks.all? { |task| task.waits_for&.include?("readable") } }
        assert_operator Dir.children("/dev/fd").size, :>=, before + 8
        tasks.each(&:cancel)
        tasks.each { |task| assert_kind_of NeverBlock::Cancelled, outcome(task) }
        assert_operator Dir.children("/dev/fd").size, :<=, before + 2
      end
    end
  end

  private

  def get(port, path) = Net::HTTP.get(URI("http://127.0.0.1:#{port}#{path}"))

  # In a process of its own, so that its threads don't delay the loop.
  def with_server
    reader, writer = IO.pipe
    pid = spawn(*NeverBlockTest::Helpers::BARE, "-rsocket", "-e", SERVER, out: writer, err: File::NULL)
    writer.close
    yield Integer(reader.gets)
  ensure
    Process.kill(:KILL, pid)
    Process.wait(pid)
    reader.close
  end

  SERVER = <<~'RUBY'
    together, all = Queue.new, Queue.new
    Thread.new { 40.times { together.pop } and all.close }
    server = TCPServer.new("127.0.0.1", 0)
    $stdout.sync = true
    puts server.local_address.ip_port
    loop do
      Thread.new(server.accept) do |client|
        while (line = client.gets)
          path = line.split[1]
          length = 0
          while (header = client.gets) != "\r\n"
            length = header[/\Acontent-length: (\d+)/i, 1].to_i if header.match?(/\Acontent-length/i)
          end
          body = client.read(length)
          (together << 1) && all.pop if path == "/together"
          sleep if path == "/never"
          answer = (path == "/echo") ? body : path.delete("/")
          client.write("HTTP/1.1 200 OK\r\nContent-Length: #{answer.bytesize}\r\n\r\n#{answer}")
        end
      rescue SystemCallError, NoMethodError
        nil
      ensure
        client.close
      end
    end
  RUBY
  private_constant :SERVER
end
