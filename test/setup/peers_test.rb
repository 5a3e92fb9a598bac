# frozen_string_literal: true

# slow: it starts databases

require "test_helper"
require "support/postgres"

# Programs that the tests start leave nothing behind.
class PeersTest < Minitest::Test
  include NeverBlockTest::Helpers

  def test_a_program_ends_with_the_process_that_started_it
    starter = IO.popen([RbConfig.ruby, "-I#{__dir__}/../support", "-rpeer", "-e", <<~RUBY], err: %i[child out])
      $stdout.sync = true
      # real: the peer is a process that does not end by itself
      peer = NeverBlockTest::Peer.start { |folder| ["sh", "-c", "echo $$ > pid; echo hello; exec sleep 100"] }
      peer.until_ready { peer.log == "hello\\n" }
      puts peer.folder, File.read("\#{peer.folder}/pid")
      sleep
    RUBY
    folder, pid = Array.new(2) { starter.gets.chomp }
    assert_equal [pid.to_i], running([pid.to_i])
    Process.kill(:KILL, starter.pid)
    wait_until("the end of both") { running([pid.to_i]).empty? && !File.exist?(folder) }
  ensure
    starter&.close
  end

  def test_a_peer_that_does_not_start_says_why
    peer = NeverBlockTest::Peer.start { |_folder| ["sh", "-c", "echo no way; exit 3"] }
    assert_match(/\Ait did not start: no way\nno way\n/, assert_raises(RuntimeError) { peer.until_ready { false } }.message)
    refute_path_exists peer.folder
  end

  def test_a_port_is_free_and_given_out_once
    ports = Array.new(200) { NeverBlockTest::Peer.free_port }
    child = IO.popen([RbConfig.ruby, "-I#{__dir__}/../support", "-rpeer", "-e", "puts Array.new(200) { NeverBlockTest::Peer.free_port }"], &:read)
    assert_equal 400, (ports + child.lines.map(&:to_i)).uniq.size
    clients = File.read("/proc/sys/net/ipv4/ip_local_port_range").split.map(&:to_i)
    assert_empty(ports.select { |port| port.between?(*clients) })
  end

  def test_postgres
    reason = NeverBlockTest::PostgresServer.missing and skip reason
    folder = NeverBlockTest::PostgresServer.open(max_connections: 17) do |postgres|
      assert_operator postgres.folder.bytesize, :<, 80
      places = [[postgres.url], ["-h", "127.0.0.1", "-p", postgres.port.to_s, "-U", postgres.user, "postgres"]]
      assert_equal %W[17\n 17\n], places.map { |place| IO.popen([postgres.program("psql"), *place, "-Atc", "show max_connections"], &:read) }
      postgres.folder
    end
    refute_path_exists folder
  end

  private

  def running(pids) = pids.select { |pid| File.read("/proc/#{pid}/stat")[/\) (\w)/, 1] != "Z" rescue false } # standard:disable Style/RescueModifier
end
