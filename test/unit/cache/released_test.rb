# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"
require "support/runs"

class CacheReleasedTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  def test_each_url_has_places_of_its_own
    released = NeverBlock::Cache::Released.new(2)
    gate = Thread::Queue.new
    at_once = most = 0
    in_run do |scope|
      hanging = Array.new(5) do
        scope.spawn do
          released.acquire("a") { (most = [most, at_once += 1].max) && gate.pop && at_once -= 1 }
        end
      end
      hanging.each { |task| parked(task) }
      assert_equal 2, most
      assert_equal :done, released.acquire("b") { :done }
      hanging.last.cancel # while it waits for a place
      5.times { gate << true }
      hanging.first(4).each(&:join)
      assert_equal [2, 0], [most, released.size]
    end
  end

  def test_a_forked_child_forgets_the_requests_of_its_parent
    released = NeverBlock::Cache::Released.new(1)
    status = released.acquire("a") do
      pid = fork do
        sizes = [released.size, released.acquire("a") { released.size }, released.size]
        exit!(sizes == [0, 1, 0])
      end
      Process.wait2(pid).last
    end
    assert_predicate status, :success?
    assert_equal 0, released.size
  end

  def test_a_call_that_fails_leaves_its_place
    released = NeverBlock::Cache::Released.new(1)
    2.times { assert_raises(IOError) { released.acquire("a") { raise IOError } } }
    assert_equal 0, released.size
  end
end
