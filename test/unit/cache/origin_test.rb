# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# Scheme and authority of the key, and which proxies tell them.
class CacheOriginTest < Minitest::Test
  Origin = NeverBlock::Cache::Origin
  ENV_ = {"rack.url_scheme" => "http", "HTTP_HOST" => "example.org", "SERVER_NAME" => "internal", "SERVER_PORT" => "9292"}.freeze

  VALID = {
    "example.org" => "example.org", "Example.ORG" => "example.org", "example.org." => "example.org",
    "example.org:80" => "example.org", "example.org.:80" => "example.org", "example.org:8080" => "example.org:8080",
    "example.org:443" => "example.org:443", "localhost" => "localhost", "a_b-c.example" => "a_b-c.example",
    "xn--bcher-kva.example" => "xn--bcher-kva.example", "127.0.0.1:3000" => "127.0.0.1:3000", "1" => "1",
    "[::1]" => "[::1]", "[::1]:80" => "[::1]", "[2001:DB8::1]:8080" => "[2001:db8::1]:8080", "[::]" => "[::]",
    "[1:2:3:4:5:6:7:8]" => "[1:2:3:4:5:6:7:8]", "[::ffff:1.2.3.4]" => "[::ffff:1.2.3.4]",
    "[1:2:3:4:5:6:1.2.3.4]" => "[1:2:3:4:5:6:1.2.3.4]", "a:65535" => "a:65535", "a" * 255 => "a" * 255
  }.freeze

  INVALID = [
    "", " ", ".", "..", "example..org", ".example.org", "example.org..", "example.org:", "example.org:0", "example.org:00080",
    "example.org:080", "example.org:65536", "example.org:999999", "example.org:+80", "example.org:8_0", "example.org: 80",
    "example.org:80:80", "user@example.org", "user:pass@example.org", "example.org/path", "example.org?x", "example.org#x",
    "example.org\\evil", "example.org, evil.org", "example.org evil.org", " example.org", "example.org ", "example.org\n",
    "example.org\r\nX: y", "example.org\x00", "example%2eorg", "ex%61mple.org", "exämple.org", "\xff", "a'b", "a\"b", "<script>",
    "a;b", "a!b", "a$b", "*", "*.example.org", "[::1", "::1", "[]", "[::1]x", "[::1].", "[:::]", "[1::2::3]", "[1:2:3:4:5:6:7]",
    "[1:2:3:4:5:6:7:8:9]", "[1:2:3:4:5:6:7::8:9]", "[g::1]", "[12345::]", "[::1%25eth0]", "[v1.x]", "[1.2.3.4]", "[::999.1.1.1]",
    "[::1.2.3]", "[::1.2.3.4.5]", "a" * 256, "a." * 200, "a" * 100_000
  ].freeze

  def test_authorities
    VALID.each { |text, authority| assert_equal authority, Origin.authority(text, "http"), text }
    INVALID.each { |text| assert_nil Origin.authority(text, "http"), text.inspect[0, 60] }
    assert_nil Origin.authority(nil, "http")
  end

  def test_the_default_port_is_that_of_the_scheme
    assert_equal "example.org", Origin.authority("example.org:443", "https")
    assert_equal "example.org:80", Origin.authority("example.org:80", "https")
  end

  def test_hostile_authorities_take_linear_time
    ["a-" * 100_000 + "!", "a." * 100_000 + "!", "[" + ":" * 100_000, "[" + "1:" * 100_000 + "]"]
      .each { |text| assert_nil Origin.authority(text, "http") }
  end

  def test_the_host_field_counts_and_not_the_servers_name
    assert_equal "http://example.org", Origin.of(ENV_)
    assert_nil Origin.of({**ENV_, "HTTP_HOST" => ""})
    assert_nil Origin.of({**ENV_, "HTTP_HOST" => "a, b"})
  end

  def test_the_servers_name_counts_without_a_host_field
    env = ENV_.except("HTTP_HOST")
    assert_equal "http://internal:9292", Origin.of(env)
    assert_equal "http://internal", Origin.of({**env, "SERVER_PORT" => "80"})
    assert_equal "http://[::1]:9292", Origin.of({**env, "SERVER_NAME" => "::1"})
    assert_equal "http://internal:9292", Origin.of({**env, "HTTP_HOST" => nil})
    assert_nil Origin.of({"rack.url_scheme" => "http"})
  end

  def test_schemes
    assert_equal "https://example.org", Origin.of({**ENV_, "rack.url_scheme" => "https"})
    assert_equal "https://example.org:80", Origin.of({**ENV_, "HTTP_HOST" => "example.org:80"}, scheme: "https")
    ["HTTP", "ws", "ftp", "", nil, "http:"].each { |scheme| assert_nil Origin.of({**ENV_, "rack.url_scheme" => scheme}) }
  end

  # What proxies tell => the origin if they are trusted.
  TOLD = {
    {"HTTP_X_FORWARDED_HOST" => "Shop.example"} => "http://shop.example",
    {"HTTP_X_FORWARDED_HOST" => "shop.example:8080"} => "http://shop.example:8080",
    {"HTTP_X_FORWARDED_PROTO" => "https"} => "https://example.org",
    {"HTTP_X_FORWARDED_PROTO" => "HTTPS, https"} => "https://example.org",
    {"HTTP_X_FORWARDED_SCHEME" => "https"} => "https://example.org",
    {"HTTP_X_FORWARDED_SSL" => "on"} => "https://example.org",
    {"HTTP_X_FORWARDED_PROTO" => "https", "HTTP_X_FORWARDED_SSL" => "on", "HTTP_X_FORWARDED_PORT" => "443"} => "https://example.org",
    {"HTTP_X_FORWARDED_PORT" => "8443"} => "http://example.org:8443",
    {"HTTP_X_FORWARDED_HOST" => "a:1", "HTTP_X_FORWARDED_PORT" => "2"} => "http://a:1",
    {"HTTP_FORWARDED" => 'for="[::1]:5";proto=https;host="shop.example:8443"'} => "https://shop.example:8443",
    {"HTTP_FORWARDED" => "for=1.2.3.4; Host=shop.example;Proto=HTTPS"} => "https://shop.example",
    {"HTTP_X_FORWARDED_HOST" => "a, b"} => nil,
    {"HTTP_X_FORWARDED_HOST" => "a", "HTTP_FORWARDED" => "host=b"} => nil,
    {"HTTP_FORWARDED" => "host=a, host=b"} => nil,
    {"HTTP_X_FORWARDED_PROTO" => "https, http"} => nil,
    {"HTTP_X_FORWARDED_PROTO" => "https", "HTTP_X_FORWARDED_SSL" => "off"} => nil,
    {"HTTP_X_FORWARDED_PROTO" => "javascript"} => nil,
    {"HTTP_X_FORWARDED_HOST" => "evil.org/x"} => nil,
    {"HTTP_X_FORWARDED_HOST" => "ev\xffl"} => nil,
    {"HTTP_X_FORWARDED_PORT" => "80, 81"} => nil,
    {"HTTP_X_FORWARDED_PORT" => "0x50"} => nil,
    {"HTTP_X_FORWARDED_PORT" => "99999"} => nil
  }.freeze

  def test_trusted_proxies_are_believed_if_they_agree
    TOLD.each do |told, origin|
      found = Origin.of({**ENV_, **told}, trusted: true)
      origin ? assert_equal(origin, found, told) : assert_nil(found, told)
    end
  end

  def test_proxies_that_are_not_trusted_are_not_believed
    TOLD.each_key do |told|
      assert_equal "http://example.org", Origin.of({**ENV_, **told}), told
      assert Origin.disputed?({**ENV_, **told}), told
    end
  end

  def test_what_agrees_with_the_url_is_not_disputed
    [
      {}, {"HTTP_X_FORWARDED_FOR" => "1.2.3.4"}, {"HTTP_X_FORWARDED_HOST" => "example.org"}, {"HTTP_X_FORWARDED_PROTO" => "http"},
      {"HTTP_X_FORWARDED_HOST" => "EXAMPLE.org:80", "HTTP_X_FORWARDED_PORT" => "80"}, {"HTTP_X_FORWARDED_SSL" => "off"},
      {"HTTP_FORWARDED" => "for=1.2.3.4"}, {"HTTP_FORWARDED" => "for=1.2.3.4;proto=http;host=example.org"}
    ].each { |told| refute Origin.disputed?({**ENV_, **told}), told }
  end

  def test_a_scheme_for_all_requests_can_be_disputed_too
    refute Origin.disputed?({**ENV_, "HTTP_X_FORWARDED_PROTO" => "https"}, scheme: "https")
    assert Origin.disputed?({**ENV_, "HTTP_X_FORWARDED_PROTO" => "http"}, scheme: "https")
    refute Origin.disputed?({**ENV_, "HTTP_X_FORWARDED_HOST" => "example.org"}, scheme: "https")
  end

  def test_plain
    [{}, {"HTTP_HOST" => "example.org:8080"}, {"HTTP_HOST" => nil}].each { |more| assert Origin.plain?({**ENV_, **more}), more }
    ["EXAMPLE.org", "example.org.", "example.org:80", "", "a b"].each { |host| refute Origin.plain?({**ENV_, "HTTP_HOST" => host}), host }
  end
end
