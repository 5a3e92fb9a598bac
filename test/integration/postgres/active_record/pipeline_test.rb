# frozen_string_literal: true

require "test_helper"
require "logger"
require_relative "../../../support/delay_proxy"
require_relative "../../../support/records"

# Several reads of one request in one round trip, with Active Record.
class PostgresActiveRecordPipelineTest < Minitest::Test
  include NeverBlockTest::Records

  slow "a database that is far away"
  def test_callables_take_one_round_trip
    through_proxy do |proxy, items|
      reads = [-> { items.find(2).name }, -> { items.where(id: [1, 3]).order(:id).pluck(:name) }, -> { items.count }, -> { items.exists?(9) }]
      2.times { reads.each(&:call) } # loads the models' columns, and creates adapters
      NeverBlock.pipeline(*reads)
      assert_equal 1, fewest_trips(proxy) { assert_equal ["b", %w[a c], 3, false], NeverBlock.pipeline(*reads) }
      assert_equal [["b", %w[a c], 3, false], 4], [reads.map(&:call), proxy.trips]
    end
  end

  slow "a database that is far away"
  def test_a_block_takes_one_round_trip
    through_proxy do |proxy, items|
      ActiveRecord::Base.asynchronous_queries_tracker.start_session
      ask = -> { NeverBlock.pipeline { [items.where(id: 2).load_async, items.async_count, items.order(:id).async_pluck(:name), :other] } }
      2.times { ask.call }
      found = count = names = other = nil
      assert_equal 1, fewest_trips(proxy) { found, count, names, other = ask.call }
      assert_equal [3, %w[a b c], :other, true, ["b"]], [count, names, other, found.loaded? || found.scheduled?, found.map(&:name)]
      assert_equal 0, proxy.trips, "nothing is asked again"
      assert_equal({count: 3}, NeverBlock.pipeline { {count: items.async_count} })
      assert_equal 3, NeverBlock.pipeline { items.async_count }
    end
  end

  def test_a_read_inside_of_the_block_runs_at_once
    with_records do |items|
      ActiveRecord::Base.asynchronous_queries_tracker.start_session
      within = nil
      after = NeverBlock.pipeline do
        count = items.async_count
        within = count.value
        items.create!(name: "d")
        [count, items.async_count]
      end
      assert_equal [3, [3, 4]], [within, after]
    end
  end

  def test_the_log_tells_what_went_together
    with_records do |items|
      said = StringIO.new
      ActiveRecord::Base.logger = Logger.new(said)
      events = []
      subscriber = ActiveSupport::Notifications.subscribe("sql.active_record") { |event| events << event.payload.values_at(:name, :pipeline, :queue_time) }
      NeverBlock.pipeline(-> { items.find(1) }, -> { items.count }, -> { items.transaction { items.create!(name: "d") } })
      items.count
      together, apart = events.reject { |event| event[0] == "SCHEMA" }.partition { |event| event[1] }
      assert_equal [%w[Item\ Count Item\ Load], 1, true], [together.map(&:first).sort, together.map { |event| event[1] }.uniq.size, together.all? { |event| Float === event[2] }]
      assert apart.any? { |event| event[0].end_with?("Create") }
      assert_match(/PIPELINE #{together[0][1]} \(\d+\.\dms\)  2 in one go, waited \d+\.\dms for a connection: Item (Load, Item Count|Count, Item Load)$/, said.string)
    ensure
      ActiveSupport::Notifications.unsubscribe(subscriber)
      ActiveRecord::Base.logger = nil
    end
  end

  # One adapter runs the statements in order, and sees its uncommitted rows.
  def test_inside_a_transaction_everything_is_in_it
    with_records do |items|
      ActiveRecord::Base.asynchronous_queries_tracker.start_session
      items.transaction do
        items.create!(name: "mine")
        assert_equal [4, "mine"], NeverBlock.pipeline(-> { items.count }, -> { items.order(:id).last.name })
        assert_equal [4, 4], NeverBlock.pipeline { [items.where("id > 0").load_async, items.where("id > 0").load_async] }.map(&:size)
        NeverBlock.pipeline(-> { items.create!(name: "too") })
        raise ActiveRecord::Rollback
      end
      items.transaction { assert_equal [3, 3], NeverBlock.pipeline(-> { items.lock.to_a.size }, -> { items.count }) } # BEGIN is not sent yet
      assert_equal 3, items.count
    end
  end

  def test_session_state_is_visible
    with_records do |items|
      items.with_connection do |connection|
        connection.execute("create temporary table passing as select 5 as n")
        assert_equal [5, 3], NeverBlock.pipeline(-> { connection.select_value("select n from passing") }, -> { items.count })
      end
    end
  end

  def test_fibers_of_a_pipeline_have_what_their_caller_has
    with_records do |items|
      current = Class.new(ActiveSupport::CurrentAttributes) do
        def self.name = "NeverBlockTestCurrent"
        attribute :tenant
      end
      current.tenant = "b"
      ActiveSupport::ExecutionContext.set(controller: "shop")
      seen = NeverBlock.pipeline(
        -> { [items.where(name: current.tenant).count, current.set(tenant: "c") { [items.where(name: current.tenant).sole.name, items.count, current.tenant] }] },
        -> { [items.where(name: current.tenant).sole.name, items.count, current.tenant] },
        -> { ActiveSupport::ExecutionContext.to_h }
      )
      assert_equal [[1, ["c", 3, "c"]], ["b", 3, "b"], {controller: "shop"}], seen
      assert_equal "b", current.tenant
      items.where(name: %w[a b]).scoping do
        scoped = NeverBlock.pipeline(-> { items.where(name: "a").scoping { [items.count, items.count] } }, -> { [items.count, items.count] }, -> { items.unscoped { items.count } })
        assert_equal [[1, 1], [2, 2], 3], scoped
      end
      assert_equal [false, true], NeverBlock.pipeline(-> { ActiveRecord::Base.while_preventing_writes { items.count && ActiveRecord::Base.current_preventing_writes } }, -> { items.count && ActiveRecord::Base.current_preventing_writes }).reverse
      ActiveRecord::Base.connected_to(role: :writing, prevent_writes: true) do
        assert_equal [true, false], NeverBlock.pipeline(
          -> { items.count && ActiveRecord::Base.current_preventing_writes },
          -> { ActiveRecord::Base.connected_to(role: :writing, prevent_writes: false) { items.count && ActiveRecord::Base.current_preventing_writes } }
        )
      end
    ensure
      current&.reset
    end
  end

  def test_fibers_of_a_pipeline_give_their_adapters_back
    with_records do |items|
      pool = items.connection_pool
      10.times { NeverBlock.pipeline(-> { items.lease_connection.select_value("select 1") }, -> { items.count }) }
      assert_operator pool.connections.size, :<=, 3
      assert_equal 0, pool.connections.count(&:in_use?) - (pool.active_connection? ? 1 : 0)
    end
  end

  def test_errors_are_raised_where_they_belong
    with_records do |items|
      ActiveRecord::Base.asynchronous_queries_tracker.start_session
      assert_raises(ActiveRecord::RecordNotFound) { NeverBlock.pipeline(-> { items.count }, -> { items.find(99) }) }
      assert_raises(ActiveRecord::StatementInvalid) { NeverBlock.pipeline { [items.async_count, items.async_pluck(Arel.sql("1/0"))] } }
      count, bad = NeverBlock.pipeline { [items.async_count, items.where("1/0 = 1").load_async] }
      assert_equal 3, count
      assert_raises(ActiveRecord::StatementInvalid) { bad.to_a }
    end
  end

  def test_outside_of_a_loop
    with_records(loop: false) do |items|
      assert_equal [3, "a"], NeverBlock.pipeline(-> { items.count }, -> { items.find(1).name })
      assert_equal [3, ["a"]], NeverBlock.pipeline { [items.async_count, items.where(id: 1).load_async] }.then { |count, found| [count, found.map(&:name)] }
    end
  end

  private

  # A busy machine may split in two what is sent at once.
  def fewest_trips(proxy)
    Array.new(5) do
      proxy.trips
      yield
      proxy.trips
    end.min
  end

  def with_records(**options)
    with_items(**options) do |items|
      %w[a b c].each { |name| items.create!(name:) }
      yield items
    end
  end

  def through_proxy
    reason = NeverBlockTest::DelayProxy.missing and skip reason
    NeverBlockTest::DelayProxy.open(to: NeverBlockTest::Database.server.socket, delay: 0.01) do |proxy|
      with_records(host: "127.0.0.1", port: proxy.port, sslmode: "disable") { |items| yield proxy, items }
    end
  end
end
