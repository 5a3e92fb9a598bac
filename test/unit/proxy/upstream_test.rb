# frozen_string_literal: true

require "test_helper"
require "neverblock"

class ProxyUpstreamTest < Minitest::Test
  Upstream = NeverBlock::Proxy::Upstream

  def test_addresses
    {
      "http://127.0.0.1:3000" => ["127.0.0.1", 3000, nil, "127.0.0.1:3000", "http://127.0.0.1:3000"],
      "http://App.Internal" => ["app.internal", 80, nil, "app.internal", "http://app.internal:80"],
      "http://app_1:80/" => ["app_1", 80, nil, "app_1", "http://app_1:80"],
      "http://[::1]:3000" => ["::1", 3000, nil, "[::1]:3000", "http://[::1]:3000"],
      "https://a" => ["a", 443, nil, "a", "https://a:443"],
      "https://a:80" => ["a", 80, nil, "a:80", "https://a:80"],
      "unix:/run/app.sock" => [nil, nil, "/run/app.sock", "localhost", "unix:/run/app.sock"],
      "unix:///run/app.sock" => [nil, nil, "/run/app.sock", "localhost", "unix:/run/app.sock"]
    }.each do |url, expected|
      upstream = Upstream.new(url)
      assert_equal expected, [upstream.host, upstream.port, upstream.path, upstream.authority, upstream.to_s], url
      assert_equal url.start_with?("https"), upstream.tls?
    end
  end

  def test_what_is_no_address_is_refused
    ["", "a", "127.0.0.1:3000", "ftp://a", "http://", "http://a/path", "http://a?b", "http://me@a", "http://me:x@a", "http://a:0",
      "http://a:65536", "http://a:-1", "http://a:80:80", "http://a b", "http://a\r\nb", "http://a\n", "http://::1", "unix:", "unix:a",
      "unix:/a\0b", "http://-a", "http://a:", "http://[::1", "HTTP://a", " http://a"].each do |url|
      error = assert_raises(NeverBlock::ConfigurationError, url) { Upstream.new(url) }
      assert_includes error.message, url.inspect
    end
  end

  def test_timeouts
    timeouts = Upstream.new("http://a", timeouts: {connect: 1, total: 9}).timeouts
    assert_equal [1, 60, 60, 9], timeouts.deconstruct_keys(nil).values_at(:connect, :first_byte, :idle, :total)
    assert_equal 2, timeouts.with(idle: 2).idle
    [0, -1, "1", Float::NAN, Float::INFINITY].each do |seconds|
      error = assert_raises(NeverBlock::ConfigurationError) { Upstream.new("http://a", timeouts: {idle: seconds}) }
      assert_match(/\Atimeouts: idle: .* is not a number of seconds, more than 0, or nil/, error.message)
    end
    assert_raises(ArgumentError) { Upstream.new("http://a", timeouts: {read: 1}) }
  end

  def test_options_of_tls_are_for_https
    assert_raises(NeverBlock::ConfigurationError) { Upstream.new("http://a", ca_file: "/x") }
    assert_raises(NeverBlock::ConfigurationError) { Upstream.new("unix:/a", server_name: "a") }
    assert_raises(NeverBlock::ConfigurationError) { Upstream.new("https://a", server_name: "") }
    error = assert_raises(NeverBlock::ConfigurationError) { Upstream.new("https://a", ca_file: "/does/not/exist") }
    assert_match(/PEM/, error.message)
  end

  def test_options_of_a_pool
    upstream = Upstream.new("http://a")
    [{max_connections: 0}, {max_idle: -1}, {idle_timeout: 0}, {max_age: -1}, {max_waiting: nil}].each do |option|
      assert_raises(NeverBlock::ConfigurationError) { NeverBlock::Proxy::ConnectionPool.new(upstream, **option) }
    end
    pool = NeverBlock::Proxy::ConnectionPool.new(upstream)
    assert_raises(NeverBlock::ConfigurationError) { NeverBlock::Proxy::Exchange.new(pool, NeverBlock::Proxy::Request.new("GET", "/"), max_head: 1) }
  end
end
