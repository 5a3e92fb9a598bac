# frozen_string_literal: true

# slow: it starts servers

require "test_helper"
require "support/accounting"
require "support/serve_process"

# Sockets opened by systemd (sd_listen_fds(3)), with workers and without; this test stands in for systemd.
class SystemdSocketsTest < Minitest::Test
  APP = <<~RUBY
    body = File.exist?("body") ? File.read("body") : "first"
    run ->(env) {
      case env["PATH_INFO"]
      when "/env" then [200, {}, [ENV.keys.grep(/LISTEN/).inspect]]
      when "/inherited" then [200, {}, [IO.popen(["ls", "-l", "/proc/self/fd"], &:read).scan("socket:").size.to_s]]
      when "/remote" then [200, {}, [env["REMOTE_ADDR"]]]
      else [200, {}, [body]]
      end
    }
  RUBY

  def setup
    @tcp = TCPServer.new("127.0.0.1", 0)
    @port = @tcp.local_address.ip_port
  end

  def teardown = @tcp.close

  [0, 2].each do |workers|
    define_method(:"test_where_no_bind_is_said_with_#{workers}_workers") do
      serve(workers) do |served|
        assert_equal ["http://127.0.0.1:#{@port}"], served.addresses
        assert_match(/first\z/, served.get("/"))
        assert_match(/\[\]\z/, served.get("/env"))
        assert_match(/\r\n0\z/, served.get("/inherited"))
        served.stop
        late = TCPSocket.new("127.0.0.1", @port) # waits for the next server
        assert_equal :wait_readable, late.read_nonblock(1, exception: false)
        late.close
      end
    end

    define_method(:"test_by_address_with_#{workers}_workers") do
      Dir.mktmpdir("nb") do |folder|
        unix = UNIXServer.new("#{folder}/s")
        File.chmod(0o640, "#{folder}/s")
        config = "bind 'unix://#{folder}/s?proxy=required', 'tcp://127.0.0.1:0', 'tcp://127.0.0.1:#{@port}'"
        serve(workers, config, sockets: [@tcp, unix]) do |served|
          assert_equal 3, served.addresses.size
          assert_equal ["unix://#{folder}/s?proxy=required", "http://127.0.0.1:#{@port}"], served.addresses.values_at(0, 2)
          served.addresses[1..].each do |address|
            TCPSocket.open("127.0.0.1", address[/\d+\z/]) { |socket| assert_match(/first\z/, ask(socket)) }
          end
          assert_introduced("#{folder}/s")
          served.signal(:USR2)
          served.until_true("the next program") { served.errors.scan("info: NeverBlock ").size == 2 }
          assert_introduced("#{folder}/s")
          served.stop
          assert_equal 0o140640, File.stat("#{folder}/s").mode, "the file is systemd's"
        end
      ensure
        unix&.close
      end
    end

    %w[USR1 USR2].each do |name|
      define_method(:"test_#{name}_loses_nothing_with_#{workers}_workers") do
        serve(workers) do |served|
          served.addresses
          accounting = NeverBlockTest::Accounting.new(@port).start
          served.until_true("the old app's answers") { accounting.bodies.key?("first") }
          File.write("#{served.folder}/body", "second")
          served.signal(name)
          served.until_true("the new app's answers") { accounting.bodies.key?("second") }
          accounting.stop
          assert_empty accounting.lost
          served.stop
        end
      end
    end

    define_method(:"test_what_no_bind_names_with_#{workers}_workers") do
      serve(workers, "bind 'tcp://127.0.0.1:0'") do |served|
        assert_equal 1, served.wait.exitstatus
        assert_match(%r{^neverblock: tcp://127\.0\.0\.1:#{@port} was handed over to us, and no bind names it\. Write: bind "tcp}, served.errors)
      end
    end

    define_method(:"test_what_is_no_listening_socket_with_#{workers}_workers") do
      one, other = UNIXSocket.pair
      serve(workers, sockets: [@tcp, one], environment: {"LISTEN_FDNAMES" => "web:shop.socket"}) do |served|
        assert_equal 1, served.wait.exitstatus
        assert_match(/^neverblock: descriptor 4 \(shop\.socket\), which systemd hands over, is not a listening stream socket\. .*Accept=no/, served.errors)
      end
    ensure
      [one, other].each { |io| io&.close }
    end
  end

  def test_a_socket_that_is_missing
    serve(0, environment: {"LISTEN_FDS" => "3"}) do |served|
      assert_equal 1, served.wait.exitstatus
      assert_match(/^neverblock: descriptor \d, which LISTEN_FDS promises, can't be used/, served.errors)
    end
  end

  def test_sockets_for_another_process
    NeverBlockTest::ServeProcess.open(APP, config: "bind 'tcp://127.0.0.1:0'", environment: {"LISTEN_FDS" => "1", "LISTEN_PID" => Process.pid.to_s}) do |served|
      assert_match(/\[\]\z/, served.get("/env"))
    end
  end

  private

  def serve(workers, config = "", sockets: [@tcp], environment: {}, &)
    NeverBlockTest::ServeProcess.open(APP, config: "workers #{workers}\n#{config}\n", sockets:, environment: {"PORT" => nil, **environment}, &)
  end

  def ask(socket, path = "/", head: "")
    socket << "#{head}GET #{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    socket.read
  end

  # An address' options apply to its socket.
  def assert_introduced(path)
    UNIXSocket.open(path) { |socket| assert_match(/192\.0\.2\.1\z/, ask(socket, "/remote", head: "PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\n")) }
  end
end
