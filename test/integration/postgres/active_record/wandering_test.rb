# frozen_string_literal: true

require "test_helper"
require_relative "../../../support/records"

# Active Record's adapters move between fibers and threads: in a thread, a checked-out adapter has a real connection to
# itself; in a loop it shares; an idle one has none.
class PostgresActiveRecordWanderingTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Records

  def test_one_adapter_in_threads_and_loops_by_turns
    with_wanderers(connections: 3, shareable_functions: ["pg_backend_pid"]) do |items|
      adapters = Array.new(3) do
        [
          on_thread { items.with_connection { |adapter| assert_by_itself(adapter) } }.tap { assert_idle },
          in_loop { items.with_connection { |adapter| assert_sharing(items, adapter) } }.tap { assert_idle }
        ]
      end
      assert_equal 1, adapters.flatten.uniq(&:object_id).size
      assert_operator backends, :<=, 3
    end
  end

  def test_one_adapter_in_one_loop_after_another
    with_wanderers(connections: 2) do |items|
      adapters = Array.new(4) do |n|
        in_loop do
          items.with_connection do |adapter|
            assert_equal "0", adapter.select_value("SHOW statement_timeout")
            items.transaction { items.create!(name: "loop #{n}") }
            adapter.execute("SET statement_timeout TO 777")
            assert_equal ["777ms", n + 1, 1], [adapter.select_value("SHOW statement_timeout"), items.count, held]
            adapter
          end
        end.tap { assert_idle }
      end
      assert_equal 1, adapters.uniq(&:object_id).size
      assert_operator backends, :<=, 2
    end
  end

  # With two connections, a thread can get one only if no idle adapter has kept one.
  def test_idle_adapters_hold_nothing
    with_wanderers(connections: 2) do |items|
      adapters = several_adapters(items, 6)
      assert_idle
      pool = items.connection_pool
      taken = Array.new(6) { pool.checkout }
      assert_equal adapters.map(&:object_id).sort, taken.map(&:object_id).sort
      assert_equal 0, held, "no statement was sent yet"
      taken.each do |adapter|
        assert_equal 1, adapter.select_value("select 1")
        assert_equal 1, held
        pool.checkin(adapter)
        assert_idle
      end
      assert_operator backends, :<=, 2
    end
  end

  def test_threads_and_loops_at_the_same_time
    with_wanderers(connections: 4) do |items|
      rows = items.insert_all!(Array.new(20) { |n| {name: "item #{n}"} }).rows.flatten
      ActiveRecord::Base.connection_handler.clear_active_connections!(:all)
      known = several_adapters(items, 6)
      seen = Thread::Queue.new
      ask = lambda do |n|
        items.with_connection do |adapter|
          seen << adapter
          items.transaction { items.create!(name: "new") && raise(ActiveRecord::Rollback) } if n % 5 == 0
          [items.find(rows[n]).name, adapter.select_value("select #{n} + 1"), adapter.open_transactions]
        end
      end
      expected = Array.new(20) { |n| ["item #{n}", n + 1, 0] }
      threads = Array.new(2) { Thread.new { Array.new(20) { |n| ask.call(n) } } }
      loops = Array.new(2) { Thread.new { NeverBlock.run { NB.concurrently(20.times.to_a, limit: 2) { |n| ask.call(n) } } } }
      [*threads, *loops].each do |thread|
        assert thread.join(NeverBlockTest::LIMIT), "they wait for each other"
        assert_equal expected, thread.value
      end
      assert_empty Array.new(seen.size) { seen.pop }.uniq(&:object_id).map(&:object_id) - known.map(&:object_id)
      assert_equal 20, items.count
      ActiveRecord::Base.connection_handler.clear_active_connections!(:all)
      assert_idle
      assert_operator backends, :<=, 4
    end
  end

  private

  # An adapter exists when the block begins, but is not in use.
  def with_wanderers(**options)
    with_items(loop: false, **options) do |items|
      @database = items.lease_connection.multiplexed
      ActiveRecord::Base.connection_handler.clear_active_connections!(:all)
      assert_idle
      NeverBlock::Postgres::Databases.log = ->(line, _level) { @logged << line } # keep warnings about leases held until check-in
      yield items
    end
  ensure
    NeverBlock::Postgres::Databases.log = nil if defined?(NeverBlock::Postgres::Databases)
  end

  # @return [Integer] number of held real connections
  def held = @database.stats[:held]

  def assert_idle = wait_until("that all is given back: #{@database.inspect}") { held == 0 && @database.stats[:in_flight] == 0 }

  # @return [Array] so many adapters that have been in use at the same time
  def several_adapters(items, count)
    in_loop do
      using = 0
      NB.concurrently(count.times.to_a, limit: count) do
        items.with_connection do |adapter|
          adapter.select_value("select 1")
          using += 1
          pass_until("the others") { using == count }
          adapter
        end
      end
    end
  end

  # Has a connection to itself from its first statement on, without state of an earlier user.
  def assert_by_itself(adapter)
    assert_equal 0, held, "before its first statement"
    assert_equal "0", adapter.select_value("SHOW statement_timeout")
    assert_equal 1, held
    process = adapter.select_value("select pg_backend_pid()")
    adapter.execute("SET statement_timeout TO 777")
    adapter.execute("create temporary table wandering (n int)")
    others = Array.new(3) { Thread.new { one(@database.exec("select pg_backend_pid()")).to_i }.value }
    refute_includes others, process
    assert_equal [process, "777ms", 0], [adapter.select_value("select pg_backend_pid()"), adapter.select_value("SHOW statement_timeout"), adapter.select_value("select count(*) from wandering")]
    assert_equal 1, held
    adapter
  end

  # More adapters have run a statement than there are connections.
  def assert_sharing(items, adapter)
    assert_equal 0, held
    assert_equal "0", adapter.select_value("SHOW statement_timeout"), "what was set in a thread is gone"
    assert_equal 0, adapter.select_value("select count(*) from pg_class where relname = 'wandering'")
    using = 0
    gate = Thread::Queue.new
    tasks = Array.new(4) do
      NB.spawn do
        items.with_connection do |other|
          other.select_value("select pg_backend_pid()")
          using += 1
          gate.pop
        end
      end
    end
    pass_until("the others") { using == 4 }
    adapter.select_value("select pg_backend_pid()")
    assert_equal 0, held, "no connection is held"
    adapter
  ensure
    gate&.close
    tasks&.each(&:value)
  end
end
