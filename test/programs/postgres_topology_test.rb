# frozen_string_literal: true

# slow: it starts several database servers

require "test_helper"
require_relative "../support/database"

# Several servers: the choice among them for a pool of connections, and a failover.
class PostgresTopologyTest < Minitest::Test
  include NeverBlockTest::Database

  WHERE = "select current_setting('port')"

  def test_one_configuration_is_for_one_server
    primary = NeverBlockTest::Database.server
    [
      "postgresql:///postgres?host=#{primary.folder},/nowhere&port=#{primary.port}&user=#{primary.user}",
      "postgresql:///postgres?host=#{primary.folder},#{primary.folder}&port=#{primary.port},1&user=#{primary.user}&target_session_attrs=prefer-standby",
      "postgresql:///postgres?hostaddr=127.0.0.1,127.0.0.2&port=#{primary.port}&user=#{primary.user}",
      {host: "#{primary.folder},/nowhere", port: primary.port, user: primary.user, dbname: "postgres", target_session_attrs: "any"}
    ].each do |target|
      error = with(target) { |database| in_loop { assert_raises(NeverBlock::ConfigurationError, target.inspect) { database.exec("select 1") } } }
      assert_match(/names several servers/, error.message)
    end
    same = "postgresql:///postgres?host=#{primary.folder},#{primary.folder}&port=#{primary.port}&user=#{primary.user}"
    with(same) { |database| in_loop { assert_equal "1", one(database.exec("select 1")) } }
    with("#{same.sub(",#{primary.folder}", ",/nowhere")}&target_session_attrs=read-write") { |database| in_loop { assert_equal "1", one(database.exec("select 1")) } }
  end

  # The old server keeps its open connections, as in a split network.
  def test_after_a_failover_all_connections_are_replaced_before_they_serve
    primary = NeverBlockTest::Database.server
    standby = NeverBlockTest::PostgresServer.replica(primary)
    with(url_of([primary, standby], "target_session_attrs=read-write"), connections: 6) do |database|
      in_loop do
        busy = Array.new(4) { NB.spawn { database.exec("#{WHERE}, pg_sleep(0.1)") } }
        assert_equal [primary.port.to_s], busy.map { |task| one(task.value) }.uniq
        lease = Thread::Queue.new
        in_transaction = NB.spawn do
          database.transaction do |connection|
            first = one(connection.exec(WHERE))
            lease.pop
            [first, one(connection.exec(WHERE))]
          end
        end
        long = NB.spawn { database.exec("#{WHERE}, pg_sleep(1)") }
        pass_until("a long statement and a transaction") { database.stats[:held] == 2 }
        assert_operator database.stats[:idle], :>=, 2
        reader = reading(standby)
        primary.hidden do
          standby.promote
          assert_noticed reader
          opens = Array.new(6) { NB.spawn { database.exec("#{WHERE}, pg_sleep(0.2)") } } # more than there are idle connections
          pass_until("another server") { @logged.any? { |line| line.match?(/where a primary .* all connections are replaced/) } }
          answers = NB.concurrently(1..50, limit: 50) { one(database.exec(WHERE)) }
          assert_equal [standby.port.to_s], answers.uniq
          lease << true
          assert_equal [primary.port.to_s] * 2, in_transaction.value, "a transaction ends where it began"
          assert_equal primary.port.to_s, one(long.value)
          opens.each(&:value)
          pass_until("the old connections' end") { connected_to(primary) == 0 }
          assert_equal [standby.port.to_s], NB.concurrently(1..20, limit: 20) { one(database.exec(WHERE)) }.uniq
          assert_equal 2, @logged.grep(/all connections are replaced/).size, @logged.join("\n")
        end
      end
    end
  ensure
    @reader&.close
    standby&.stop
  end

  # A name that resolves to different servers in turn.
  def test_servers_that_take_turns_are_told
    primary, standby = NeverBlockTest::Database.server, NeverBlockTest::Database.standby
    turn = 0
    target = -> { PG.connect(url_of([[primary, standby][(turn += 1) % 2]])) }
    with(target, connections: 4) do |database|
      in_loop do
        error = assert_raises(NeverBlock::ConfigurationError) { 20.times { NB.concurrently(1..8, limit: 8) { |n| database.exec("select pg_sleep(0.01), #{n}") } } }
        assert_match(/several servers in turn/, error.message)
      end
    end
  end

  private

  def with(target, **options)
    database = NeverBlock::Postgres.new(target, shareable_functions: %w[current_setting pg_backend_pid], log: @logged.method(:<<), **options)
    yield database
  ensure
    database&.close
  end

  # @return [Array] a client of this server only, and its process there
  def reading(standby)
    @reader = NeverBlock::Postgres.new(url_of([standby]).sub("nb_", "nr_"), connections: 1, shareable_functions: %w[pg_backend_pid], log: @logged.method(:<<))
    assert_equal "t", one(@reader.exec("select pg_is_in_recovery()"))
    [@reader, one(@reader.exec("select pg_backend_pid()"))]
  end

  # A promotion keeps connections open.
  def assert_noticed((reader, process))
    pass_until("a new connection") { one(reader.exec("select pg_backend_pid()")) != process }
    assert_equal "f", one(reader.exec("select pg_is_in_recovery()"))
    reader.exec("create table promoted (n int)")
  end

  def url_of(servers, options = "")
    "postgresql:///postgres?host=#{servers.map(&:folder).join(",")}&port=#{servers.map(&:port).join(",")}&user=#{servers.first.user}&application_name=nb_#{name[0, 40]}&#{options}".chomp("&")
  end

  # According to the server, though new connections can't reach it.
  def connected_to(server)
    watch = @watch ||= PG.connect("postgresql://#{server.user}@127.0.0.1:#{server.port}/postgres")
    watch.exec("select count(*) from pg_stat_activity where application_name = 'nb_#{name[0, 40]}'").getvalue(0, 0).to_i
  end
end
