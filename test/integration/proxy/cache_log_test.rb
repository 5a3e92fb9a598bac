# frozen_string_literal: true

require "test_helper"
require "json"
require "support/fronted"

# The access log of a server with a proxy and a cache in front of it: what the cache has done, and of requests whose
# fetch or exchange went to the upstream, the upstream's fields.
class ProxyCacheLogTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Fronted

  FRESH = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok"
  FIELDS = %i[upstream upstream_connect_seconds upstream_seconds].freeze

  def test_a_miss_went_to_the_upstream_and_a_hit_did_not
    logged(FRESH)
    2.times { ask(get) }
    miss, hit = lines(2)
    assert_upstream miss, "miss"
    assert_none hit, "hit"
  end

  def test_one_of_those_that_wait_has_begun_the_fetch
    logged(FRESH) { @gate.pop }
    clients = Array.new(4) { connect << get }
    wait_until("the wait of each") { @cache.stats[:waiting] == 4 }
    @gate << 1
    clients.each(&:answer)
    first, *others = lines(4).sort_by { |line| line[:upstream] ? 0 : 1 }
    assert_upstream first, "miss"
    others.each { |line| assert_none line, "collapsed" }
  end

  def test_requests_that_pass_and_those_that_bypass
    logged("HTTP/1.1 200 OK\r\nCache-Control: private\r\nContent-Length: 2\r\n\r\nok")
    ask(get)
    ask(get)
    ask(get("/", "Cookie: a=1"))
    lines(3).zip(%w[miss pass bypass]) { |line, outcome| assert_upstream line, outcome }
  end

  def test_a_stored_response_that_is_validated
    logged("HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"1\"\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 304 x\r\nETag: \"1\"\r\nCache-Control: max-age=60\r\n\r\n")
    2.times { assert_equal "ok", ask(get).body }
    lines(2).zip(%w[miss revalidated]) { |line, outcome| assert_upstream line, outcome }
  end

  def test_a_stale_response_while_it_is_fetched_in_the_background
    logged("HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-while-revalidate=60\r\nContent-Length: 2\r\n\r\nok", FRESH)
    ask(get)
    ask(get)
    wait_until("the fetch in the background") { scripted.requests.size == 2 && @cache.stats[:fetching].zero? }
    miss, stale = lines(2)
    assert_upstream miss, "miss"
    assert_none stale, "stale"
  end

  def test_an_upstream_that_fails
    logged("nonsense\r\n\r\n")
    assert_equal 502, ask(get).status
    line = lines(1).first
    assert_equal ["miss", scripted.url, true, false], [line[:cache], line[:upstream], line.key?(:upstream_connect_seconds), line.key?(:upstream_seconds)]
  end

  private

  # @param responses [Array<String>] of the upstream; the last one again and again
  # @yield before each
  def logged(*responses)
    @gate = gate
    @lines = StringIO.new
    script = ->(peer) do
      while peer.request
        yield if block_given?
        peer << ((responses.size > 1) ? responses.shift : responses.first)
      end
    end
    wrap = ->(proxy) { @cache = NeverBlock::Cache.new(proxy) }
    front(script, wrap:, server: {access_log: :json, access_log_to: @lines})
  end

  def lines(count)
    wait_until("#{count} lines") { @lines.string.lines.size == count }
    @lines.string.lines.map { |line| JSON.parse(line, symbolize_names: true) }
  end

  def assert_upstream(line, outcome)
    assert_equal [outcome, scripted.url], line.values_at(:cache, :upstream)
    assert_operator line[:upstream_connect_seconds], :<=, line[:upstream_seconds]
    assert_operator line[:upstream_seconds], :<=, line[:seconds]
  end

  def assert_none(line, outcome)
    assert_equal [outcome, []], [line[:cache], line.keys & FIELDS]
  end
end
