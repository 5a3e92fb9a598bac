# frozen_string_literal: true

require "test_helper"
require_relative "../../support/cold_model"
require_relative "../../support/mysql_records"

# Active Record's own adapter for trilogy over shared connections, without Rails.
class MySQLActiveRecordTest < Minitest::Test
  include NeverBlockTest::ColdModel
  include NeverBlockTest::MySQLRecords

  def test_records
    with_items do |items|
      item = items.create!(name: "it's \\ é", price: 3.5, seen_at: Time.utc(2026, 1, 2, 3, 4, 5, 123456))
      found = items.find(item.id)
      assert_equal ["it's \\ é", BigDecimal("3.5"), false, Time.utc(2026, 1, 2, 3, 4, 5, 123456)], found.values_at(:name, :price, :sold, :seen_at)
      found.update!(sold: true)
      assert_equal 1, items.where(sold: true).count
      assert_equal 1, items.where(id: item.id).update_all(sold: true), "matched rows count, as in the plain adapter"
      found.destroy!
      assert_equal 0, items.count
    end
  end

  # Active Record reads the columns with a lock that the others need: its owner must not wait for their connections.
  def test_a_model_is_used_first_while_all_connections_are_taken
    with_items(checkout_timeout: 1, connections: 2) do |items|
      database = shared
      names = use_cold_model(items, holders: 2) { database.stats[:waiting] == 1 }
      assert_equal ["holder 0", "holder 1", "other"], names.sort
    end
  end

  def test_ten_statements_sleep_at_the_same_time
    with_items(connections: 12) do |items|
      mark = "at once #{rand(1 << 40)}"
      tasks = 10.times.map { NB.spawn { items.connection_pool.with_connection { |c| c.select_value("select sleep(60) as `#{mark}`") } } }
      pass_until("ten at once") { ask("select count(*) from information_schema.processlist where info like 'select sleep%#{mark}%'") == "10" }
      tasks.each(&:cancel)
      tasks.each { |task| assert_kind_of NeverBlock::Cancelled, outcome(task) }
    end
  end

  def test_asynchronous_queries
    before, ActiveRecord.async_query_executor = ActiveRecord.async_query_executor, :global_thread_pool
    with_items(connections: 4) do |items|
      items.create!(name: "one")
      ActiveRecord::Base.asynchronous_queries_tracker.start_session
      assert_equal ["one"], items.where(name: "one").load_async.map(&:name)
      items.with_connection do |connection|
        items.transaction { assert_raises(ActiveRecord::AsynchronousQueryInsideTransactionError) { connection.select_all("select 1", async: true) } }
        connection.execute("set @a = 7")
        assert_equal [[7]], connection.select_all("select @a", async: true).then(&:rows).value, "session state is the caller's"
      end
    ensure
      ActiveRecord::Base.asynchronous_queries_tracker.finalize_session
    end
  ensure
    ActiveRecord.async_query_executor = before
  end

  def test_finds_and_transactions_of_many_fibers
    with_items(connections: 4) do |items|
      before = shared.stats # other tests with these settings have used it
      nest_transactions(items)
      assert_equal [20, 10], [items.where("name like 't%'").count, items.where("name like 'nested%'").count]
      ids = items.pluck(:id, :name).to_h
      assert_equal ids.to_a, NB.concurrently(ids.keys, limit: 100) { |id| [id, items.find(id).name] }
      assert_operator shared.stats[:opened] - before[:opened], :<=, 4, shared.stats.inspect
      assert_equal before[:unclean], shared.stats[:unclean]
    end
  end

  def test_reads_of_sticky_connections_share
    with_items(connections: 2) do |items|
      items.create!(name: "one")
      NB.concurrently(20.times.to_a, limit: 20) do
        connection = items.lease_connection
        3.times { assert_equal 1, connection.select_value("select count(*) from items") }
        NB.pass
      ensure
        items.release_connection
      end
    end
  end

  def test_settings_of_the_configuration
    with_items(connections: 2, variables: {max_statement_time: 7, sql_mode: "TRADITIONAL"}) do |items|
      NB.concurrently(10.times.to_a, limit: 10) do
        items.connection_pool.with_connection do |connection|
          assert_equal [7.0, 2147483], connection.select_rows("select @@max_statement_time + 0e0, @@wait_timeout").first
          assert_match(/TRADITIONAL/, connection.select_value("select @@sql_mode"))
        end
      end
      assert_equal 0, shared.stats[:unclean]
    end
  end

  def test_a_wrong_setting_is_reported
    error = assert_raises(ActiveRecord::ActiveRecordError) { with_items(variables: {no_such_variable: 1}) { |items| items.count } }
    assert_match(/no_such_variable/, error.message)
  end

  def test_an_isolation_level_costs_no_connection
    with_items(connections: 1) do |items|
      before = shared.stats
      items.transaction(isolation: :serializable) { items.create!(name: "one") }
      assert_equal 1, items.count
      assert_equal before[:unclean], shared.stats[:unclean]
    end
  end

  def test_session_state_ends_with_the_checkout
    with_items(connections: 2) do |items|
      NB.concurrently(20.times.to_a, limit: 20) do |n|
        items.connection_pool.with_connection do |connection|
          connection.execute("set @n = #{n}") if n.even?
          NB.pass
          found = connection.select_value("select @n")
          n.even? ? assert_equal(n, found) : assert_nil(found)
        end
      end
    end
  end

  def test_last_insert_id
    with_items(connections: 2) do |items|
      NB.concurrently(20.times.to_a, limit: 20) do |n|
        items.connection_pool.with_connection do |connection|
          connection.execute("insert into items (name) values ('n#{n}')")
          NB.pass
          assert_equal "n#{n}", connection.select_value("select name from items where id = last_insert_id()")
        end
      end
    end
  end

  # Wherever it is by then, its transaction is rolled back, and the next user of its adapter is in no transaction.
  slow "it gives up forty transactions"
  def test_timeouts_inside_of_transactions
    with_items(connections: 2) do |items|
      40.times do |n|
        NB.timeout(0.002 + n * 0.0005) do
          items.transaction do
            items.create!(name: "given up")
            items.connection_pool.with_connection { |connection| connection.select_value("select sleep(0.5)") }
          end
        end
        flunk "it did not time out"
      rescue NB::TimeoutError
        assert_equal 0, items.where(name: "given up").count
        items.transaction { items.create!(name: "after") }
      end
      assert_equal 40, items.count
    end
  end

  def test_a_lost_connection_is_not_noticed_by_reads
    with_items(connections: 1) do |items|
      items.create!(name: "one")
      id = items.connection_pool.with_connection { |connection| connection.select_value("select connection_id()") }
      ask("kill #{id}")
      assert_equal 1, items.count
      items.create!(name: "two")
      assert_equal 2, items.count
    end
  end

  def test_deadlocks_are_active_record_s
    with_items(connections: 2) do |items|
      one, two = 2.times.map { |n| items.create!(name: n.to_s) }
      ready = Thread::Queue.new
      outcomes = [[one, two], [two, one]].map do |first, second|
        NB.spawn do
          items.transaction do
            items.where(id: first.id).update_all("name = concat(name, 'x')")
            ready << true
            pass_until("both") { ready.size == 2 }
            items.where(id: second.id).update_all("name = concat(name, 'x')")
          end
        end
      end.map { |task| outcome(task) }
      assert_equal 1, outcomes.grep(ActiveRecord::Deadlocked).size
      assert_equal %w[0x 1x], items.order(:id).pluck(:name)
    end
  end

  def test_a_lost_commit_raises_that_the_outcome_is_unknown
    with_items(connections: 1) do |items|
      error = assert_raises(ActiveRecord::ConnectionFailed) do
        items.transaction do
          items.create!(name: "one")
          id = items.connection_pool.with_connection { |connection| connection.select_value("select connection_id()") }
          ask("kill #{id}")
        end
      end
      assert_kind_of NeverBlock::MySQL::OutcomeUnknown, error.cause
      assert_equal 0, items.count
    end
  end

  def test_no_connection_at_all
    port = NeverBlockTest::Peer.free_port
    assert_match(/127\.0\.0\.1|refused/, assert_raises(ActiveRecord::ConnectionNotEstablished) { with_items(host: "127.0.0.1", port:, &:count) }.message)
    assert_nothing_open
    assert_match(/stranger/, assert_raises(ActiveRecord::DatabaseConnectionError) { with_items(username: "stranger", password: "wrong", &:count) }.message)
    assert_nothing_open
    assert_match(/no_such/, assert_raises(ActiveRecord::NoDatabaseError) { with_items(database: "no_such", &:count) }.message)
    assert_nothing_open
    assert_match(/no-such-host/, assert_raises(ActiveRecord::ConnectionNotEstablished) { with_items(host: "no-such-host.invalid", &:count) }.message)
    assert_nothing_open
  end

  def test_a_silent_server
    TCPServer.open("127.0.0.1", 0) do |silent|
      ActiveRecord::Base.establish_connection(adapter: default_adapter, host: "127.0.0.1", port: silent.addr[1], username: "nb", connect_timeout: 0.3)
      in_loop do
        task = NB.spawn { ActiveRecord::Base.connection_pool.with_connection { |connection| connection.select_value("select 1") } }
        turns = 0
        pass_until("the client to give up") { (turns += 1) && !task.alive? }
        assert_operator turns, :>, 1
        assert_kind_of ActiveRecord::ConnectionNotEstablished, outcome(task)
      end
      assert_nothing_open
    end
  end

  def test_a_lock_that_is_not_free_in_time
    with_items(connections: 2, variables: {innodb_lock_wait_timeout: 1}) do |items|
      one = items.create!(name: "one")
      items.transaction do
        one.update!(name: "held")
        assert_kind_of ActiveRecord::LockWaitTimeout, outcome(NB.spawn { items.transaction { items.where(id: one.id).update_all(name: "late") } })
      end
      assert_equal %w[held], items.pluck(:name)
    end
  end

  def test_a_read_timeout_of_the_driver
    with_items(connections: 2, read_timeout: 1) do |items|
      items.create!(name: "one")
      assert_raises(ActiveRecord::AdapterTimeout) { items.connection_pool.with_connection { |connection| connection.select_value("select sleep(60)") } }
      error = assert_raises(ActiveRecord::ConnectionFailed) { items.where(name: "one").update_all("name = concat('late', sleep(5))") }
      assert_kind_of NeverBlock::MySQL::OutcomeUnknown, error.cause
      assert_equal %w[one], items.pluck(:name)
      assert_operator shared.stats[:killed], :>=, 2
    end
  end

  def test_no_connection_in_time
    with_items(connections: 1, checkout_timeout: 0.05) do |items|
      items.transaction do
        items.create!(name: "one")
        error = outcome(NB.spawn { items.count })
        assert_kind_of ActiveRecord::ConnectionTimeoutError, error
        assert_match(/used for a transaction/, error.message)
      end
    end
  end

  def test_an_ended_fiber_gives_its_connection_back
    with_items(connections: 1) do |items|
      NB.spawn { items.lease_connection.execute("begin") }.value
      assert_equal 0, items.count
    end
  end

  def test_outside_of_a_loop
    with_items(loop: false) do |items|
      items.transaction { items.create!(name: "one") }
      assert_equal %w[one], items.pluck(:name)
    end
  end

  def test_the_name_of_the_driver
    with_items(adapter: "neverblock_trilogy") do |items|
      assert_equal "Trilogy", items.connection_pool.with_connection(&:adapter_name)
      assert_equal 0, items.count
    end
  end

  def test_it_is_for_adapters_of_trilogy
    require "neverblock/active_record/shares_trilogy_connections"
    assert_raises(NeverBlock::ConfigurationError) { Class.new.include(NeverBlock::SharesTrilogyConnections) }
  end

  def test_threads_must_not_share_adapters_in_a_loop
    with_items(loop: false) do |items|
      ActiveSupport::IsolatedExecutionState.isolation_level = :thread
      error = standalone { items.count rescue $! } # standard:disable Style/RescueModifier
      assert_match(/isolation_level/, error.message)
      ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
      items.connection_pool.disconnect! # it would wait for one that the pool has counted and does not have
    ensure
      ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    end
  end

  private

  def assert_nothing_open
    stats = NeverBlock::MySQL::Databases.stats.last
    assert_equal [0, 0, 0], stats.values_at(:connections, :busy, :waiting).map(&:to_i), stats.inspect
  end
end

# The same with the gem mysql2.
class MySQL2ActiveRecordTest < MySQLActiveRecordTest
  def setup
    super
    skip "mysql2 is not among the gems here" unless Gem.loaded_specs.key?("mysql2")
  end

  def default_adapter = "neverblock_mysql2"

  def test_the_name_of_the_driver
    with_items do |items|
      assert_equal "Mysql2", items.connection_pool.with_connection(&:adapter_name)
      assert_match(/by mysql2 #{Mysql2::VERSION}/o, NeverBlock::ActiveRecordAdapters.describe(items.connection_db_config))
    end
  end

  def test_it_is_for_adapters_of_trilogy
    require "neverblock/active_record/shares_mysql2_connections"
    error = assert_raises(NeverBlock::ConfigurationError) { Class.new.include(NeverBlock::SharesMysql2Connections) }
    assert_match(/subclass of ActiveRecord::ConnectionAdapters::Mysql2Adapter/, error.message)
  end

  # mysql2 reads it in C: the loop goes on meanwhile.
  def test_a_response_that_stops_in_the_middle
    with_items(connections: 1) do |items|
      items.create!(name: "one")
      task = NB.spawn { items.connection_pool.with_connection { |connection| connection.select_rows("select repeat('x', 30000), sleep(0.2) from items union all select repeat('y', 30000), sleep(0.2)") } }
      turns = 0
      pass_until("the rest of the response") { (turns += 1) && !task.alive? }
      assert_operator turns, :>, 5
      assert_equal 2, task.value.size
    end
  end

  def test_prepared_statements_are_refused
    with_items(prepared_statements: true) { flunk }
  rescue NeverBlock::UnsupportedError, NeverBlock::ConfigurationError => error
    assert_match(/prepared_statements/, error.message)
  end
end
