# frozen_string_literal: true

# slow: it starts a database with certificates

require "test_helper"
require "tmpdir"
require_relative "../../support/database"
require_relative "../../support/certificates"

# Shared connections over TLS, where received bytes may wait in libpq instead of the socket. (All other tests use unix
# sockets, or TCP without TLS.)
class PostgresTLSTest < Minitest::Test
  include NeverBlockTest::Database

  def setup
    super
    @folder = Dir.mktmpdir("nb")
    File.chmod(0o755, @folder)
    NeverBlockTest::Certificates.write(@folder, owner: NeverBlockTest::PostgresServer.account)
    encrypt("ssl_cert_file" => "#{@folder}/server.crt", "ssl_key_file" => "#{@folder}/server.key", "ssl" => "on")
    pass_until("TLS") { ask("show ssl") == "on" }
  end

  def teardown
    return unless @folder
    encrypt("ssl" => nil, "ssl_cert_file" => nil, "ssl_key_file" => nil)
    FileUtils.remove_entry(@folder)
  end

  def test_verified_and_shared
    with_tls(connections: 3) do |database|
      in_loop do
        assert_equal (1..300).map(&:to_s), NB.concurrently(1..300, limit: 300) { |n| one(database.exec("select $1::text", [n])) }
        sizes = NB.concurrently(1..12, limit: 12) { |n| one(database.exec("select repeat('#{n % 10}', #{n * 100_000})")).bytesize }
        assert_equal (1..12).map { |n| n * 100_000 }, sizes
        long = "x" * 500_000
        assert_equal [500_000] * 6, NB.concurrently(1..6, limit: 6) { one(database.exec("select $1::text", [long])).bytesize }
        database.transaction do |connection|
          connection.exec("create temp table encrypted (n int) on commit drop")
          connection.copy_data("copy encrypted from stdin") { 1_000.times { |n| connection.put_copy_data("#{n}\n") } }
          assert_equal "1000", one(connection.exec("select count(*) from encrypted"))
        end
        assert_raises(NB::TimeoutError) { NB.timeout(0.1) { database.exec("select pg_sleep(30)") } }
        pass_until("the cancelled one's end") { ask("select count(*) from pg_stat_activity where query like '%pg_sleep(30)%' and state = 'active' and application_name = 'nb_#{name}'") == "0" }
        assert_equal "1", one(database.exec("select 1"))
      end
      assert_equal "t", ask("select bool_and(ssl) from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'nb_#{name}'")
    end
  end

  def test_a_server_with_another_name_is_refused
    with_tls(host: "elsewhere") do |database|
      error = in_loop { assert_raises(PG::ConnectionBad) { database.exec("select 1") } }
      assert_match(/does not match host name|elsewhere/, error.message)
    end
    Dir.mktmpdir("nb") do |other|
      NeverBlockTest::Certificates.write(other)
      with_tls(authority: "#{other}/ca.crt") do |database|
        error = in_loop { assert_raises(PG::ConnectionBad) { database.exec("select 1") } }
        assert_match(/certificate verify failed/, error.message)
      end
    end
  end

  private

  def with_tls(host: "localhost", authority: "#{@folder}/ca.crt", connections: 2)
    server = NeverBlockTest::Database.server
    database = NeverBlock::Postgres.new({host:, hostaddr: "127.0.0.1", port: server.port, user: server.user, dbname: "postgres", application_name: "nb_#{name}",
      sslmode: "verify-full", sslrootcert: authority}, connections:, log: @logged.method(:<<))
    yield database
  ensure
    database&.close
  end

  def encrypt(settings)
    settings.each { |name, value| ask(value ? "alter system set #{name} = '#{value}'" : "alter system reset #{name}") }
    ask("select pg_reload_conf()")
  end
end
