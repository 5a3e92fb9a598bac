# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require_relative "../support/mysql"
require_relative "../support/certificates"

# Connecting: a server that says nothing, one that is not there, and TLS.
class MySQLConnectTest < Minitest::Test
  include NeverBlockTest::MySQL

  # Others go on meanwhile.
  def test_a_server_that_accepts_and_says_nothing
    TCPServer.open("127.0.0.1", 0) do |silent|
      target = {host: "127.0.0.1", port: silent.addr[1], username: "nb", connect_timeout: 0.2}
      with_mysql(target:) do |database|
        in_loop do
          task = NB.spawn { database.query("select 1") }
          turns = 0
          turns += 1 while task.alive? && sleep(0.005)
          assert_operator turns, :>, 5
          assert_kind_of Trilogy::TimeoutError, outcome(task)
          assert_raises(NB::TimeoutError) { NB.timeout(0.05) { database.query("select 1") } }
          assert_equal 0, database.stats[:connections]
        end
      end
    end
  end

  def test_there_is_a_limit_by_default
    with_mysql(target: {host: "127.0.0.1"}) { |database| assert_equal 5, database.connection_options[:connect_timeout] }
    with_mysql(target: {host: "127.0.0.1", connect_timeout: 2}) { |database| assert_equal 2, database.connection_options[:connect_timeout] }
  end

  def test_no_server
    port = NeverBlockTest::Peer.free_port
    with_mysql(target: {host: "127.0.0.1", port:, username: "nb"}) do |database|
      in_loop do
        3.times { assert_raises(Errno::ECONNREFUSED) { database.query("select 1") } }
        assert_equal 0, database.stats[:connections]
      end
    end
  end

  def test_a_unix_socket
    with_mysql(target: {socket: NeverBlockTest::MySQL.server.socket, username: "nb", database: "nb"}) do |database|
      in_loop { assert_equal (1..20).to_a, NB.concurrently(1..20, limit: 20) { |n| one(database.query("select #{n}")) } }
    end
  end

  slow "it starts a server with certificates"
  def test_tls
    Dir.mktmpdir("nb") do |folder|
      File.chmod(0o755, folder)
      NeverBlockTest::Certificates.write(folder, owner: NeverBlockTest::MySQLServer.account)
      NeverBlockTest::MySQLServer.open(ssl_cert: "#{folder}/server.crt", ssl_key: "#{folder}/server.key", ssl_ca: "#{folder}/ca.crt") do |server|
        target = server.options(host: "localhost", ssl_mode: Trilogy::SSL_VERIFY_IDENTITY, ssl_ca: "#{folder}/ca.crt")
        with_mysql(connections: 3, target:) do |database|
          in_loop do
            refute_empty database.query("show session status like 'Ssl_cipher'").rows.dig(0, 1)
            sizes = NB.concurrently(1..12, limit: 12) { |n| one(database.query("select repeat('x', #{n * 100_000})")).bytesize }
            assert_equal (1..12).map { |n| n * 100_000 }, sizes
            assert_raises(NB::TimeoutError) { NB.timeout(0.05) { database.query("select sleep(60)") } }
            assert_equal 1, database.stats[:killed]
            assert_equal 1, one(database.query("select 1"))
          end
        end
      end
    end
  end
end
