# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# RFC 9111 §4.2, RFC 5861.
class CacheFreshnessTest < Minitest::Test
  Freshness = NeverBlock::Cache::Freshness
  HttpDate = NeverBlock::Cache::HttpDate
  NOW = 1_800_000_000

  def freshness(headers, status: 200, delay: 0, **options)
    Freshness.new(status:, headers:, requested_at: NOW - delay, responded_at: NOW, **options)
  end

  def at(offset) = HttpDate.format(NOW + offset)

  # It is for responses that say nothing themselves.
  # A tenth of the time since the last change, RFC 9111 §4.2.2.
  def test_a_lifetime_that_is_guessed
    day = {"last-modified" => at(-1000), "date" => at(0)}
    {
      {} => nil, day => 100, {"last-modified" => at(-100_000), "date" => at(0)} => 3600, {"last-modified" => at(10), "date" => at(0)} => 0,
      {"last-modified" => at(-1000)} => 100, {**day, "cache-control" => "max-age=5"} => 5, {**day, "expires" => "0"} => 0,
      {**day, "pragma" => "no-cache"} => nil, {**day, "content-type" => "text/event-stream"} => nil, {"last-modified" => "foo"} => nil,
      {**day, "cache-control" => "max-age=5;"} => 0
    }.each do |headers, lifetime|
      found = freshness(headers, heuristic_ttl: 3600)
      assert_equal [!lifetime.nil?, lifetime.to_i], [found.explicit?, found.lifetime], headers.inspect
      refute_equal 100, freshness(headers).lifetime
    end
    assert_equal 100, freshness(day, heuristic_ttl: 3600, default_ttl: 20).lifetime
    assert_equal 20, freshness({}, heuristic_ttl: 3600, default_ttl: 20).lifetime
  end

  def test_statuses_whose_lifetime_may_be_guessed
    day = {"last-modified" => at(-1000)}
    all = [200, 203, 204, 299, 300, 301, 302, 303, 307, 308, 404, 405, 410, 414, 500, 501, 503]
    assert_equal [200, 203, 204, 300, 301, 308], all.select { |status| freshness(day, status:, heuristic_ttl: 3600).fresh?(NOW) }
    assert_equal [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501], all.select { |status| freshness(day, status:, heuristic_ttl: 3600, statuses: all).fresh?(NOW) }
    assert_equal all, all.select { |status| freshness({**day, "cache-control" => "public"}, status:, heuristic_ttl: 3600, statuses: all).fresh?(NOW) }
  end

  def test_default_lifetime
    {
      {} => 20,
      {"cache-control" => "public"} => 20,
      {"cache-control" => "must-revalidate"} => 20,
      {"date" => at(-5), "age" => "3"} => 20,
      {"content-type" => "text/html", "pragma" => "x"} => 20,
      {"cache-control" => "max-age=60"} => 60,
      {"cache-control" => "max-age=0"} => 0,
      {"cache-control" => "max-age=x"} => 0,
      {"cache-control" => "no store"} => 0,
      {"expires" => "0"} => 0,
      {"expires" => at(5), "date" => at(0)} => 5,
      {"pragma" => "no-cache"} => nil,
      {"content-type" => "text/event-stream; charset=utf-8"} => nil,
      {"content-type" => "multipart/x-mixed-replace"} => nil
    }.each do |headers, lifetime|
      found = freshness(headers, default_ttl: 20)
      assert_equal [lifetime], [(found.lifetime if found.explicit?)], headers
      assert_equal 0, found.lifetime, headers if lifetime.nil?
    end
    statuses = [200, 203, 204, 206, 300, 301, 302, 303, 304, 307, 308, 404, 410, 500].select { |status| freshness({}, status:, default_ttl: 20).explicit? }
    assert_equal [200, 203, 204, 300, 301, 308], statuses
    refute freshness({"cache-control" => "no-cache"}, default_ttl: 20).fresh?(NOW)
    assert_equal 15, freshness({"date" => at(-5)}, default_ttl: 20).ttl(NOW)
  end

  # An app that takes longer than the lifetime would never have a stored response.
  def test_default_lifetime_of_a_slow_app
    slow = freshness({"date" => at(-25), "age" => "3"}, delay: 25, default_ttl: 20)
    assert_equal [28, 17], [slow.age(NOW), slow.ttl(NOW)]
    assert_equal 20, freshness({}, delay: 25, default_ttl: 20).ttl(NOW)
    assert_equal 20, freshness({}, delay: -5, default_ttl: 20).ttl(NOW), "a clock that was set back"
    assert_equal(-5, freshness({"cache-control" => "max-age=20"}, delay: 25, default_ttl: 20).ttl(NOW))
  end

  # Headers => the lifetime; nil: there is none.
  def test_lifetime
    {
      {} => nil,
      {"cache-control" => "public"} => nil,
      {"cache-control" => "max-age=60"} => 60,
      {"cache-control" => "max-age=60, s-maxage=5"} => 5,
      {"cache-control" => "s-maxage=0, max-age=60", "expires" => at(99)} => 0,
      {"cache-control" => "max-age=0", "expires" => at(99)} => 0,
      {"cache-control" => "max-age=60", "expires" => at(-99)} => 60,
      {"cache-control" => "max-age=60", "expires" => "0"} => 60,
      {"cache-control" => "max-age=x", "expires" => at(99)} => 0,
      {"cache-control" => "s-maxage=x, max-age=60"} => 0,
      {"cache-control" => "max-age=99999999999"} => 2**31,
      {"cache-control" => "max-age=60; public", "expires" => at(99)} => 0,
      {"expires" => at(99)} => 99,
      {"expires" => at(99), "date" => at(0)} => 99,
      {"expires" => at(99), "date" => at(40)} => 59,
      {"expires" => at(99), "date" => at(-10)} => 109,
      {"expires" => at(99), "date" => "foo"} => 99,
      {"expires" => at(99), "date" => [at(40), at(50)]} => 99,
      {"expires" => at(300), "date" => at(400)} => 0,
      {"expires" => at(0), "date" => at(0)} => 0,
      {"expires" => "0"} => 0,
      {"expires" => ""} => 0,
      {"expires" => []} => nil,
      {"expires" => [at(99), at(99)]} => 0,
      {"expires" => "Fri, 31 Dec 9999 23:59:59 GMT"} => 2**31,
      {"cache-control" => "no-cache", "expires" => at(99)} => 99,
      {"last-modified" => at(-100_000)} => nil
    }.each do |headers, seconds|
      found = freshness(headers)
      assert_equal seconds.to_i, found.lifetime, headers
      assert_equal !seconds.nil?, found.explicit?, headers
    end
  end

  def test_no_cache_is_explicit
    found = freshness({"cache-control" => "no-cache"})
    assert_predicate found, :explicit?
    assert_predicate found, :must_validate?
    assert_equal 0, found.lifetime
  end

  def test_targeted_fields_replace_cache_control_and_expires
    headers = {"cdn-cache-control" => "max-age=7", "cache-control" => "s-maxage=60, must-revalidate", "expires" => at(99)}
    found = freshness(headers, targeted: ["cdn-cache-control"])
    assert_equal 7, found.lifetime
    assert_predicate found, :stale_allowed?
    assert_equal 60, freshness(headers).lifetime
    none = freshness(headers.merge("cdn-cache-control" => "none"), targeted: ["cdn-cache-control"])
    refute_predicate none, :explicit?
  end

  def test_statuses_that_are_not_stored_are_never_fresh
    [100, 205, 206, 299, 304, 404, 410, 499, 500, 599].each do |status|
      assert_equal 0, freshness({"cache-control" => "max-age=60"}, status:).lifetime, status
    end
    assert_equal 60, freshness({"cache-control" => "max-age=60"}, status: 301).lifetime
  end

  # Headers, and the delay between request and response => the age when the response came.
  def test_initial_age
    {
      [{}, 0] => 0, [{}, 3] => 3, [{}, -3] => 0,
      [{"age" => "30"}, 0] => 30, [{"age" => "30"}, 3] => 33,
      [{"date" => at(-10)}, 0] => 10, [{"date" => at(-10)}, 3] => 10, [{"date" => at(-2)}, 3] => 3,
      [{"date" => at(-10), "age" => "30"}, 3] => 33, [{"date" => at(-50), "age" => "30"}, 3] => 50,
      [{"date" => at(500)}, 0] => 0, [{"date" => at(500), "age" => "30"}, 3] => 33,
      [{"date" => "foo"}, 3] => 3,
      [{"age" => "abc"}, 0] => 0, [{"age" => "-7200"}, 0] => 0, [{"age" => "7200.0"}, 0] => 0, [{"age" => ""}, 0] => 0,
      [{"age" => "7200;foo=bar"}, 0] => 0, [{"age" => "7200, 0"}, 0] => 7200, [{"age" => "0, 7200"}, 0] => 0,
      [{"age" => %w[7200 0]}, 0] => 7200, [{"age" => %w[0 7200]}, 0] => 0, [{"age" => " 7 , x"}, 0] => 7,
      [{"age" => "2147483649"}, 0] => 2**31, [{"age" => "9" * 9_000}, 0] => 2**31, [{"age" => "\xff"}, 0] => 0
    }.each { |(headers, delay), age| assert_equal age, freshness(headers, delay:).age(NOW), [headers, delay].inspect[0, 80] }
  end

  def test_age_grows_with_the_time_and_never_sinks
    found = freshness({"age" => "30", "cache-control" => "max-age=60"})
    assert_equal 30, found.age(NOW)
    assert_equal 45.5, found.age(NOW + 15.5)
    assert_equal 30, found.age(NOW - 5)
    assert_equal 14.5, found.ttl(NOW + 15.5)
    assert_equal(-70, found.ttl(NOW + 100))
  end

  def test_fresh_until_the_age_reaches_the_lifetime
    found = freshness({"cache-control" => "max-age=60"})
    assert found.fresh?(NOW + 59.9)
    refute found.fresh?(NOW + 60)
    refute freshness({"cache-control" => "max-age=0"}).fresh?(NOW)
    refute freshness({}).fresh?(NOW)
    refute freshness({"cache-control" => "max-age=3600", "age" => "7200"}).fresh?(NOW)
    refute freshness({"cache-control" => "max-age=60, no-cache"}).fresh?(NOW)
    refute freshness({"cache-control" => 'max-age=60, no-cache="x"'}).fresh?(NOW)
  end

  def test_windows_are_counted_from_the_expiry
    found = freshness({"cache-control" => "max-age=60, stale-while-revalidate=30, stale-if-error=300", "age" => "10"})
    refute found.stale_while_revalidate?(NOW + 49)
    assert found.stale_while_revalidate?(NOW + 50)
    assert found.stale_while_revalidate?(NOW + 79)
    refute found.stale_while_revalidate?(NOW + 80)
    assert found.stale_if_error?(NOW)
    assert found.stale_if_error?(NOW + 349)
    refute found.stale_if_error?(NOW + 350)
  end

  def test_without_a_window_there_is_none
    ["max-age=60", "max-age=60, stale-while-revalidate=0, stale-if-error=0", "max-age=60, stale-while-revalidate, stale-if-error=x"]
      .each do |control|
      found = freshness({"cache-control" => control})
      refute found.stale_while_revalidate?(NOW + 60)
      refute found.stale_if_error?(NOW + 60)
      assert_predicate found, :stale_allowed?
    end
  end

  # RFC 9111 §4.2.4, §5.2.2.10.
  def test_stale_responses_are_forbidden
    ["must-revalidate", "proxy-revalidate", "s-maxage=60", "no-cache", 'no-cache="x"', "no-store", "must-revalidate=no", "s-maxage"]
      .each do |forbid|
      found = freshness({"cache-control" => "max-age=60, stale-while-revalidate=99, stale-if-error=99, #{forbid}"})
      refute_predicate found, :stale_allowed?, forbid
      refute found.stale_while_revalidate?(NOW + 61), forbid
      refute found.stale_if_error?(NOW + 61), forbid
    end
    refute_predicate freshness({"cache-control" => "max-age=60; stale-if-error=99"}), :stale_allowed?
  end

  def test_a_clock_that_was_set_back
    freshness = NeverBlock::Cache::Freshness.new(status: 200, headers: {"cache-control" => "max-age=60"}, requested_at: 10_000.0, responded_at: 10_000.0)
    assert freshness.fresh?(9_996), "clocks of several hosts differ a little"
    refute freshness.fresh?(9_990)
    assert_operator freshness.age(0), :>, 1_000_000_000
    assert freshness.fresh?(10_001)
  end
end
