# frozen_string_literal: true

require "test_helper"
require "neverblock/server/systemd"
require "tmpdir"

# What systemd says by the environment, and is told. The sockets of a unit: test/programs/systemd_sockets_test.rb.
class ServerSystemdTest < Minitest::Test
  def test_without_systemd
    systemd = systemd({})
    assert_equal [false, nil, [], {}], [systemd.tell("READY=1"), systemd.watchdog, systemd.sockets, systemd.environment]
  end

  def test_it_is_told_at_its_socket
    Dir.mktmpdir("nb") do |folder|
      path = "#{folder}/notify"
      {path => path, "@#{path}" => "\0#{path}"}.each do |name, address|
        socket = Socket.new(:UNIX, :DGRAM)
        socket.bind(Addrinfo.unix(address))
        assert systemd("NOTIFY_SOCKET" => name).tell("READY=1", "MAINPID=7")
        assert_equal "READY=1\nMAINPID=7", socket.recv_nonblock(100)
      rescue Errno::EADDRNOTAVAIL, Errno::ENOENT
        assert name.start_with?("@") && !RUBY_PLATFORM.include?("linux"), "only Linux has abstract sockets"
      ensure
        socket&.close
      end
    end
  end

  def test_a_systemd_that_does_not_listen
    refute systemd("NOTIFY_SOCKET" => "/none/notify").tell("READY=1")
  end

  def test_the_watchdog_is_told_twice_in_its_time
    socket = {"NOTIFY_SOCKET" => "/none/notify"}
    assert_equal 15.0, systemd(**socket, "WATCHDOG_USEC" => "30000000").watchdog
    assert_equal 15.0, systemd(**socket, "WATCHDOG_USEC" => "30000000", "WATCHDOG_PID" => Process.pid.to_s).watchdog
    assert_nil systemd(**socket, "WATCHDOG_USEC" => "30000000", "WATCHDOG_PID" => "1").watchdog, "it is another process's"
    assert_nil systemd("WATCHDOG_USEC" => "30000000").watchdog
  end

  # Programs that the app starts are not meant; the next program in this process is.
  def test_its_variables_are_deleted
    env = {"HOME" => "/", "NOTIFY_SOCKET" => "/none", "WATCHDOG_USEC" => "2", "WATCHDOG_PID" => "3", "LISTEN_FDS" => "1", "LISTEN_PID" => "1", "LISTEN_FDNAMES" => "http"}
    systemd = NeverBlock::Server::Systemd.new(env)
    assert_equal({"HOME" => "/"}, env)
    assert_equal({"NOTIFY_SOCKET" => "/none", "WATCHDOG_USEC" => "2", "WATCHDOG_PID" => "3"}, systemd.environment)
    assert_empty systemd.sockets, "they are of another process"
  end

  private

  def systemd(env) = NeverBlock::Server::Systemd.new(env)
end
