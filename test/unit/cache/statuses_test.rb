# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

class CacheStatusesTest < Minitest::Test
  Statuses = NeverBlock::Cache::Statuses

  def test_successes_and_redirections_are_stored_and_nothing_else
    assert_equal [200, 203, 204, 300, 301, 302, 303, 307, 308], (0..999).select { |status| Statuses.storable?(status) }
    assert_equal [200, 203, 204, 300, 301, 302, 303, 307, 308, 404], (0..999).select { |status| Statuses.storable?(status, [404]) }
    [nil, "200", 200.5, :ok].each { |status| refute Statuses.storable?(status), status.inspect }
  end

  def test_lists_of_further_statuses
    [[], [404], [299, 410, 599]].each { |list| assert Statuses.list?(list), list.inspect }
    [nil, 404, ["404"], [206], [205], [304], [100], [600], [404.0], [nil]].each { |list| refute Statuses.list?(list), list.inspect }
  end
end
