# frozen_string_literal: true

require "test_helper"
require "socket"

# Patched calls return what Ruby's own return: values, exceptions and messages. Each line of code here runs three times
# in a program of its own: before any patch is applied, afterwards outside of a loop, and inside one.
class SameAsRubyTest < Minitest::Test
  include NeverBlockTest::Helpers

  PRELUDE = <<~'RUBY'
    require "neverblock"
    require "socket"
    require "tempfile"

    def describe(result)
      case result
      when Exception then [result.class, result.message, (result.error_code if result.is_a?(Socket::ResolutionError))]
      when Addrinfo then [result.inspect_sockaddr, result.pfamily, result.socktype, result.protocol]
      when Array then result.map { |part| describe(part) }
      else result
      end
    end

    def results(codes)
      codes.map do |code|
        describe(eval(code))
      rescue => error
        describe(error)
      end
    end

    def compare(codes)
      before = results(codes)
      NeverBlock.run { }
      outside = results(codes)
      inside = NeverBlock.run { results(codes) }
      codes.zip(before, outside, inside) do |code, *three|
        puts code, three.map { |result| "  #{result.inspect}" } if three.uniq.size > 1
      end
    end
  RUBY

  def test_flock
    assert_same(<<~RUBY, setup: "FILE = Tempfile.create; CLOSED = File.open(FILE.path).tap(&:close); at_exit { File.unlink(FILE.path) }")
      FILE.flock(File::LOCK_EX)
      FILE.flock(File::LOCK_UN)
      FILE.flock(File::LOCK_SH | File::LOCK_NB)
      FILE.flock("x")
      FILE.flock(1000)
      FILE.flock(1.5)
      FILE.flock
      CLOSED.flock(File::LOCK_EX)
    RUBY
  end

  def test_fsync
    assert_same(<<~RUBY, setup: "FILE = Tempfile.create; PIPE = IO.pipe; CLOSED = IO.pipe[0].tap(&:close); at_exit { File.unlink(FILE.path) }")
      FILE.fsync
      FILE.fdatasync
      PIPE[1].fsync
      PIPE[1].fdatasync
      PIPE[0].fsync
      File.open(File::NULL) { |null| null.fsync }
      File.open(File::NULL) { |null| null.fdatasync }
      CLOSED.fsync
      CLOSED.fdatasync
      FILE.fsync(1)
    RUBY
  end

  def test_close
    assert_same(<<~RUBY)
      IO.pipe.map(&:close)
      IO.pipe[0].tap(&:close).close
      File.open(File::NULL, &:close)
      File.open(File::NULL).close(1)
      IO.allocate.close
      IO.popen("exit 3").tap(&:close) && $?.exitstatus
      IO.for_fd(IO.sysopen(File::NULL)).close
      IO.for_fd(987_654, autoclose: false).close
    RUBY
  end

  slow "it asks Ruby for each case too"
  def test_getaddrinfo
    skip "Ruby has no service named #{missing_services.join(", ")} here" if missing_services.any?
    assert_same(<<~'RUBY', setup: 'SCOPED = (Socket.ip_address_list.find(&:ipv6_linklocal?) || Addrinfo.ip("127.0.0.1")).ip_address')
      Addrinfo.tcp("localhost", "http")
      Addrinfo.tcp("127.0.0.1", "http")
      Addrinfo.tcp("127.0.0.1", "80")
      Addrinfo.tcp("127.0.0.1", 80)
      Addrinfo.tcp("127.0.0.1", :http)
      Addrinfo.tcp("127.0.0.1", nil)
      Addrinfo.tcp("localhost", "no-such-service")
      Addrinfo.tcp
      Addrinfo.udp("localhost", "syslog")
      Addrinfo.udp(SCOPED, "syslog")
      Addrinfo.ip("127.0.0.1")
      Addrinfo.ip(SCOPED)
      Addrinfo.ip("fe80::1%no-such-interface")
      Addrinfo.ip(1)
      Addrinfo.tcp(SCOPED, 80)
      Addrinfo.getaddrinfo("localhost", "ssh", :INET, :STREAM)
      Addrinfo.getaddrinfo("localhost", "ssh", Socket::PF_INET, Socket::SOCK_STREAM, timeout: 1)
      Addrinfo.getaddrinfo(nil, "ssh", :INET, :STREAM)
      Addrinfo.getaddrinfo("127.0.0.1", "syslog", nil, :DGRAM)
      Addrinfo.getaddrinfo(SCOPED, 80, nil, :STREAM)
      Addrinfo.getaddrinfo("localhost", 80, :INET, :STREAM)
      Addrinfo.getaddrinfo("localhost\n", 80)
      Addrinfo.getaddrinfo("no.such.name.invalid", 80)
      Addrinfo.getaddrinfo
      Addrinfo.getaddrinfo("127.0.0.1")
      Addrinfo.getaddrinfo(*[nil] * 7)
      Addrinfo.getaddrinfo("127.0.0.1", 80, wrong: 1)
      Socket.getaddrinfo("127.0.0.1", "http", :INET, :STREAM)
      Socket.getaddrinfo("127.0.0.1", 80)
      Socket.getaddrinfo("127.0.0.1")
      Socket.sockaddr_in("http", "127.0.0.1")
      Socket.sockaddr_in(80, "localhost")
      Socket.sockaddr_in(80)
      Socket.pack_sockaddr_in("http", "localhost")
      TCPServer.open("localhost", "0", &:class)
      TCPServer.open(0, &:class)
      TCPServer.open("0", &:class)
      TCPServer.open(SCOPED, 0) { |server| server.local_address.ip_address }
      TCPServer.open("127.0.0.1", "no-such-service")
      TCPServer.new
      TCPServer.new(1, 2, 3)
      UDPSocket.open { |socket| socket.connect("127.0.0.1", "discard") }
      UDPSocket.open { |socket| socket.connect("localhost", 9) }
      UDPSocket.open { |socket| socket.connect("localhost") }
      UDPSocket.open { |socket| socket.bind("127.0.0.1", "0") }
      UDPSocket.open { |socket| socket.send("x", 0) }
      UDPSocket.open { |socket| socket.send("x", 0, "127.0.0.1", "discard") }
      UDPSocket.open { |socket| socket.send("x", 0, "127.0.0.1", 9) }
      UDPSocket.open { |socket| socket.send("x", 0, Socket.sockaddr_in(9, "127.0.0.1")) }
      UDPSocket.open { |socket| socket.send("x", 0, Addrinfo.udp("127.0.0.1", 9)) }
      UDPSocket.open { |socket| socket.send }
    RUBY
  end

  def test_getnameinfo
    assert_same(<<~RUBY, setup: 'SERVER = TCPServer.new("127.0.0.1", 0); CLIENT = TCPSocket.new("127.0.0.1", SERVER.local_address.ip_port); NAMED = CLIENT.dup; NAMED.do_not_reverse_lookup = false')
      Addrinfo.tcp("127.0.0.1", 80).getnameinfo
      Addrinfo.tcp("127.0.0.1", 80).getnameinfo(nil)
      Addrinfo.tcp("127.0.0.1", 80).getnameinfo(Socket::NI_NUMERICHOST)
      Addrinfo.tcp("127.0.0.1", 80).getnameinfo(Socket::NI_NUMERICHOST | Socket::NI_NUMERICSERV)
      Addrinfo.tcp("127.0.0.1", 80).getnameinfo("x")
      Addrinfo.tcp("127.0.0.1", 80).getnameinfo(1, 2)
      Addrinfo.udp("127.0.0.1", 514).getnameinfo
      Addrinfo.unix("/a").getnameinfo
      Addrinfo.tcp("192.0.2.77", 1).getnameinfo(Socket::NI_NAMEREQD)
      Socket.getnameinfo(Addrinfo.tcp("127.0.0.1", 80))
      Socket.getnameinfo(Socket.sockaddr_in(80, "127.0.0.1"))
      Socket.getnameinfo(["AF_INET", 80, "127.0.0.1"])
      Socket.getnameinfo(["AF_INET", 80, "x", "127.0.0.1"])
      Socket.getnameinfo(["AF_INET", 80, "localhost", nil])
      Socket.getnameinfo([nil, 514, "127.0.0.1"], Socket::NI_DGRAM)
      Socket.getnameinfo([1, 2])
      Socket.getnameinfo(3)
      Socket.getnameinfo("short")
      Socket.getnameinfo
      Socket.getnameinfo(["AF_INET", 80, "127.0.0.1"], nil, 3)
      CLIENT.addr
      CLIENT.addr(true)
      CLIENT.addr(:hostname)
      CLIENT.addr(:numeric)
      CLIENT.addr(:wrong)
      CLIENT.addr(1)
      CLIENT.addr(1, 2)
      CLIENT.addr(nil)
      CLIENT.peeraddr
      CLIENT.peeraddr(true)
      CLIENT.peeraddr(false)
      SERVER.peeraddr(true)
      NAMED.peeraddr
      NAMED.addr
      NAMED.peeraddr(:numeric)
    RUBY
  end

  # The state of a new connection, without the numbers that are new each time.
  CONNECTION = <<~'RUBY'
    ECHO = TCPServer.new("127.0.0.1", 0)
    PORT = ECHO.local_address.ip_port
    VACANT = TCPServer.open("127.0.0.1", 0) { |server| server.local_address.ip_port }
    Thread.new { loop { Thread.new(ECHO.accept) { |client| client.each_line { |line| client.write(line) } } } }

    def connect(*arguments, **options)
      socket = TCPSocket.new(*arguments, **options)
      [socket.class, socket.remote_address, socket.local_address.ip_address, socket.sync, socket.binmode?,
        socket.external_encoding, socket.internal_encoding, socket.do_not_reverse_lookup, socket.autoclose?, socket.close_on_exec?,
        socket.timeout, socket.path, socket.lineno, socket.write("line\n"), socket.gets, socket.inspect.gsub(/\d+/, "0")]
    ensure
      socket&.close
    end
  RUBY

  slow "it asks Ruby for each case too"
  def test_tcp_socket
    assert_same(<<~'RUBY', setup: CONNECTION)
      connect("localhost", PORT)
      connect("localhost", PORT.to_s)
      connect("LOCALHOST", PORT, "127.0.0.1")
      connect("localhost", PORT, "127.0.0.1", 0)
      connect("localhost", PORT, nil, "")
      connect("localhost", PORT, resolv_timeout: 5, connect_timeout: 5)
      connect("localhost", PORT, resolv_timeout: nil)
      connect("localhost", PORT, fast_fallback: false) if RUBY_VERSION >= "3.4"
      connect("127.0.0.1", PORT)
      connect("127.1", PORT)
      connect(nil, PORT)
      connect("", PORT)
      connect(2130706433, PORT)
      connect("localhost", VACANT)
      connect("localhost", VACANT.to_s)
      connect("localhost", VACANT, "127.0.0.1")
      connect("localhost", VACANT, nil, 0)
      connect("localhost", VACANT, "192.0.2.77")
      connect("localhost", VACANT, connect_timeout: 5)
      connect("localhost", VACANT, fast_fallback: false) if RUBY_VERSION >= "3.4"
      connect("127.0.0.1", VACANT)
      connect("<any>", VACANT)
      connect(nil, VACANT)
      connect("no.such.name.invalid", 80)
      connect("localhost", 80, "no.such.name.invalid")
      connect("localhost", "no-such-service")
      connect("localhost", 70_000) if RUBY_VERSION >= "3.4"
      connect("localhost", -1) if RUBY_VERSION >= "3.4"
      connect("localhost", nil)
      connect("localhost", :http)
      connect("a\0b", 80)
      connect("localhost\n", 80)
      connect("x" * 2000, 80)
      connect("localhost", "x" * 40)
      connect
      connect("localhost")
      connect("localhost", 1, 2, 3, 4)
      connect("localhost", 1, wrong: 2)
      connect("localhost", PORT, open_timeout: 5)
      connect("localhost", PORT, open_timeout: 5, resolv_timeout: 5)
    RUBY
  end

  private

  # @param lines [String] one expression per line
  # @param setup [String] the beginning of the program
  def assert_same(lines, setup: "")
    codes = lines.lines(chomp: true)
    assert_empty assert_ruby("#{PRELUDE}\n#{setup}\ncompare(#{codes.inspect})")
  end

  def missing_services
    @missing_services ||= %w[http ssh discard].reject { |name| service?(name, "tcp") } + %w[syslog discard].reject { |name| service?(name, "udp") }
  end

  def service?(name, protocol)
    Socket.getservbyname(name, protocol)
  rescue SocketError
    false
  end
end
