# frozen_string_literal: true

require "test_helper"
require_relative "../../../support/records"

# A fiber that was started in a transaction has an adapter of its own, so it is outside of that transaction, unless it
# uses its parent's adapter.
class PostgresActiveRecordChildFibersTest < Minitest::Test
  include NeverBlockTest::Records

  def test_a_child_sees_nothing_that_is_not_committed
    with_items do |items|
      items.transaction do
        items.create!(name: "parent's")
        parent = items.lease_connection
        NB.spawn do
          items.with_connection do |connection|
            refute_same parent, connection
            assert_equal [[], 0, false], [items.pluck(:name), connection.open_transactions, items.current_transaction.open?]
          end
        end.value
        assert_equal ["parent's"], items.pluck(:name)
      end
      assert_equal ["parent's"], NB.spawn { items.pluck(:name) }.value
    end
  end

  def test_a_child_s_write_is_committed_by_itself
    with_items do |items|
      items.transaction do
        items.create!(name: "parent's")
        NB.spawn { items.create!(name: "child's") }.value
        NB.spawn { items.transaction { items.create!(name: "in the child's transaction") } }.value
        NB.spawn { items.insert_all!([{name: "in a single statement"}]) }.value
        assert_equal "child's, in a single statement, in the child's transaction", ask("select string_agg(name, ', ' order by name) from items")
        raise ActiveRecord::Rollback
      end
      assert_equal ["child's", "in a single statement", "in the child's transaction"], items.order(:name).pluck(:name)
    end
  end

  def test_a_child_s_roll_back_is_its_own
    with_items do |items|
      items.transaction do
        items.create!(name: "parent's")
        NB.spawn { items.transaction { items.create!(name: "child's") && raise(ActiveRecord::Rollback) } }.value
        assert_raises(ActiveRecord::StatementInvalid) { NB.spawn { items.transaction { items.with_connection { |connection| connection.execute("select 1 / 0") } } }.value }
        items.create!(name: "parent's second")
      end
      assert_equal ["parent's", "parent's second"], items.order(:name).pluck(:name)
    end
  end

  # The server can't see that the transaction waits for this read: statements of other fibers in front of it wait for
  # the transaction's lock.
  def test_a_child_s_read_reaches_a_transaction_that_holds_a_lock_for_which_others_wait
    with_items(connections: 3) do |items|
      items.create!(name: "one")
      readers = nil
      count = items.transaction do
        items.with_connection { |connection| connection.execute("lock table items in access exclusive mode") }
        readers = Array.new(20) { NB.spawn { items.pluck(:name) } }
        NB.timeout(30) { NB.spawn { items.with_connection { |connection| connection.select_value("select count(*) from pg_namespace where nspname = 'public'") } }.value }
      end
      assert_equal [1, [["one"]]], [count, readers.map(&:value).uniq]
    end
  end

  def test_a_child_that_uses_its_parent_s_adapter_is_in_its_transaction
    with_items do |items|
      items.transaction do
        items.create!(name: "parent's")
        adapter = items.lease_connection
        NB.spawn do
          assert_equal 1, adapter.select_value("select count(*) from items")
          adapter.execute("insert into items (name) values ('by its child')")
        end.value
        assert_equal ["by its child", "parent's"], items.order(:name).pluck(:name)
        assert_equal "0", ask("select count(*) from items")
        raise ActiveRecord::Rollback
      end
      assert_empty items.pluck(:name)
      items.transaction do # its BEGIN is sent together with the child's statement
        adapter = items.lease_connection
        NB.spawn { adapter.execute("insert into items (name) values ('kept')") }.value
        assert_equal "0", ask("select count(*) from items")
      end
      assert_equal "1", ask("select count(*) from items")
    end
  end
end
