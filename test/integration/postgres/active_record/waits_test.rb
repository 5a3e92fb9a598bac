# frozen_string_literal: true

require "test_helper"
require_relative "../../../support/cold_model"
require_relative "../../../support/records"

# A wait for a real connection ends once, after checkout_timeout, with an error that names the holders.
class PostgresActiveRecordWaitsTest < Minitest::Test
  include NeverBlockTest::ColdModel
  include NeverBlockTest::Helpers
  include NeverBlockTest::Records

  TIMEOUT = 0.2 # opening a connection has no such limit

  # Rails' reaper runs once a minute; the pool reaps at once when it has no connection left.
  def test_connections_of_fibers_that_have_ended_come_back
    with_items(connections: 3) do |items|
      3.times { NB.spawn { items.lease_connection.execute("SET statement_timeout TO 54321") }.join }
      assert_equal 1, NB.timeout(20) { items.transaction { items.connection.select_value("select 1") } }
      3.times { NB.spawn { items.lease_connection.execute("SET statement_timeout TO 54321") }.join }
      assert_equal 1, NB.timeout(20) { items.transaction { items.connection.select_value("select 1") } }
    end
  end

  # Active Record reads the columns with a lock that the others need: its owner must not wait for their connections.
  def test_a_model_is_used_first_while_all_connections_are_taken
    with_items(checkout_timeout: 1, connections: 3) do |items|
      names = use_cold_model(items, holders: 2) { items.connection_pool.stat[:neverblock][:queued] == 1 }
      assert_equal ["holder 0", "holder 1", "other"], names.sort
    end
  end

  # As in Puma or Sidekiq, with more threads than connections.
  def test_a_model_is_used_first_by_threads_while_all_connections_are_taken
    with_items(checkout_timeout: 1, connections: 3, loop: false) do |items|
      start = lambda do |&work|
        Thread.new do
          work.call
        ensure
          items.release_connection
        end
      end
      items.release_connection
      names = use_cold_model(items, holders: 2, start:) { items.connection_pool.stat[:neverblock][:queued] == 1 }
      assert_equal ["holder 0", "holder 1", "other"], names.sort
    end
  end

  # It is a part of the transaction once that has begun on the server.
  def test_a_transaction_sees_the_tables_that_it_has_created
    with_items do |items|
      items.transaction do
        items.lease_connection.create_table(:made) { |t| t.string :name }
        made = Class.new(items) { self.table_name = "made" }
        assert_equal %w[id name], made.column_names
        made.lease_connection.schema_cache.clear_data_source_cache!("made")
        raise ActiveRecord::Rollback
      end
      refute items.lease_connection.data_source_exists?("made")
    end
  end

  slow "it waits for a pool in vain"
  def test_the_message_names_those_in_transactions
    with_items(checkout_timeout: TIMEOUT, connections: 3) do |items|
      in_transactions(items, "first buyer", "second buyer") do
        error = in_vain { items.transaction { items.create!(name: "third") } }
        assert_match(/within 0\.2 s: 2 of 3 are held \(/, error.message)
        ["first buyer", "second buyer"].each { |name| assert_match(/INSERT \(#{name}\), for \d+\.\d s/, error.message) }
        assert_same items.connection_pool, error.connection_pool
      end
      assert_equal ["first buyer", "second buyer"], items.order(:name).pluck(:name)
    end
  end

  slow "it waits for a pool in vain"
  def test_the_message_names_a_statement_that_runs_alone
    with_items(checkout_timeout: TIMEOUT, connections: 3) do |items|
      items.create!(name: "locked")
      in_transactions(items, "locker", work: -> { items.lock.find(1) }) do
        blocked = NB.spawn { items.where(id: 1).update_all(price: 5) }
        pass_until("its connection") { held(items) == 2 }
        error = in_vain { items.transaction { items.create!(name: "third") } }
        [/\(locker\), for \d+\.\d s, which has been idle for/, /a statement alone, for \d+\.\d s, by UPDATE "items" SET "price"/].each { |holder| assert_match holder, error.message }
        assert_predicate blocked, :alive?
      end
      pass_until("the update") { items.find(1).price == 5 }
    end
  end

  # The pool's own keys count its adapters, one per fiber.
  def test_the_pool_s_stat_tells_what_is_beneath
    with_items(checkout_timeout: TIMEOUT, connections: 3) do |items|
      pool = items.connection_pool
      in_transactions(items, "buyer") do
        stat = pool.stat
        assert_equal %i[size connections busy dead idle waiting checkout_timeout neverblock], stat.keys
        assert_operator stat[:busy], :>=, 1
        beneath = stat[:neverblock]
        assert_equal [3, 1, 0], [beneath[:size], beneath[:states][:leased], beneath[:queued]]
        assert_match(/INSERT INTO "items"/, beneath[:holders].first[:statement])
        assert_match(/\Abuyer \S+waits_test.rb:\d+ \S+waits_test.rb:\d+\z/, beneath[:holders].first.values_at(:task, :spawned_at, :at).join(" "))
        assert_equal beneath[:statements], NeverBlock.stats[:postgres].values.find { |figures| figures[:holders].any? { |holder| holder[:task] == "buyer" } }[:statements]
      end
      pool.disconnect!
      refute_includes pool.stat, :neverblock
    end
  end

  # Active Record repeats a read after a lost connection, and everything it does to connect.
  slow "it waits for a pool in vain"
  def test_one_wait_for_an_exclusive_connection
    with_items(checkout_timeout: TIMEOUT, connections: 2) do |items|
      in_transactions(items, "buyer") do
        {
          "a write" => -> { items.create!(name: "in vain") },
          "a read in a transaction" => -> { items.transaction { items.find(1) } },
          "a read that shares nothing" => -> { items.with_connection { |connection| connection.without_multiplexing { items.find(1) } } },
          "what a session keeps" => -> { items.with_connection { |connection| connection.select_value("select pg_advisory_lock(1)") } }
        }.each do |what, work|
          in_vain(what, &work)
          assert_equal [0, 0], [items.connection.open_transactions, items.count], "the adapter goes on after #{what}"
        end
      end
      assert_equal ["buyer"], items.pluck(:name)
    end
  end

  slow "it waits for a pool in vain"
  def test_one_wait_where_no_connection_is_left_to_share
    with_items(checkout_timeout: TIMEOUT, connections: 1) do |items|
      in_transactions(items, "buyer") do
        in_vain("find") { items.find(1) }
        in_vain("pluck") { items.pluck(:name) }
      end
      assert_equal ["buyer"], items.pluck(:name)
    end
    with_items(checkout_timeout: TIMEOUT, connections: 2, multiplex: false) do |items|
      in_transactions(items, "first", "second") do
        assert_match(/2 of 2 are held/, in_vain("find") { items.find(1) }.message)
        in_vain("pluck") { items.pluck(:name) }
      end
      assert_equal %w[first second], items.order(:name).pluck(:name)
    end
  end

  # An adapter with other settings queries the server while it connects, which Active Record attempts twice.
  slow "it waits for a pool in vain"
  def test_one_wait_while_an_adapter_connects
    with_items(checkout_timeout: TIMEOUT, connections: 1) do |items|
      other = Class.new(items) { def self.name = "Other" }
      other.establish_connection(ActiveRecord::Base.connection_db_config.configuration_hash.merge(schema_search_path: "public, nb_none"))
      in_transactions(items, "buyer") { in_vain { other.pluck(:name) } }
      assert_equal [["buyer"], "public, nb_none"], [other.pluck(:name), other.connection.select_value("SHOW search_path")]
    ensure
      other&.remove_connection
    end
  end

  # Regression: they shared the connections, so reports with a longer statement_timeout waited for the app.
  def test_other_variables_have_connections_of_their_own
    with_items(checkout_timeout: TIMEOUT, connections: 1) do |items|
      other = Class.new(items) { def self.name = "Other" }
      other.establish_connection(ActiveRecord::Base.connection_db_config.configuration_hash.merge(variables: {statement_timeout: "7s"}))
      in_transactions(items, "buyer") { assert_equal [[], "7s"], [other.pluck(:name), other.connection.select_value("SHOW statement_timeout")] }
      assert_equal [1, 1], [items, other].map { |model| model.connection_pool.stat[:neverblock][:connections] }
    ensure
      other&.remove_connection
    end
  end

  slow "it waits for a pool in vain"
  def test_threads_outside_of_a_loop
    with_items(loop: false, checkout_timeout: TIMEOUT, connections: 2) do |items|
      ActiveRecord::Base.connection_handler.clear_active_connections!(:all)
      gate = Thread::Queue.new
      importer = Thread.new do
        Thread.current.name = "importer"
        items.with_connection { |connection| connection.select_value("select 1") && gate.pop }
      end
      wait_until("its connection") { held(items) == 1 }
      error = on_thread { in_vain { items.find(1) } }
      assert_match(/1 of 2 are held \(read \(importer\), for \d/, error.message)
      gate.close
      importer.join
      assert_equal 0, on_thread { items.with_connection { items.count } }
    ensure
      gate&.close
    end
  end

  private

  # @param names [Array<String>] of fibers; their transactions have done their work and last as long as the block
  def in_transactions(items, *names, work: nil)
    items.transaction { items.create!(name: "warm") && raise(ActiveRecord::Rollback) } # the first adapter loads the schema
    begun, gate = Array.new(2) { Thread::Queue.new }
    tasks = names.map do |name| # one after the other, as each opens a connection
      task = NB.spawn(name:) do
        items.transaction do
          work ? work.call : items.create!(name:)
          begun << true
          gate.pop
        end
      end
      assert begun.pop(timeout: 30), "a transaction"
      task
    end
    yield
  ensure
    gate.close
    tasks.each { |task| outcome(task) }
  end

  # @return [ActiveRecord::ConnectionTimeoutError] that the block raises, after a single wait
  def in_vain(what = nil, &)
    waits = Set.new.compare_by_identity
    error = nil
    began = now
    trace = TracePoint.new(:raise) { |point| waits << point.raised_exception if NeverBlock::Postgres::PoolTimeout === point.raised_exception }
    trace.enable { error = assert_raises(ActiveRecord::ConnectionTimeoutError, *what, &) }
    assert_equal 1, waits.size, what
    assert_includes TIMEOUT - 0.01..20, now - began, what
    error
  end

  # @return [Integer] number of held connections
  def held(items) = database(items).stats[:held]

  # @return [NeverBlock::Postgres] beneath its adapters
  def database(items) = items.connection_pool.connections.first.multiplexed
end
