# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "neverblock/server/address"

class ServerAddressTest < Minitest::Test
  Address = NeverBlock::Server::Address

  {
    "tcp://127.0.0.1:3000" => ["127.0.0.1", 3000, "tcp://127.0.0.1:3000"],
    "tcp://localhost:0/" => ["localhost", 0, "tcp://localhost:0"],
    "tcp://a-b.example_1.com:65535" => ["a-b.example_1.com", 65_535, "tcp://a-b.example_1.com:65535"],
    "tcp://[::1]:80" => ["::1", 80, "tcp://[::1]:80"],
    "tcp://[::ffff:1.2.3.4]:80" => ["::ffff:1.2.3.4", 80, "tcp://[::ffff:1.2.3.4]:80"],
    "tcp://[fe80::1%eth0]:80" => ["fe80::1%eth0", 80, "tcp://[fe80::1%eth0]:80"]
  }.each do |text, (host, port, shown)|
    define_method(:"test_#{text}") do
      address = Address.parse(text)
      assert_equal [host, port, nil, shown], [address.host, address.port, address.path, address.to_s]
      refute_predicate address, :unix?
    end
  end

  def test_unix
    address = Address.parse("unix:///run/app.sock?mode=0660&owner=app&group=www-data")
    assert_equal ["/run/app.sock", 0o660, "app", "www-data"], [address.path, address.mode, address.owner, address.group]
    assert_equal "unix:///run/app.sock", address.to_s
    assert_predicate address, :unix?
    assert_equal [nil, nil, nil, false], Address.parse("unix:///a").then { |plain| [plain.mode, plain.owner, plain.group, plain.proxy] }
    assert_equal 0o600, Address.parse("unix:///a?mode=600").mode
  end

  def test_a_proxy_header
    %w[tcp://127.0.0.1:80 tcp://[::1]:80 unix:///run/app.sock].each do |place|
      address = Address.parse("#{place}?proxy=required")
      assert address.proxy
      assert_equal "#{place}?proxy=required", address.to_s
      [place, "#{place}?proxy=off", "#{place}?"].each { |text| assert_equal [false, place], Address.parse(text).then { |one| [one.proxy, one.to_s] } }
    end
    address = Address.parse("unix:///a?proxy=required&mode=0600")
    assert_equal [true, 0o600], [address.proxy, address.mode]
    assert_equal "tcp://a:80?proxy=required", Address.parse("tcp://a:80/?proxy=required").to_s
  end

  def test_valid_and_invalid_queries
    assert_equal "an address of TCP has proxy=, but no mode=", assert_raises(Address::Malformed) { Address.parse("tcp://a:1?mode=0660") }.message
    assert_equal "proxy=maybe is neither proxy=required nor proxy=off", assert_raises(Address::Malformed) { Address.parse("tcp://a:1?proxy=maybe") }.message
  end

  def test_relative_paths_are_refused_with_what_was_meant
    ["unix://tmp/a.sock", "unix:tmp/a.sock"].each do |text|
      error = assert_raises(Address::Malformed) { Address.parse(text) }
      assert_equal "tmp/a.sock is not an absolute path. Write unix://#{Dir.pwd}/tmp/a.sock", error.message
    end
    assert_equal "/tmp/a.sock", Address.parse("unix:/tmp/b/../a.sock").path
  end

  ["", "3000", ":3000", "localhost:3000", "tcp:/a:1", "http://a:1", "ssl://a:1", "tcp://", "tcp://:1", "tcp://a", "tcp://a:", "tcp://a:b",
    "tcp://a:-1", "tcp://a:65536", "tcp://a:1/x", "tcp://a:1?x=y", "tcp://a:1?proxy", "tcp://a?proxy=required:1", "unix:///a?proxy=on", "tcp://::1:80", "tcp://[::1:80", "tcp://[a]:80", "tcp://a b:80",
    "tcp://a:1\ntcp://b:2", " tcp://a:1", "unix://", "unix:///", "unix:///a\0b", "unix:///a?mode=9", "unix:///a?mode=0999",
    "unix:///a?mode=", "unix:///a?backlog=3", "unix:///#{"a" * 200}"].each do |text|
    define_method(:"test_refuses_#{text.inspect}") do
      error = assert_raises(Address::Malformed) { Address.parse(text) }
      refute_empty error.message
    end
  end

  def test_an_address_for_tls_is_refused_with_the_remedy
    ["ssl://0.0.0.0:443?key=a&cert=b", "tls://a:1", "https://a:1"].each do |text|
      message = assert_raises(Address::Malformed) { Address.parse(text) }.message
      assert_match(/\ANeverBlock has neither TLS nor HTTP\/2\. Put nginx, HAProxy or Thruster in front/, message)
      page, anchor = message[/docs\/\S+/].split("#")
      assert_includes File.read(File.join(NeverBlockTest::ROOT, page)).scan(/^#+ (.*)$/).flatten.map { |title| title.downcase.tr(" ", "-").delete("^a-z0-9-") }, anchor
    end
  end

  def test_the_longest_path
    path = "/#{"a" * (Address::LONGEST_PATH - 1)}"
    assert_equal path, Address.parse("unix://#{path}").path
    assert_raises(Address::Malformed) { Address.parse("unix://#{path}a") }
  end
end
