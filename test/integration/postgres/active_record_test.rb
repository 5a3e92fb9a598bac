# frozen_string_literal: true

require "test_helper"
require_relative "../../support/records"
require_relative "../../support/table_locks"

# Active Record's own adapter over shared connections, without Rails.
class PostgresActiveRecordTest < Minitest::Test
  include NeverBlockTest::Records
  include NeverBlockTest::TableLocks

  slow "it waits for statements that sleep"
  def test_finds_of_many_fibers
    with_items(connections: 4) do |items|
      100.times { |n| items.create!(name: "item #{n}") }
      names = NB.concurrently((1..500).to_a, limit: 500) { |n| items.find(n % 100 + 1).name }
      assert_equal (1..500).map { |n| "item #{n % 100}" }, names
      assert_operator backends, :<=, 4
    end
  end

  def test_transactions_of_many_fibers
    with_items(connections: 4) do |items|
      nest_transactions(items)
      assert_equal [20, 10], [items.where("name like 't%'").count, items.where("name like 'nested%'").count]
    end
  end

  # Active Record connects with the first statement, and makes two attempts.
  slow "it waits for statements that sleep"
  def test_a_transaction_whose_connection_came_at_the_second_attempt
    with_items(connections: 2) do |items|
      items.create!(name: "kept")
      failures = refusing_connections(1) do
        items.transaction do
          items.create!(name: "rolled back")
          raise ActiveRecord::Rollback
        end
      end
      assert_equal 0, failures
      assert_equal ["kept"], items.pluck(:name)
      refusing_connections(1) { items.with_connection { |connection| connection.with_settings("app.tenant" => 7) { assert_equal "7", connection.select_value("select current_setting('app.tenant')") } } }
    end
  end

  # Wherever the timeout strikes, the transaction is rolled back, and the adapter's next user is in no transaction.
  slow "it waits for statements that sleep"
  def test_timeouts_inside_of_transactions
    with_items(connections: 2) do |items|
      items.create!(name: "warm")
      15.times do |n|
        tasks = Array.new(4) do
          NB.spawn do
            NB.timeout(0.002 * (n + 1)) do
              items.transaction do
                3.times { |m| items.create!(name: "late #{m}") }
                items.transaction(requires_new: true) { items.find_by(name: "late 1").update!(name: "later") }
                items.connection.execute("select pg_sleep(1)")
              end
            end
          end
        end
        tasks.each { |task| assert_kind_of StandardError, outcome(task) } # an interrupted RELEASE SAVEPOINT shows as an error of the rollback
        NB.timeout(5) { items.create!(name: "alone #{n}") }
        open = NB.concurrently(3.times.to_a, limit: 3) { items.with_connection(&:open_transactions) }
        assert_equal [0], open.uniq
      end
      assert_equal 15.times.map { |n| "alone #{n}" }, items.where.not(name: "warm").order(:id).pluck(:name)
    end
  end

  # Active Record discards its pools in the child, and takes their locks for that.
  slow "it waits for statements that sleep"
  def test_a_fork_while_the_first_connection_is_made
    ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", database: "postgres", connections: 2, **parameters)
    gate = Thread::Queue.new
    slow = Module.new { define_method(:connect) { |*arguments, **options| [gate.pop, super(*arguments, **options, &nil)].last } }
    PG.singleton_class.prepend(slow)
    in_loop do
      task = NB.spawn { ActiveRecord::Base.with_connection { |connection| connection.select_value("select 1") } }
      pass_until("the connection") { gate.num_waiting.positive? }
      pid = fork { exit!(0) }
      child = NB.timeout(NeverBlockTest::LIMIT) { Process.wait2(pid).last }
      pid = nil
      gate.close
      assert_predicate child, :success?
      assert_equal 1, task.value
    ensure
      Process.kill(:KILL, pid) if pid
    end
  ensure
    slow&.remove_method(:connect)
  end

  # Fiber#kill bypasses every rescue.
  slow "it waits for statements that sleep"
  def test_an_adapter_whose_fiber_was_killed_while_it_was_connected
    with_items(connections: 2) do |items|
      items.create!(name: "kept")
      20.times do |n|
        ActiveRecord::Base.connection_handler.clear_all_connections!
        tasks = Array.new(3) { NB.spawn { items.pluck(:name) } }
        n.times { NB.pass }
        tasks.each { |task| task.fiber&.kill }
        assert_equal [["kept"]], NB.concurrently(3.times.to_a, limit: 3) { items.pluck(:name) }.uniq
      end
    end
  end

  def test_a_default_is_part_of_the_session_defaults
    variables = {lock_timeout: :default, statement_timeout: "5s"}
    ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", database: "postgres", connections: 2, variables:, **parameters)
    in_loop do
      connection = ActiveRecord::Base.lease_connection
      connection.select_value("select 1")
      refute_match(/has a connection/, connection.raw_connection.inspect)
      connection.execute("SET SESSION lock_timeout TO DEFAULT")
      refute_match(/has a connection/, connection.raw_connection.inspect)
      connection.execute("RESET statement_timeout")
      assert_match(/has a connection/, connection.raw_connection.inspect)
      assert_equal "0", connection.select_value("SHOW statement_timeout")
    end
  end

  def test_an_error_in_a_nested_transaction_leaves_the_outer_one_alone
    with_items do |items|
      items.transaction do
        items.create!(name: "outer")
        assert_raises(ActiveRecord::NotNullViolation) { items.transaction(requires_new: true) { items.create!(name: nil) } }
        items.create!(name: "after")
      end
      assert_equal %w[after outer], items.order(:name).pluck(:name)
    end
  end

  def test_types
    with_items do |items|
      at = Time.utc(2026, 11, 22, 1, 2, 3.25r)
      item = items.create!(name: "types", price: 12.5, data: {"a" => [1, nil]}, tags: %w[x y], seen_at: at)
      assert_equal [BigDecimal("12.5"), {"a" => [1, nil]}, %w[x y], at], items.find(item.id).then { |found| [found.price, found.data, found.tags, found.seen_at] }
    end
  end

  def test_columns_have_the_type_that_rails_adapter_is_told
    adapter = ActiveRecord::ConnectionAdapters.resolve("neverblock_postgresql")
    assert_same adapter.superclass.native_database_types, adapter.native_database_types
  end

  # Types that Rails and other libraries register for :postgresql.
  def test_attribute_types_of_rails_adapter
    loud = Class.new(ActiveRecord::Type::String) { def cast(value) = value&.upcase }
    ActiveRecord::Type.register(:nb_loud, loud, adapter: :postgresql)
    with_items do |items|
      items.attribute(:seen_at, :datetime)
      items.attribute(:words, :string, array: true)
      items.attribute(:cry, :nb_loud)
      item = items.new(name: "types", seen_at: "infinity", words: "{a,b}", cry: "loud")
      assert_equal [Float::INFINITY, %w[a b], "LOUD"], [item.seen_at, item.words, item.cry]
    end
  end

  # A custom adapter opens its own connections; they are not shared with those of other adapters.
  def test_an_adapter_of_the_app
    require "active_record/connection_adapters/neverblock_postgresql_adapter"
    opened = 0
    adapter = Class.new(ActiveRecord::ConnectionAdapters::PostgreSQLAdapter) do
      include NeverBlock::SharesConnections

      define_singleton_method(:new_client) { |parameters| (opened += 1) && super(parameters) }
    end
    self.class.const_set(:Adapter, adapter)
    NeverBlock::ActiveRecordAdapters.register("nb_app", "PostgresActiveRecordTest::Adapter")
    2.times do |n|
      ActiveRecord::Base.establish_connection(adapter: n.zero? ? "neverblock_postgresql" : "nb_app", database: "postgres", connections: 3, **parameters)
      in_loop do
        assert_equal 40, NB.concurrently(40.times.to_a, limit: 40) { |n| ActiveRecord::Base.with_connection { |connection| connection.select_value("select #{n}") } }.uniq.size
        assert_kind_of adapter, ActiveRecord::Base.lease_connection if n == 1
      end
      assert_equal n.zero?, opened.zero?
    end
    assert_equal ActiveRecord::Tasks::PostgreSQLDatabaseTasks, ActiveRecord::Tasks::DatabaseTasks.send(:class_for_adapter, "nb_app")
  end

  def test_an_adapter_for_another_database_shares_nothing
    require "neverblock/active_record/shares_connections"
    error = assert_raises(NeverBlock::ConfigurationError) { Class.new(ActiveRecord::ConnectionAdapters::AbstractAdapter) { include NeverBlock::SharesConnections } }
    assert_match(/included in .* not a subclass of ActiveRecord::ConnectionAdapters::PostgreSQLAdapter/, error.message)
  end

  def test_errors_are_those_of_active_record
    with_items do |items|
      items.create!(id: 1, name: "one")
      assert_raises(ActiveRecord::RecordNotUnique) { items.create!(id: 1, name: "again") }
      assert_raises(ActiveRecord::StatementInvalid) { items.where("nonsense = 1").to_a }
      assert_raises(ActiveRecord::RecordNotFound) { items.find(2) }
      assert_raises(ActiveRecord::NotNullViolation) { items.insert!({name: nil}) }
    end
  end

  def test_a_stale_plan
    with_items(connections: 2) do |items|
      items.create!(name: "one")
      20.times { items.find(1) }
      ask("alter table items alter column price type numeric(12, 4)")
      assert_equal Array.new(20, "one"), NB.concurrently(20.times.to_a, limit: 20) { items.find(1).name }
    end
  end

  # Both wait for the same lock, which proves that they run concurrently.
  slow "the first load_async of Rails"
  def test_load_async_in_fibers
    with_items(connections: 3) do |items|
      items.create!(name: "one")
      found = items.where(id: 1).select("name, 'marked'::text as mark")
      found.load # a known statement by now
      assert_equal "one", items.where(id: 1).load_async.first.name, "without a session where it is"
      ActiveRecord::Base.asynchronous_queries_tracker.start_session
      sql = []
      subscriber = ActiveSupport::Notifications.subscribe("sql.active_record") { |event| sql << [event.payload[:async], Thread.current] if event.payload[:sql].match?(/marked|pg_sleep/) }
      relations = locked(items.table_name, "access exclusive") do
        Array.new(2) { items.where(id: 1).select("name, 'marked'::text as mark").load_async }.tap { pass_until("both at once") { waiting == 2 } }
      end
      pass_until("both, before their results are read") { ask("select count(*) from pg_stat_activity where state = 'idle' and query like '%marked%' and application_name = 'nb_#{name[0, 50]}'") == "2" }
      assert_equal %w[one one], relations.map { |relation| relation.first.name }
      assert_equal [[true, Thread.current]] * 2, sql, "in the log, and on this thread"
      items.select("name, pg_sleep(0)::text").load_async.to_a
      assert_equal [true, Thread.current], sql.last, "begun at once, though it is asked for without a wait"
      assert_equal 1, items.async_count.value
    ensure
      ActiveSupport::Notifications.unsubscribe(subscriber)
    end
  end

  def test_settings_of_a_transaction
    with_items do |items|
      items.with_connection do |connection|
        assert_equal "7", connection.with_settings("app.tenant" => 7) { connection.select_value("select current_setting('app.tenant')") }
        assert_includes [nil, ""], connection.select_value("select current_setting('app.tenant', true)")
        items.cache do
          ask = -> { connection.select_value("select coalesce(nullif(current_setting('app.tenant', true), ''), 'none')") }
          assert_equal %w[none 7 none], [ask.call, connection.with_settings("app.tenant" => 7, &ask), ask.call], "the query cache is emptied"
        end
        items.transaction { assert_raises(NeverBlock::ConfigurationError) { connection.with_settings(role: "none") { flunk } } }
      end
    end
  end

  slow "it waits for statements that sleep"
  def test_the_log_tells_how_long_a_statement_waited_for_a_connection
    with_items(connections: 1) do |items|
      times = []
      subscriber = ActiveSupport::Notifications.subscribe("sql.active_record") { |event| times << event.payload[:queue_time] if event.payload[:sql].match?(/marked|pg_sleep/) }
      first = NB.spawn { items.connection.select_value("select pg_sleep(1)::text") }
      second = NB.spawn { items.connection.select_value("select pg_sleep(0)::text") }
      began = now
      [second, first].each(&:value)
      assert_equal 2, times.size
      assert_equal 0, times.min
      assert_operator times.max, :>, 0, "there is one connection"
      assert_operator times.max, :<=, now - began
    ensure
      ActiveSupport::Notifications.unsubscribe(subscriber)
    end
  end

  def test_outside_of_a_loop
    with_items(loop: false) do |items|
      items.create!(name: "plain")
      items.connection.execute("SET statement_timeout TO 777")
      assert_equal "777ms", items.connection.select_value("SHOW statement_timeout")
      assert_equal "plain", items.first.name
    end
  end

  def test_many_adapters_that_begin_at_once_ask_once_for_types
    ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", database: "postgres", connections: 3, **parameters)
    asked = 0
    subscriber = ActiveSupport::Notifications.subscribe("sql.active_record") { |event| asked += 1 if event.payload[:sql].include?("FROM pg_type") }
    ask = -> { ActiveRecord::Base.with_connection { |connection| connection.select_value("select 1") } }
    in_loop { assert_equal [1], NB.concurrently(50.times.to_a, limit: 50) { ask.call }.uniq }
    at_once = asked
    ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", database: "postgres", connections: 4, **parameters)
    in_loop { ask.call }
    assert_operator at_once, :>, 0
    assert_equal asked - at_once, at_once, "as many as a single one"
  ensure
    ActiveSupport::Notifications.unsubscribe(subscriber)
  end

  def test_a_url
    require "neverblock/postgres/databases"
    server = NeverBlockTest::Database.server
    url = "neverblock-postgresql://postgres@127.0.0.1:#{server.port}/postgres?connections=2&multiplex=all&shareable_functions=pg_backend_pid&application_name=nb_#{name}"
    lines = []
    NeverBlock::Postgres::Databases.log = ->(line, level) { lines << [level, line] }
    before, ENV["DATABASE_URL"] = ENV["DATABASE_URL"], url
    ActiveRecord::Base.configurations = {} # the adapters read the environment
    ActiveRecord::Base.establish_connection(:default_env)
    in_loop do
      ActiveRecord::Base.with_connection { |connection| connection.select_value("select 1") } # loads the types, so that all adapters connect alike
      pids = NB.concurrently(60.times.to_a, limit: 60) { ActiveRecord::Base.with_connection { |connection| connection.select_value("select pg_backend_pid()") } }
      assert_operator pids.uniq.size, :<=, 2
    end
    assert_equal "neverblock_postgresql", ActiveRecord::Base.connection_db_config.adapter
    assert_equal 1, lines.size
    assert_match(/\Aconnected to PostgreSQL #{ask("show server_version")[/[\d.]+/]}, database postgres, user postgres, at 127\.0\.0\.1:#{server.port}\z/, lines.first.last)
  ensure
    ENV["DATABASE_URL"] = before
    NeverBlock::Postgres::Databases.log = nil
  end

  def test_fibers_on_threads_isolation_are_refused_in_a_loop
    with_items(loop: false) do |items|
      ActiveSupport::IsolatedExecutionState.isolation_level = :thread
      assert_equal 0, items.count, "outside of one they are well"
      error = standalone { items.count rescue $! } # standard:disable Style/RescueModifier
      assert_match(/isolation_level is :thread.*Set it to :fiber/, error.message)
    ensure
      ActiveRecord::Base.connection_handler.clear_active_connections!(:all)
      ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    end
  end

  # Rails' option for sequences: the INSERT and the query for its number use one connection.
  def test_insert_returning_false
    with_items(connections: 3, insert_returning: false) do |items|
      ids = NB.concurrently(30.times.to_a, limit: 30) { |n| [items.create!(name: "n#{n}").id, n] }
      assert_equal 30, ids.to_h.size
      ids.each { |id, n| assert_equal "n#{n}", items.find(id).name }
      items.with_connection do |connection|
        ids = Array.new(3) { |n| connection.insert("insert into items (name) values ('plain #{n}')", nil, "id") }
        assert_equal ["plain 0", "plain 1", "plain 2"], items.find(ids).map(&:name)
        refute connection.held_for
      end
    end
  end

  slow "it waits for statements that sleep"
  def test_a_dropped_database
    ask("create database nb_dropped")
    ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", url: nil, **parameters, database: "nb_dropped")
    assert_equal 1, ActiveRecord::Base.connection.select_value("select 1")
    ActiveRecord::Base.remove_connection
    ask("drop database nb_dropped")
    ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", **parameters, database: "nb_dropped")
    assert_raises(ActiveRecord::NoDatabaseError) { ActiveRecord::Base.connection.select_value("select 1") }
  end

  # The first adapter of a database loads its types, and the others wait for them.
  slow "it waits for statements that sleep"
  def test_an_adapter_whose_fiber_was_killed_while_it_waited_for_the_types
    with_items(connections: 2) do |items|
      items.create!(name: "kept")
      first = ActiveRecord::ConnectionAdapters::NeverBlockPostgreSQLAdapter.const_get(:TYPES_FLIGHT)
      5.times do |n|
        ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", database: "postgres", connections: 5 + n, **parameters)
        tasks = Array.new(3) { NB.spawn { items.pluck(:name) } }
        pass_until("the first one's questions") { first.size == 1 }
        n.times { NB.pass }
        tasks.drop(1).each { |task| task.fiber&.kill }
        assert_equal ["kept"], tasks.first.value
        assert_equal [["kept"]], NB.concurrently(3.times.to_a, limit: 3) { items.pluck(:name) }.uniq
      end
    end
  end

  private

  # Closes all connections, and refuses the next attempts.
  # @return [Integer] attempts that were not made
  def refusing_connections(count)
    ActiveRecord::Base.connection_handler.clear_all_connections!
    refusal = Module.new do
      define_method(:connect) { |*arguments, **options| ((count -= 1) < 0) ? super(*arguments, **options, &nil) : raise(PG::ConnectionBad, "refused") }
    end
    PG.singleton_class.prepend(refusal)
    yield
    [count, 0].max
  ensure
    refusal.remove_method(:connect)
  end
end
