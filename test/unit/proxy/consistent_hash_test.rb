# frozen_string_literal: true

require "test_helper"
require "neverblock"

# Which upstream has a key.
class ProxyConsistentHashTest < Minitest::Test
  Proxy = NeverBlock::Proxy

  KEYS = Array.new(3_000) { |number| "example.org/page/#{number}?" }.freeze

  def backends(count) = Array.new(count) { |number| Proxy::Backend.new(Proxy::ConnectionPool.new(Proxy::Upstream.new("http://10.0.0.#{number + 1}:80"))) }

  def hash(by = :url, load: 1.25) = Proxy::ConsistentHash.new(by, load:)

  def owners(all, hash = hash()) = KEYS.to_h { |key| [key, hash.call(all, key)] }

  def test_keys_are_spread_evenly
    shares = owners(backends(5)).values.tally.values
    assert_equal 5, shares.size
    assert shares.all? { |share| share.between?(500, 700) }, shares.inspect
  end

  def test_it_is_the_same_in_each_process
    assert_equal %w[10.0.0.4 10.0.0.4 10.0.0.1 10.0.0.5], KEYS.first(4).map { |key| hash.call(backends(5), key).upstream.host }
  end

  def test_one_that_goes_moves_its_own_keys_alone
    all = backends(5)
    before, after = owners(all), owners(all.drop(1))
    assert_equal before.reject { |_, owner| owner.equal?(all.first) }, after.reject { |key, _| before[key].equal?(all.first) }
    assert_equal 4, before.select { |_, owner| owner.equal?(all.first) }.keys.map { |key| after[key] }.uniq.size
  end

  def test_the_load_is_bounded
    all = backends(4)
    hash = hash()
    100.times { hash.call(all, "hot").in_flight += 1 }
    assert_operator all.map(&:in_flight).max, :<=, 32
    assert_equal 100, all.sum(&:in_flight)
    assert_operator all.map(&:in_flight).tally.size, :>, 1, "the first ones have as many as they may"
  end

  def test_with_few_requests_a_key_keeps_its_upstream
    all = backends(4)
    owner = hash.call(all, "a")
    20.times { assert_same owner, hash.call(all, "a") }
  end

  def test_keys_of_requests
    env = {"HTTP_HOST" => "a", "SCRIPT_NAME" => "/b", "PATH_INFO" => "/c", "QUERY_STRING" => "d", "REMOTE_ADDR" => "192.0.2.1", "HTTP_X_TENANT" => "t"}
    assert_equal ["a/b/c?d", "192.0.2.1", "t"], [:url, :client, "X-Tenant"].map { |by| hash(by).key(env) }
    assert_nil hash(:client).key({"REMOTE_ADDR" => "0.0.0.0"})
    assert_nil hash("X-Tenant").key({"HTTP_X_TENANT" => ""})
  end

  def test_requests_without_a_key_take_turns
    all = backends(3)
    hash = hash("X-Tenant")
    assert_equal({1 => 3}, Array.new(3) { hash.call(all, nil) }.tally.values.tally)
  end
end
