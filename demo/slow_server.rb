# frozen_string_literal: true

# A small HTTP server that takes its time, for the demo, the examples and the
# documentation. It is one thread around IO.select, and NeverBlock has no part in
# it, so that what is measured against it is the client alone.
#
#   ruby demo/slow_server.rb                          # 127.0.0.1:8080, one second each
#   ruby demo/slow_server.rb --port 0 --delay 0.2     # any free port, printed
#
#   GET /anything            after the delay: "you asked for /anything"
#   GET /anything?wait=0.5   the same after half a second
#   GET /stats               at once: {"served":20,"most_at_once":20}
require "json"
require "optparse"
require "socket"

module Demo
  class SlowServer
    Connection = Struct.new(:socket, :head, :target, :due)

    LONGEST_WAIT = 30.0 # seconds a client may ask for
    LONGEST_HEAD = 8192 # bytes of request line and headers
    RESERVED = 16 # descriptors kept for everything but connections

    # @param port [Integer] 0 takes any free one
    # @param delay [Float] seconds before each answer
    def initialize(port: 8080, delay: 1.0)
      @delay = delay
      @listener = TCPServer.new("127.0.0.1", port)
      @listener.listen(4096)
      @reading = {} # socket => Connection whose request is not complete
      @waiting = [] # Connections to answer, the next due first
      @room = Process.getrlimit(:NOFILE).first - RESERVED
      @served = @most_at_once = 0
    end

    # @return [Integer] the port it listens on
    def port = @listener.addr[1]

    # Serves until the process is ended or the lifeline, if any, is closed.
    # @param lifeline [IO, nil] the read end of a pipe whose other end the parent holds
    def run(lifeline: nil)
      until lifeline && turn(lifeline)
        turn(nil) unless lifeline
      end
    end

    private

    # One turn of the loop; true when the lifeline is cut.
    def turn(lifeline)
      watched = [lifeline, (@listener if connections < @room), *@reading.keys].compact
      ready, = IO.select(watched, nil, nil, @waiting.first && [@waiting.first.due - now, 0].max)
      answer_due
      ready&.each do |io|
        return true if io == lifeline
        (io == @listener) ? accept : read(@reading.fetch(io))
      end
      false
    end

    def accept
      while connections < @room
        socket = @listener.accept_nonblock(exception: false)
        break if socket == :wait_readable
        @reading[socket] = Connection.new(socket, +"", nil, nil)
      end
    end

    def read(connection)
      chunk = connection.socket.read_nonblock(LONGEST_HEAD, exception: false)
      return if chunk == :wait_readable
      return drop(connection) unless chunk
      connection.head << chunk
      if connection.head.include?("\r\n\r\n") then take(connection)
      elsif connection.head.bytesize > LONGEST_HEAD then drop(connection)
      end
    rescue SystemCallError
      drop(connection)
    end

    # The request is complete: it now waits for its moment.
    def take(connection)
      @reading.delete(connection.socket)
      connection.target = connection.head[/\A[A-Z]+ (\S+)/, 1] || "/"
      connection.due = now + wait_for(connection.target)
      place = @waiting.bsearch_index { |other| other.due > connection.due } || @waiting.size
      @waiting.insert(place, connection)
      @most_at_once = [@most_at_once, @waiting.size].max
    end

    def wait_for(target)
      return 0 if target == "/stats"
      asked = target[/[?&]wait=([\d.]+)/, 1]
      asked ? asked.to_f.clamp(0, LONGEST_WAIT) : @delay
    end

    def answer_due
      answer(@waiting.shift) while @waiting.first && @waiting.first.due <= now
    end

    def answer(connection)
      body = (connection.target == "/stats") ? JSON.generate(served: @served, most_at_once: @most_at_once) :
        "you asked for #{connection.target}"
      connection.socket.write_nonblock("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" \
        "Content-Length: #{body.bytesize}\r\nConnection: close\r\n\r\n#{body}", exception: false)
      @served += 1 unless connection.target == "/stats"
    rescue SystemCallError
      nil # the client has gone: its answer is dropped
    ensure
      connection.socket.close
    end

    def drop(connection)
      @reading.delete(connection.socket)
      connection.socket.close
    end

    def connections = @reading.size + @waiting.size

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

if $PROGRAM_NAME == __FILE__
  options = {port: 8080, delay: 1.0}
  child = false
  OptionParser.new do |parser|
    parser.banner = "Usage: ruby demo/slow_server.rb [options]"
    parser.on("--port PORT", Integer, "port on 127.0.0.1, 0 for any (8080)") { |port| options[:port] = port }
    parser.on("--delay SECONDS", Float, "time before each answer (1.0)") { |delay| options[:delay] = delay }
    parser.on("--child", "end when standard input is closed") { child = true }
  end.parse!

  server = Demo::SlowServer.new(**options)
  $stdout.puts("http://127.0.0.1:#{server.port}/")
  $stdout.flush
  begin
    server.run(lifeline: ($stdin if child))
  rescue Interrupt
    exit 130
  end
end
