# frozen_string_literal: true

# slow: it waits for limits

require "test_helper"
require_relative "../../../support/records"

# Active Record's own pool options, applied to the real connections beneath its adapters.
class PostgresActiveRecordLifespanTest < Minitest::Test
  include NeverBlockTest::Records

  SLEEP = "select pg_sleep(30)"

  def test_query_timeout
    with_items(query_timeout: "0.5") do |items|
      items.with_connection do |connection|
        error = assert_raises(ActiveRecord::QueryCanceled) { connection.select_value(SLEEP) }
        assert_kind_of NeverBlock::Postgres::QueryTimeout, error.cause
        assert_match(/query_timeout: 0.5 s: select pg_sleep\(30\)\. The server has cancelled it/, error.message)
      end
      assert_raises(ActiveRecord::QueryCanceled) do
        items.transaction do
          items.create!(name: "gone")
          items.with_connection { |connection| connection.execute(SLEEP) }
        end
      end
      assert_equal 0, items.count
    end
  end

  def test_query_timeout_outside_of_a_loop
    with_items(query_timeout: 0.5, loop: false) do |items|
      items.with_connection { |connection| assert_raises(ActiveRecord::QueryCanceled) { connection.select_value(SLEEP) } }
      assert_equal 0, items.count
    end
  end

  def test_max_age
    with_items(max_age: 1) do |items|
      pids = -> { physical(database(items)).map(&:pid) }
      before = items.count && pids.call
      pass_until("other connections") { items.count == 0 && (pids.call & before).empty? }
    end
  end

  def test_min_connections
    with_items(min_connections: 3) do |items|
      assert_equal 0, items.count
      served = database(items)
      pass_until("all of them") { physical(served).count { |real| real.session_defaults == multiplexer(served).pool.wanted } >= 3 }
    end
  end

  # Active Record's own defaults, and the values that turn an option off.
  def test_defaults
    with_items { |items| assert_equal [300, 600], limits(items) }
    with_items(idle_timeout: 0, keepalive: false) { |items| assert_equal [nil, nil], limits(items) }
    with_items(idle_timeout: 20, keepalive: true) { |items| assert_equal [20, 600], limits(items) }
  end

  def test_values
    assert_raises(NeverBlock::ConfigurationError) { with_items(max_age: "soon") { |items| items.count } }
  end

  # How long a connection was neither used nor heard of, in seconds, and the share of limits that applies to it.
  Age = Struct.new(:since_use, :since_message, :share)

  private

  def database(items) = items.with_connection(&:multiplexed)

  # @return [Array<Integer, nil>] seconds after which a connection is idle for too long, and after which it is probed
  def limits(items)
    lifespan = multiplexer(database(items)).lifespan
    %i[idle? quiet?].map { |past| (0..700).find { |seconds| lifespan.public_send(past, Age.new(seconds, seconds, 1)) } }
  end
end
