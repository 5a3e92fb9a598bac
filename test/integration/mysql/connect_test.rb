# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require_relative "../../support/mysql"
require_relative "../../support/certificates"

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
          pass_until("the client to give up") { (turns += 1) && !task.alive? }
          assert_operator turns, :>, 1
          assert_too_late outcome(task)
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

  # A tracer, for example.
  def test_what_others_have_added_to_the_driver_s_query_is_called
    seen = []
    spy = Module.new { define_method(:query) { |sql| seen << sql and super(sql) } }
    options = NeverBlockTest::MySQL.server.options
    database = NeverBlock::MySQL.new(-> { Trilogy.new(options.dup).extend(spy) })
    assert_equal 7, one(database.query("select 7"))
    assert_includes seen, "select 7"
  ensure
    database&.close
  end

  def test_no_server
    port = NeverBlockTest::Peer.free_port
    with_mysql(target: {host: "127.0.0.1", port:, username: "nb"}) do |database|
      in_loop do
        3.times { assert_refused assert_raises(SystemCallError, refusal) { database.query("select 1") } }
        assert_equal 0, database.stats[:connections]
      end
    end
  end

  def test_a_name_that_does_not_resolve
    with_mysql(target: {host: "no-such-host.invalid", username: "nb"}) do |database|
      in_loop do
        task = NB.spawn { database.query("select 1") }
        error = outcome(task)
        assert_match(/no-such-host|resolve|not known|name resolution/i, error.message)
        assert_equal 0, database.stats[:connections]
      end
    end
  end

  # Each attempt is closed: the server has no more connections afterwards than before.
  def test_a_wrong_password
    with_mysql(connections: 3, target: NeverBlockTest::MySQL.server.options(username: "stranger", password: "wrong")) do |database|
      in_loop do
        errors = 9.times.map { NB.spawn { database.query("select 1") } }.map { |task| outcome(task) }
        assert_equal [1045], errors.map { |error| code(error) }.uniq
        assert_match(/denied.*stranger/, errors.first.message)
        assert_equal [0, 0, 0], database.stats.values_at(:connections, :busy, :waiting)
        pass_until("their end") { ask("select count(*) from information_schema.processlist where user in ('stranger', 'unauthenticated user')") == "0" }
      end
    end
  end

  def test_an_unknown_database
    with_mysql(target: NeverBlockTest::MySQL.server.options(database: "no_such")) do |database|
      in_loop do
        assert_equal 1049, code(assert_raises(refusal) { database.query("select 1") })
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
      NeverBlockTest::Certificates.write(folder, owner: NeverBlockTest::MySQLServer.account, names: certified)
      NeverBlockTest::MySQLServer.open(ssl_cert: "#{folder}/server.crt", ssl_key: "#{folder}/server.key", ssl_ca: "#{folder}/ca.crt") do |server|
        target = server.options(**verified_by("#{folder}/ca.crt"))
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
        refuse_an_unknown_authority(server, folder)
      end
    end
  end

  private

  def refuse_an_unknown_authority(server, folder)
    Dir.mktmpdir("nb") do |other|
      NeverBlockTest::Certificates.write(other)
      with_mysql(target: server.options(**verified_by("#{other}/ca.crt"))) do |database|
        in_loop do
          assert_match(/certificate|SSL|TLS/i, assert_raises(refusal) { database.query("select 1") }.message)
          assert_equal 0, database.stats[:connections]
        end
      end
    end
  end

  def certified = "DNS:localhost"

  def verified_by(authority) = {host: "localhost", ssl_mode: Trilogy::SSL_VERIFY_IDENTITY, ssl_ca: authority}

  def assert_too_late(error) = assert_kind_of(Trilogy::TimeoutError, error)

  def assert_refused(error) = assert_kind_of(Errno::ECONNREFUSED, error)
end

# The same with the gem mysql2.
class MySQL2ConnectTest < MySQLConnectTest
  include NeverBlockTest::ByMysql2

  # The adapters set it: mysql/active_record_test.rb.
  undef_method :test_there_is_a_limit_by_default

  private

  # For its library "localhost" is a unix socket.
  def certified = "IP:127.0.0.1"

  def verified_by(authority) = {host: "127.0.0.1", ssl_mode: :verify_identity, sslca: authority}

  def assert_too_late(error) = assert_equal(2013, code(error), error.inspect)

  # 2002, or 2003 by other libraries than MariaDB's.
  def assert_refused(error) = assert_includes([2002, 2003], code(error), error.inspect)
end
