# frozen_string_literal: true

require "test_helper"
require "json"
require "neverblock/cache"

# The counts of a Traffic and its report.
class CacheTrafficTest < Minitest::Test
  def setup
    @traffic = NeverBlock::Cache::Traffic.new(window: 60)
  end

  def test_the_three_percentages
    get("/a", at: 1000, client: "one")
    get("/a", at: 1010, client: "one")
    get("/a", at: 1020, client: "two")
    get("/b", at: 1030)
    get("/c", cacheable: nil, status: 404, at: 1031)
    add(method: "POST", url: "/c", at: 1032)
    assert_equal [6, 5, 4, 2, 1], [report.requests, report.gets, *counts]
    assert_equal [80.0, 50.0, 50.0], percentages
  end

  def test_nothing_at_all
    assert_equal [nil, nil, nil], percentages
    assert_equal [0, [], [], [], nil, nil], report.to_h.values_at(:requests, :urls, :reasons, :notes, :bytes, :from)
    assert_match(/\A0 requests$/, report.to_s)
  end

  def test_a_response_is_used_until_its_lifetime_ends
    [1000, 1050, 1061, 1100, 1122].each { |at| get("/a", at:) }
    assert_equal 2, report.repeats, "those at 1050 and at 1100: at 1061 and 1122 it is fetched again"
    get("/b", at: 1000, lifetime: 5)
    get("/b", at: 1006, lifetime: 500)
    get("/b", at: 1400)
    assert_equal 3, report.repeats
  end

  def test_a_client_s_copy_is_as_old_as_the_shared_one
    get("/a", at: 1000, client: "one")
    get("/a", at: 1050, client: "two")
    get("/a", at: 1062, client: "two")
    assert_equal [1, 0], [report.repeats, report.same_client]
    get("/a", at: 1063, client: "two")
    assert_equal [2, 1], [report.repeats, report.same_client]
  end

  def test_what_only_a_browser_may_keep_repeats_with_the_same_client_only
    get("/a", cacheable: :private, client: "one", at: 1000)
    get("/a", cacheable: :private, client: "two", at: 1001)
    assert_equal [2, 0, 0], counts
    get("/a", cacheable: :private, client: "two", at: 1002)
    assert_equal [3, 1, 1], counts
    assert_equal [0, 3], [report.shared_repeats, report.browser_only]
    assert_equal [{reason: :private, gets: 3, repeats: 2}], report.reasons
    get("/a", cacheable: :private, client: "two", at: 1061.5)
    assert_equal [4, 1, 1], counts, "its minute was over"
  end

  def test_an_unknown_client_repeats_nothing_alone
    3.times { get("/a", client: nil, at: 1000) }
    2.times { get("/b", client: nil, cacheable: :private, at: 1000) }
    assert_equal [5, 2, 0], counts
  end

  def test_variants_do_not_answer_for_each_other
    get("/a", variant: [%w[accept-language de]], at: 1000)
    get("/a", variant: [%w[accept-language en]], at: 1001)
    assert_equal 0, report.repeats
    get("/a", variant: [%w[accept-language de]], at: 1002)
    get("/a", variant: [%w[accept-language en]], at: 1003)
    assert_equal 2, report.repeats
    20.times { |number| get("/a", variant: number, at: 1004) }
    get("/a", variant: [%w[accept-language de]], at: 1005)
    assert_equal 3, report.repeats, "the first variant stays"
    get("/a", variant: [%w[accept-language en]], at: 1006)
    assert_equal 3, report.repeats, "others are forgotten beyond a number"
  end

  def test_an_unsafe_request_makes_what_is_stored_invalid
    get("/a", at: 1000)
    add(method: "POST", url: "/a", status: 422, at: 1001)
    add(method: "OPTIONS", url: "/a", at: 1001)
    get("/a", at: 1002)
    assert_equal 1, report.repeats
    add(method: "POST", url: "/a", status: 303, at: 1003)
    get("/a", at: 1004)
    assert_equal 1, report.repeats
  end

  def test_what_nothing_is_known_of_is_estimated_by_the_status
    [200, 203, 204, 300, 301, 304, 308].each { |status| get("/#{status}", cacheable: nil, status:) }
    assert_equal [7, 7], [report.cacheable, report.estimated]
    [206, 302, 403, 404, 500, nil].each { |status| get("/#{status}", cacheable: nil, status:) }
    assert_equal [7, 7], [report.cacheable, report.estimated]
    assert_equal [[:status, 5], [:unknown_status, 1]], report.reasons.map { |row| row.values_at(:reason, :gets) }
    assert_includes report.notes, "Of 7 GETs no header tells whether they can be cached: that is estimated from their status."
  end

  def test_the_known_sizes
    get("/a", bytes: 100)
    get("/a", bytes: 200, client: "two")
    get("/a", bytes: 400)
    get("/a", bytes: nil)
    assert_equal({gets: 700, known: 3, shared_cache: 600, browsers: 400}, report.bytes)
  end

  def test_the_reasons_and_what_would_repeat_without_them
    3.times { get("/a", cacheable: false, reason: :set_cookie) }
    2.times { get("/b", cacheable: false, reason: :cookie) }
    get("/c", cacheable: false)
    assert_equal [[:set_cookie, 3, 2], [:cookie, 2, 1], [:other, 1, 0]], report.reasons.map(&:values)
    assert_equal({url: "/a", gets: 3, repeats: 2, same_client: 0, reason: :set_cookie}, report.refused_urls.first)
    assert_empty report.urls
  end

  def test_reasons_are_bounded
    200.times { |number| get("/a", cacheable: false, reason: :"reason_#{number}") }
    assert_equal 51, report.reasons.size
    assert_equal 150, report.reasons.find { |row| row[:reason] == :other }[:gets]
  end

  def test_the_ten_urls_that_would_gain_most
    12.times { |number| (number + 1).times { get("/#{number}") } }
    assert_equal ["/11", "/10", "/9"], report.urls.first(3).map { |row| row[:url] }
    assert_equal 10, report.urls.size
    assert_equal [12, 11, 11], report.urls.first.values_at(:gets, :repeats, :same_client)
  end

  def test_the_report_for_people
    3.times { |number| get("/a", at: 86_400 * 365 + number, bytes: 5_000_000) }
    get("/b", at: 86_400 * 365 + 7_300, status: 404, cacheable: nil)
    assert_equal <<~TEXT, report.to_s
      4 requests in 2 h 1 min, 1971-01-01 00:00 to 1971-01-01 02:01 UTC. A response is used for 60 s where none is declared.

      GETs                                         4  100.0 % of requests
      that can be cached                           3   75.0 % of GETs
      that repeat                                  2   66.7 % of those   50.0 % of GETs
      that repeat from the same client             2  100.0 % of those   50.0 % of GETs

      a shared cache would have answered           2   50.0 % of GETs, 10.0 MB of 15.0 MB
      browsers would have answered                 2   50.0 % of GETs, 10.0 MB of 15.0 MB

      What would gain most
             GETs    repeat  same client  URL
                3         2            2  /a

      What keeps GETs from being shared, and how many of them would repeat if it did not
             GETs    repeat  because
                1         0  status that is not stored
    TEXT
  end

  def test_the_report_for_programs
    2.times { get("/\xFF\e", cacheable: false, reason: :cookie) }
    2.times { get("/é") }
    programs = JSON.parse(JSON.generate(report.to_h), symbolize_names: true)
    assert_equal report.to_h, programs
    assert_equal '/\xFF\x1B', programs[:refused_urls].first[:url]
    assert_equal ["cookie"], programs[:reasons].map { |row| row[:reason] }
    assert_equal '/\xC3\xA9', programs[:urls].first[:url]
  end

  def test_addresses_and_whole_urls_are_not_kept
    get("/#{"x" * 5_000}", client: "192.0.2.77")
    get("/#{"x" * 5_000}", client: "192.0.2.77")
    get("/#{"x" * 5_000}y", client: "192.0.2.77")
    assert_equal [3, 1, 1], counts
    refute_includes @traffic.inspect, "192.0.2.77"
    assert_includes @traffic.inspect, "x" * 190, "it tells all that is kept"
    assert_equal 203, report.urls.first[:url].size
  end

  # ---- bounds ----

  def test_memory_is_bounded
    @traffic = NeverBlock::Cache::Traffic.new(window: 3600, max_urls: 100, max_clients: 300)
    5_000.times { |number| get("/#{number % 2_500}", client: "c#{number % 7}", at: 1000 + number * 0.1) }
    assert_predicate report, :sampled?
    assert_equal [5_000, 5_000], [report.requests, report.cacheable]
    assert_match(/^that repeat +~/, report.to_s)
  end

  def test_what_is_over_makes_room_without_an_estimate
    @traffic = NeverBlock::Cache::Traffic.new(window: 60, max_urls: 100, max_clients: 100)
    2_000.times do |number|
      2.times { get("/#{number}", at: 1000 + number * 10) }
      get("/refused/#{number}", cacheable: false, at: 1000 + number * 10)
    end
    refute_predicate report, :sampled?
    assert_equal [4_000, 2_000, 2_000], counts
    assert_equal 10, report.urls.size, "the best ones are kept for the report"
  end

  # Each URL is asked ten times: 90 % repeat. The salt is random; the bounds are ten standard deviations away.
  def test_estimates_from_a_sample
    @traffic = NeverBlock::Cache::Traffic.new(window: 1e6, max_urls: 1_000, max_clients: 1_000)
    10.times { |round| 8_000.times { |number| get("/#{number}", client: "c", at: 1000 + round) } }
    assert_predicate report, :sampled?
    assert_in_delta 90, report.repeat_percent, 35
    assert_operator report.same_client, :<=, report.repeats
    assert_operator report.repeats, :<=, report.cacheable
  end

  def test_a_url_that_is_asked_most_is_counted_exactly
    @traffic = NeverBlock::Cache::Traffic.new(window: 1e6, max_urls: 100)
    10_000.times do |number|
      get("/hot", at: 1000)
      get("/#{number}", at: 1000)
    end
    assert_predicate report, :sampled?
    assert_equal 9_999, report.repeats
    assert_equal "/hot", report.urls.first[:url]
  end

  # They are what grows.
  def test_no_more_urls_and_clients_than_the_limits
    {1 => 200, 100 => 2_500}.each do |limit, number|
      pages, clients = NeverBlock::Cache::Traffic::Pages.new(limit:), NeverBlock::Cache::Traffic::Clients.new(limit:)
      (2 * number).times do |n|
        url, at = "/#{n % number}", 1000 + n * 0.1
        pages.fetch(url, at, 3600)
        clients.see(clients.id(url, "c#{n % 7}", nil), at, nil, 3600)
        assert_operator [pages.size, clients.size].max, :<=, limit
      end
    end
  end

  def test_the_smallest_limits
    @traffic = NeverBlock::Cache::Traffic.new(max_urls: 1, max_clients: 1)
    200.times { |number| 2.times { get("/#{number}", client: "c#{number}") } }
    assert_predicate report, :sampled?
    assert_equal 400, report.cacheable
    assert_operator report.repeats, :<=, 400
  end

  def test_refuses_wrong_options
    {window: 0, max_urls: 0, max_clients: "many"}.each do |name, value|
      error = assert_raises(NeverBlock::ConfigurationError) { NeverBlock::Cache::Traffic.new(name => value) }
      assert_match(/\A#{name}: #{value.inspect} is not /, error.message)
    end
    error = assert_raises(ArgumentError) { get("/a", cacheable: :maybe) }
    assert_equal "cacheable: :maybe is not true, false, :private or nil", error.message
    assert_equal 0, report.requests
  end

  def test_threads_share_one
    4.times.map { Thread.new { 500.times { |number| get("/#{number % 5}", at: 1000) } } }.each(&:join)
    assert_equal [2_000, 1_995, 1_995], counts
  end

  private

  def add(at: 1000, **request) = @traffic.add(at:, status: 200, client: "one", **request)

  def get(url, cacheable: true, **request) = add(method: "GET", url:, cacheable:, **request)

  def report = @traffic.report

  def counts = [report.cacheable, report.repeats, report.same_client]

  def percentages = [report.cacheable_percent, report.repeat_percent, report.same_client_percent]
end
