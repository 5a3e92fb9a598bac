# frozen_string_literal: true

# Random traffic against a server in the same process, for some seconds. Under the address sanitizer and valgrind it
# shows each invalid access to memory.
#
#   ruby -Ilib test/support/server_stress.rb SECONDS SEED     # => survived 1234 requests
require "neverblock/server"
require "socket"

class ServerStress
  Broken = Class.new(StandardError)

  def initialize(seconds, seed)
    @seconds = seconds
    @random = Random.new(seed)
    @asked = 0
  end

  def call
    NeverBlock.run(exit: :cancel) do
      start
      ports = @server.addresses.map { |uri| uri[/:(\d+)/, 1].to_i }
      deadline = now + @seconds
      NeverBlock.concurrently(Array.new(12) { |number| number }, limit: 12) do
        visit(*ports) while now < deadline
      end
      @server.stop(timeout: 2)
    end
    raise "no request came through" if @asked.zero?
    puts "survived #{@asked} requests"
  end

  private

  def start
    @server = NeverBlock::Server.new(method(:app), bind: ["tcp://127.0.0.1:0", "tcp://127.0.0.1:0?proxy=required"],
      trusted_proxies: ["127.0.0.1", "192.0.2.0/25"], trusted_proxies_field: @random.rand(2).zero? ? :forwarded : :x_forwarded, max_in_flight: 6, queue_limit: 6,
      queue_max_wait: 0.05, max_queue_time: 0.2, access_log: :json, access_log_to: File::NULL, body_memory: 1000, request_body: :stream, request_body_path: "/stream",
      cancel_on_disconnect: true, write_timeout: 0.3, head_timeout: 0.3, body_timeout: 0.3, linger_timeout: 0.1,
      max_body_size: 200_000, error_log: File::NULL)
    @server.start
  end

  def app(env)
    case env["PATH_INFO"]
    # real: the kernel ends the loop's waits, by its timers or its sockets
    when "/wait" then sleep(@random.rand * 0.02) && [200, {}, ["waited"]]
    # real: as before
    when "/each" then [200, {}, Enumerator.new { |out| 5.times { |i| out << ("x" * @random.rand(4000)) && (sleep 0.001 if i.odd?) } }]
    when "/big" then [200, {}, ["y" * 300_000]]
    when "/file" then [200, {}, NeverBlockFile.new(__FILE__)]
    when "/call" then [200, {}, proc { |stream| 3.times { stream << "z" * 50 } }]
    when "/raise" then raise "as asked"
    when "/compute" then 20_000.times { |i| i.to_s } && [200, {}, ["computed"]]
    when "/leave" then Thread.current[:left] = Fiber[:left] = 1 and [204, {}, []]
    when "/hijack"
      io = env["rack.hijack"].call
      io.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
      io.close
    when "/collect" then GC.start && GC.respond_to?(:compact) && GC.compact && [200, {}, ["collected"]]
    else [200, {}, [env["rack.input"].read.bytesize.to_s]]
    end
  end

  NeverBlockFile = Struct.new(:to_path) do
    def each = yield(File.read(to_path))
  end

  PATHS = %w[/wait /each /big /file /call /raise /leave /hijack /compute /compute /echo /echo /stream /stream].freeze

  def visit(port, proxy_port)
    introduced = @random.rand(4) == 0
    socket = TCPSocket.new("127.0.0.1", introduced ? proxy_port : port)
    introduce(socket) if introduced
    @random.rand(1..4).times { ask(socket) }
  rescue SystemCallError, IOError, Broken
    nil # refused by the server, or aborted by the client
  ensure
    socket&.close
  end

  # Sends a PROXY header: whole, in pieces, broken, or none.
  def introduce(socket)
    address = "192.0.2.#{@random.rand(256)}"
    header = ["PROXY TCP4 #{address} 10.0.0.1 1 2\r\n", "PROXY UNKNOWN\r\n", "\r\n\r\n\0\r\nQUIT\n!\x11\0\x0F\xC0\0\x02\x01#{"\0" * 11}".b].sample(random: @random)
    cut = @random.rand(header.bytesize)
    case @random.rand(4)
    # real: the pieces come in packets of their own
    when 0 then [header.byteslice(0, cut), header.byteslice(cut..)].each { |piece| socket.write(piece) && sleep(0.001) }
    when 1 then socket.write(header.byteslice(cut..))
    else socket.write(header)
    end
  end

  def ask(socket)
    path = (@random.rand(200) == 0) ? "/collect" : PATHS.sample(random: @random)
    socket.write(request(path) * ((@random.rand(5) == 0) ? 3 : 1))
    @asked += 1
    raise Broken if @random.rand(6) == 0 # disconnects in the middle
    NeverBlock.timeout(1) { socket.readpartial(@random.rand(1..70_000)) }
  rescue NeverBlock::TimeoutError
    raise Broken
  end

  def request(path)
    body = "b" * @random.rand(5000)
    case (path == "/echo" || path == "/stream") ? @random.rand(4) : 4
    when 0 then "POST #{path} HTTP/1.1\r\nHost: x\r\nContent-Length: #{body.size}\r\n\r\n#{body}"
    when 1 then "POST #{path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n#{body.size.to_s(16)};a=b\r\n#{body}\r\n0\r\nT: 1\r\n\r\n".sub(/^0;a=b\r\n\r\n/, "")
    when 2 then "POST #{path} HTTP/1.1\r\nHost: x\r\nContent-Length: #{body.size + 100}\r\n\r\n#{body}" # an incomplete body
    when 3 then "POST #{path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" # an attempt at request smuggling
    else "GET #{path} HTTP/1.1\r\nHost: x\r\n#{forwarded}#{"Connection: close\r\n" if @random.rand(5) == 0}\r\n"
    end
  end

  PIECES = ["192.0.2.1", "203.0.113.9:80", "[2001:db8::1]:4711", "for=", "for=\"192.0.2.1\"", "proto=https", "https", "\"", "\\", ";", ", ", ",", "x"].freeze

  def forwarded
    name = ["X-Forwarded-For", "Forwarded", "X-Forwarded-Proto", "x_forwarded-for"].sample(random: @random)
    "#{name}: #{Array.new(@random.rand(8)) { PIECES.sample(random: @random) }.join}\r\n" if @random.rand(2) == 0
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

ServerStress.new(Float(ARGV[0] || 2), Integer(ARGV[1] || 1)).call
