# frozen_string_literal: true

# After the commit of a change, the pages with these tags are stored no more: those of NeverBlock::Cache in this process,
# and those of actions in all processes that share Rails.cache.
class Product < ApplicationRecord
  include NeverBlock::CacheInvalidation

  purges_cache tags: -> { ["products", "product-#{id}"] }

  validates :name, presence: true
  validates :price, numericality: {only_integer: true, greater_than: 0}

  # A query that takes its time.
  def self.summary
    connection.select_rows("SELECT count(*), sum(price) FROM products, pg_sleep(0.2)").first
  end
end
