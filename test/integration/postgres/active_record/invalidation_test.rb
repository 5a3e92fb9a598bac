# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"
require "support/records"

# Purges after commits of fibers that share connections.
class PostgresActiveRecordInvalidationTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Records

  # Notes which tags are purged, each with the names that another connection sees then.
  class Purged
    attr_reader :tags
    attr_accessor :items

    def initialize = @tags = []

    def purge_tag(tag)
      tags << [tag, items.where(name: tag).count] if items
    end
  end

  def test_each_transaction_purges_its_own_after_its_commit
    purged = Purged.new
    NeverBlock::Cache.register(purged)
    with_items(connections: 3) do |items|
      purged.items = items
      items.include(NeverBlock::CacheInvalidation)
      items.purges_cache(tags: -> { ["all", name] })
      tasks = Array.new(20) do |number|
        NeverBlock.spawn do
          items.transaction do
            items.transaction(requires_new: true) { items.create!(name: "item-#{number}") }
            items.connection.execute("select pg_sleep(0.01)")
            raise ActiveRecord::Rollback if number.odd?
          end
        end
      end
      tasks.each(&:value)
      expected = (0...20).select(&:even?).flat_map { |number| [["all", 0], ["item-#{number}", 1]] }
      assert_equal expected.sort, purged.tags.sort
    end
  ensure
    purged.items = nil
  end

  def test_the_record_as_it_was_has_values_of_all_types
    purged = Purged.new
    NeverBlock::Cache.register(purged)
    with_items do |items|
      items.include(NeverBlock::CacheInvalidation)
      items.purges_cache(tags: -> { [*tags, "number #{data["number"]}", "price #{price.to_s("F")}", "day #{seen_at.mday}"] })
      item = items.create!(name: "one", tags: %w[a b], data: {number: 1}, price: 1.5, seen_at: Time.utc(2026, 1, 1))
      purged.items = items
      item.update!(tags: %w[c], data: {number: 2}, price: 2.5, seen_at: Time.utc(2026, 1, 2))
      expected = ["a", "b", "c", "day 1", "day 2", "number 1", "number 2", "price 1.5", "price 2.5"]
      assert_equal expected, purged.tags.map(&:first).sort
    end
  ensure
    purged.items = nil
  end
end
