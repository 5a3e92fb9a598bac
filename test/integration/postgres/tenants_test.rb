# frozen_string_literal: true

require "test_helper"
require_relative "../../support/records"

# Tenants by schema, by session settings, by row-level security: a request's settings apply to that request, completely,
# and to no other.
class PostgresTenantsTest < Minitest::Test
  include NeverBlockTest::Records

  LIMIT = 30 # seconds until two fibers count as deadlocked rather than slow

  def setup
    super
    ask(<<~SQL)
      drop schema if exists nb_a, nb_b cascade; create schema nb_a; create schema nb_b;
      create table if not exists public.docs (id int primary key, name text); truncate public.docs; insert into public.docs values (1, 'public');
      create table nb_a.docs (id int primary key, name text); insert into nb_a.docs values (1, 'a');
      create table nb_b.docs (id text primary key, name text); insert into nb_b.docs values ('1', 'b');
      create table if not exists public.orders (id serial, tenant text); truncate orders; insert into orders (tenant) select n % 4 from generate_series(1, 20) n;
      alter table orders enable row level security; drop policy if exists own on orders;
      create policy own on orders using (tenant = current_setting('app.tenant', true)) with check (tenant = current_setting('app.tenant', true));
      do $$ begin create role nb_tenant login; exception when duplicate_object then null; end $$;
      grant all on orders, docs, orders_id_seq to nb_tenant;
    SQL
  end

  def test_a_configured_search_path_is_that_of_all_adapters
    docs = model("docs", schema_search_path: "nb_a")
    in_loop { assert_equal [%w[a nb_a nb_a]], at_once(5) { docs.with_connection { |connection| [docs.find(1).name, connection.schema_search_path, connection.select_value("show search_path")] } }.uniq }
  end

  slow "many fibers"
  def test_pools_with_equal_parameters_and_other_search_paths
    pools = ["nb_a", "nb_b, public", nil].map.with_index { |path, n| model("docs", pool: "Pool#{n}", schema_search_path: path) }
    in_loop do
      2.times do
        found = at_once(6) { |n| pools[n % 3].with_connection { |connection| [pools[n % 3].first.name, connection.schema_search_path, connection.select_value("show search_path")] } }
        assert_equal [%w[a nb_a nb_a], ["b", "nb_b, public", "nb_b, public"], ["public", '"$user", public', '"$user", public']] * 2, found
      end
      pools[2].with_connection { |connection| assert_equal "a", (connection.schema_search_path = "nb_a") && pools[2].first.name }
    end
  end

  def test_a_search_path_of_a_request_is_set_again_by_the_next
    docs = model("docs")
    in_loop do
      3.times do
        %w[nb_a public nb_b].each do |path|
          name = docs.with_connection { |connection| (connection.schema_search_path = path) && docs.first.name }
          assert_equal path.delete_prefix("nb_"), name
        end
        docs.with_connection { |connection| connection.without_multiplexing { assert_equal "a", (connection.schema_search_path = "nb_a") && docs.find(1).name } && assert_equal("public", docs.find(1).name) }
      end
      docs.with_connection do |connection|
        connection.schema_search_path = "nb_a"
        connection.without_multiplexing { docs.find(1) }
        assert_equal "a", docs.find(1).name, "it was set before the block, and stays"
      end
      assert_equal ['"$user", public'], at_once(3) { docs.with_connection(&:schema_search_path) }.uniq
    end
  end

  # The parameter in nb_b has another type.
  def test_prepared_statements_of_another_search_path
    docs = model("docs", connections: 1)
    in_loop do
      3.times do
        assert_equal "public", docs.find(1).name
        assert_equal "b", docs.with_connection { |connection| (connection.schema_search_path = "nb_b") && docs.find("1").name }
        assert_equal "b", docs.with_connection { |connection| connection.with_settings(search_path: "nb_b") { docs.find("1").name } }
        assert_equal("b", docs.with_connection { |connection| connection.execute("select set_config('search_path', 'nb_b', false)") && docs.find("1").name })
      end
    end
  end

  # "$user" of the default search_path follows the role.
  slow "many fibers"
  def test_prepared_statements_of_another_role
    ask("do $$ begin create role nb_b; exception when duplicate_object then null; end $$; grant usage on schema nb_b to nb_b; grant select on nb_b.docs to nb_b")
    docs = model("docs", connections: 1)
    in_loop do
      2.times do
        assert_equal "b", docs.with_connection { |connection| connection.with_settings(role: "nb_b") { docs.find_by(id: "1").name } }
        assert_equal "public", docs.find_by(id: 1).name
        ["SET ROLE nb_b", "SET SESSION AUTHORIZATION nb_b", "do $$ begin set role nb_b; end $$"].each do |sql|
          assert_equal "b", docs.with_connection { |connection| connection.execute(sql) && docs.find_by(id: "1").name }, sql
          assert_equal "public", docs.find_by(id: 1).name
        end
      end
    end
  end

  def test_a_reset_keeps_the_session_defaults
    docs = model("docs", schema_search_path: "nb_b", variables: {statement_timeout: "7s"})
    same = lambda do
      docs.with_connection do |connection|
        connection.execute("set app.x = 1")
        connection.reset!
        assert_equal ["nb_b", "7s", "b"], [connection.select_value("show search_path"), connection.select_value("show statement_timeout"), docs.find("1").name]
      end
    end
    same.call
    in_loop { same.call }
  end

  # Another adapter would lack the session's state.
  def test_load_async_within_a_session
    orders = model("orders", username: "nb_tenant")
    in_loop do
      ActiveRecord::Base.asynchronous_queries_tracker.start_session
      ask = -> { [orders.all.load_async.to_a.size, orders.async_count.value, orders.async_pluck(:tenant).value.uniq, orders.count] }
      assert_equal [0, 0, [], 0], ask.call
      orders.with_connection { |connection| connection.execute("SET app.tenant = '3'") && assert_equal([5, 5, ["3"], 5], ask.call) }
      orders.with_connection { |connection| connection.with_settings("app.tenant" => 2) { assert_equal [5, 5, ["2"], 5], ask.call } }
      orders.transaction { assert_equal [0, 0, [], 0], ask.call }
      assert_equal [0, 0, [], 0], ask.call
      orders.with_connection do |connection|
        ["BEGIN", "SET LOCAL app.tenant = '3'"].each { |sql| connection.execute(sql) }
        assert_equal [5, 5, ["3"], 5], ask.call, "in a transaction that Active Record does not know of"
        connection.execute("ROLLBACK")
      end
      with_executor do
        orders = model("orders", username: "nb_tenant")
        orders.transaction { assert_raises(ActiveRecord::AsynchronousQueryInsideTransactionError) { orders.async_count } }
      end
    end
  end

  def test_load_async_of_a_connection_of_no_pool
    model("docs")
    in_loop do
      ActiveRecord::Base.asynchronous_queries_tracker.start_session
      connection = ActiveRecord::Base.connection_db_config.new_connection
      assert_equal [[1]], connection.select_all("select 1", async: true).result.rows
    ensure
      connection&.disconnect!
    end
  end

  # It queries the sequence's number on the same connection.
  def test_an_insert_without_returning_keeps_the_session
    orders = model("orders", username: "nb_tenant", insert_returning: false)
    in_loop do
      orders.with_connection do |connection|
        connection.execute("SET app.tenant = '3'")
        assert_equal 1, orders.where(id: connection.insert("insert into orders (tenant) values ('3')", nil, "id")).count
      end
    end
  end

  # Rails queries the server's version under a lock that the first adapter of a pool takes as well.
  slow "many fibers"
  def test_first_requests_that_ask_for_different_things
    asks = {find: ->(docs) { docs.find(1) }, version: ->(docs) { docs.with_connection(&:supports_identity_columns?) }, number: ->(docs) { docs.with_connection(&:postgresql_version) }, count: ->(docs) { docs.count }, pluck: ->(docs) { docs.pluck(:id) }, value: ->(docs) { docs.with_connection { |connection| connection.select_value("select 1") } }}
    asks.values.permutation(2).each.with_index(2) do |(first, second), n|
      pool = model("docs", connections: n) # not used before
      in_loop { assert_equal 2, NB.timeout(LIMIT) { NB.concurrently([first, second], limit: 2) { |ask| ask.call(pool) } }.size }
      pool = model("docs", connections: 100 + n)
      threads = [first, second].map { |ask| Thread.new { ask.call(pool) } }
      assert threads.all? { |thread| thread.join(LIMIT) }, "they wait for each other"
    ensure
      threads&.each(&:kill)
    end
  end

  # As Rails does before it reloads classes, if some fibers have held theirs for long.
  slow "many fibers"
  def test_a_fiber_goes_on_after_its_adapter_was_taken_away
    docs = model("docs")
    in_loop do
      docs.first
      docs.connection_pool.checkout_timeout = 0.2 # only now: a busy machine takes longer to connect
      taken = Thread::Queue.new
      begun = Thread::Queue.new
      task = NB.spawn do
        docs.transaction do
          docs.create!(id: 2, name: "first")
          begun << true
          taken.pop
          docs.create!(id: 3, name: "second")
          raise ActiveRecord::Rollback
        end
      end
      begun.pop
      ActiveRecord::Base.connection_handler.clear_reloadable_connections!
      taken << true
      assert_kind_of ActiveRecord::ConnectionNotEstablished, outcome(task)
      assert_equal ["public"], docs.pluck(:name), "the adapter serves again"
      docs.with_connection do |connection|
        connection.steal!
        connection.raw_connection.close
      end
      assert_equal "1", ask("select string_agg(id::text, ' ') from docs")
    end
  end

  # Session state that is set implicitly, by statements that look harmless.
  slow "many fibers"
  def test_settings_that_only_seem_to_end_with_their_transaction
    kept = lambda do |name, &use|
      with_database(connections: 1, audit_settings: [name]) do |database|
        in_loop do
          use.call(database)
          assert_includes [nil, ""], database.exec("select current_setting('#{name}', true)").getvalue(0, 0), name
        end
      end
    end
    kept.call("local.tenant") { |database| database.exec("SET local.tenant = '7'") }
    kept.call("transaction.x") { |database| database.connect { |connection| connection.exec("SET transaction.x = '7'") } }
    kept.call("app.tenant") { |database| database.transaction { |connection| connection.exec("declare k cursor for select set_config('app.tenant', '7', false)") && connection.exec("fetch all k") } }
    kept.call("app.tenant") do |database|
      database.transaction { |connection| connection.exec("set local standard_conforming_strings = off") && connection.exec(%q(select '\'', set_config($$app.tenant$$, $$7$$, false) --')) }
    end
    with_database(connections: 1) do |database|
      in_loop do
        ["select treat(8::bigint as pg_advisory_lock)", "select (n::bigint).pg_advisory_lock from generate_series(1, 2) n"].each { |sql| database.exec(sql) }
        assert_equal "0", ask("select count(*) from pg_locks where locktype = 'advisory'")
        seeded = Array.new(2) { database.exec("select (0.5::float8).setseed") && database.exec("select random()").getvalue(0, 0) }
        assert_equal 2, seeded.uniq.size
        assert_raises(PG::ObjectNotInPrerequisiteState) { database.exec("select ('orders_id_seq'::regclass).currval") }
      end
    end
  end

  private

  # A model with a pool of its own; outside of a loop nothing is connected.
  def model(table, pool: nil, connections: 3, **options)
    base = pool ? base(pool) : ActiveRecord::Base
    base.establish_connection(adapter: "neverblock_postgresql", database: "postgres", connections:, **parameters, **options)
    Class.new(base) do
      self.table_name = table
      self.primary_key = "id"
      def self.name = "Model"
    end
  end

  def base(name)
    return self.class.const_get(name) if self.class.const_defined?(name, false)
    self.class.const_set(name, Class.new(ActiveRecord::Base) { self.abstract_class = true })
  end

  def at_once(count, &) = NB.concurrently((0...count).to_a, limit: count, &)

  def with_executor
    before, ActiveRecord.async_query_executor = ActiveRecord.async_query_executor, :global_thread_pool
    yield
  ensure
    ActiveRecord.async_query_executor = before
  end
end
