# frozen_string_literal: true

require "test_helper"
require_relative "../../support/mysql"

# Sequel's own adapter for trilogy over shared connections.
class MySQLSequelTest < Minitest::Test
  include NeverBlockTest::MySQL

  def setup
    super
    skip "sequel is not among the gems here" unless Gem.loaded_specs.key?("sequel")
    require "sequel"
  end

  def teardown
    @db&.disconnect
    Sequel::DATABASES.delete(@db)
  end

  def test_selects_and_transactions_of_many_fibers
    with_items(connections: 4) do |db|
      NB.concurrently(60.times.to_a, limit: 60) do |n|
        db.transaction do
          id = db[:items].insert(name: "it's #{n}")
          db.transaction(savepoint: true) do
            db[:items].insert(name: "nested")
            raise Sequel::Rollback if n % 4 == 0
          end
          assert_equal "it's #{n}", db[:items].where(id:).get(:name)
          raise Sequel::Rollback if n.odd?
        end
      end
      assert_equal [30, 15], [db[:items].exclude(name: "nested").count, db[:items].where(name: "nested").count]
      assert_operator db.stats[:opened], :<=, 4
      assert_equal 0, db.stats[:unclean]
    end
  end

  def test_what_connections_are_set_to
    with_items(connections: 2, connect_sqls: ["SET max_statement_time = 7"], after_connect: ->(connection) { connection.query("SET lock_wait_timeout = 77") }) do |db|
      NB.concurrently(10.times.to_a, limit: 10) { assert_equal [7.0, 77], db.fetch("select @@max_statement_time + 0e0 as a, @@lock_wait_timeout as b").first.values }
      assert_equal 0, db.stats[:unclean]
    end
  end

  def test_session_state_ends_with_the_hold
    with_items(connections: 1) do |db|
      db.synchronize do
        db.run("set @n = 5")
        assert_equal 5, db.get(Sequel.lit("@n"))
      end
      assert_nil db.get(Sequel.lit("@n"))
    end
  end

  def test_a_timeout_rolls_back_at_once
    with_items do |db|
      assert_raises(NeverBlock::TimeoutError) do
        NB.timeout(0.1) { db.transaction { db[:items].insert(name: "late") && db.run("select sleep(60)") } }
      end
      assert_equal 0, db[:items].where(name: "late").count
    end
  end

  def test_no_connection_in_time
    with_items(connections: 1, pool_timeout: 0.05) do |db|
      db.transaction do
        db[:items].insert(name: "one")
        assert_kind_of Sequel::PoolTimeout, outcome(NB.spawn { db[:items].count })
      end
    end
  end

  def test_a_lost_commit_raises_that_the_outcome_is_unknown
    with_items(connections: 1) do |db|
      error = assert_raises(Sequel::DatabaseDisconnectError) do
        db.transaction do
          db[:items].insert(name: "one")
          ask("kill #{db.get(Sequel.lit("connection_id()"))}")
        end
      end
      assert_kind_of NeverBlock::MySQL::OutcomeUnknown, error.wrapped_exception
      assert_equal 0, db[:items].count
    end
  end

  def test_deadlocks_are_sequel_s
    with_items(connections: 2) do |db|
      one, two = 2.times.map { |n| db[:items].insert(name: n.to_s) }
      ready = Thread::Queue.new
      outcomes = [[one, two], [two, one]].map do |first, second|
        NB.spawn do
          db.transaction do
            db[:items].where(id: first).update(name: Sequel.lit("concat(name, 'x')"))
            ready << true
            pass_until("both") { ready.size == 2 }
            db[:items].where(id: second).update(name: Sequel.lit("concat(name, 'x')"))
          end
        end
      end.map { |task| outcome(task) }
      assert_equal 1, outcomes.grep(Sequel::SerializationFailure).size
      assert_equal %w[0x 1x], db[:items].order(:id).select_map(:name)
    end
  end

  def test_no_connection_at_all
    port = NeverBlockTest::Peer.free_port
    [{port:}, {user: "stranger", password: "wrong"}, {database: "no_such"}, {host: "no-such-host.invalid"}].each do |wrong|
      assert_raises(Sequel::DatabaseConnectionError, wrong.inspect) { with_items(**wrong) { flunk } }
      assert_equal [0, 0, 0], @db.stats.values_at(:connections, :busy, :waiting).map(&:to_i), wrong.inspect
      Sequel::DATABASES.delete(@db)
    end
  end

  private

  def adapter = "neverblock_trilogy"

  def with_items(**options)
    server = NeverBlockTest::MySQL.server.options
    in_loop do
      @db = Sequel.connect(adapter:, user: server[:username], **server.slice(:host, :port, :database), pool_timeout: 60, test: false, **options)
      @db.create_table!(:items) do
        primary_key :id
        String :name
      end
      yield @db
    end
  end
end

# The same with the gem mysql2.
class MySQL2SequelTest < MySQLSequelTest
  def setup
    super
    skip "mysql2 is not among the gems here" unless Gem.loaded_specs.key?("mysql2")
  end

  def test_a_url
    server = NeverBlockTest::MySQL.server.options
    in_loop do
      @db = Sequel.connect("neverblock-mysql2://#{server[:username]}@#{server[:host]}:#{server[:port]}/#{server[:database]}?connections=2")
      assert_equal [:mysql2, 1], [@db.adapter_scheme, @db.get(Sequel.lit("1"))]
    end
  end

  private

  def adapter = "neverblock_mysql2"
end
