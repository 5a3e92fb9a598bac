# frozen_string_literal: true

require "test_helper"
require "support/served"
require "json"
require "rack"

# The client of a request, as proxies report it. A PROXY header can give the connection any peer.
class ServerTrustedProxiesTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  PROXY, STRANGER, CLIENT = "10.0.0.1", "203.0.113.66", "192.0.2.1"
  TRUSTED = ["10.0.0.0/8", "198.51.100.7", "2001:db8:1::/48"].freeze
  SEEN = %w[REMOTE_ADDR HTTP_X_FORWARDED_FOR HTTP_FORWARDED rack.url_scheme HTTPS SERVER_PORT HTTP_X_FORWARDED_PROTO
    HTTP_X_FORWARDED_SSL HTTP_X_FORWARDED_SCHEME HTTP_X_FORWARDED_HOST].freeze
  TELL = lambda do |env|
    request = Rack::Request.new(env)
    rack = {"ip" => request.ip, "scheme" => request.scheme}
    [200, {}, [env.slice(*SEEN).merge(rack, "all" => env.keys.grep(/FORWARDED|IP\z|START/)).to_json]]
  end

  # The list, and the client that results from it; nil: there is no list, so the proxy itself.
  {
    "192.0.2.1" => CLIENT, "192.0.2.1, 10.0.0.2" => CLIENT, "192.0.2.1,10.9.9.9 ,\t198.51.100.7" => CLIENT,
    "203.0.113.9, 192.0.2.1" => CLIENT, "10.0.0.9, 192.0.2.1, 10.0.0.2" => CLIENT, "garbage, 192.0.2.1" => CLIENT,
    "192.0.2.1:4711" => CLIENT, "192.0.2.1:4711, 10.0.0.2:80" => CLIENT, "192.0.2.1,," => CLIENT, ",192.0.2.1" => CLIENT,
    "2001:db8::1" => "2001:db8::1", "[2001:db8::1]" => "2001:db8::1", "[2001:DB8::1]:4711, 2001:db8:1::5" => "2001:db8::1",
    "::ffff:192.0.2.1" => CLIENT, "10.0.0.3, 10.0.0.2" => "10.0.0.3", "198.51.100.7" => "198.51.100.7",
    "192.168.1.5" => "192.168.1.5", "203.0.113.9, 192.168.1.5, 10.0.0.2" => "192.168.1.5",
    "192.0.2.1, garbage" => nil, "192.0.2.1, garbage, 10.0.0.2" => "10.0.0.2", "" => nil, "," => nil, "unknown" => nil,
    "192.0.2.01" => nil, "192.0.2.1:" => nil, "192.0.2.1:port" => nil, "192.0.2.1:123456" => nil, "[192.0.2.1]" => nil, "[::1" => nil,
    "[::1]80" => nil, "192.0.2.1/32" => nil, "1" * 60 => nil, "192.0.2.1 10.0.0.2" => nil, "\"192.0.2.1\"" => nil, "fe80::1%eth0" => nil,
    "\xFF" => nil
  }.each do |list, client|
    define_method(:"test_list_#{list.dump}") do
      seen = tell(PROXY, "X-Forwarded-For: #{list}".b)
      assert_equal [client || PROXY, client], seen.values_at("REMOTE_ADDR", "HTTP_X_FORWARDED_FOR")
      assert_equal client || PROXY, seen["ip"]
      assert_equal seen, tell(PROXY, *list.b.split(",", -1).map { |part| "x-forwarded-FOR: #{part}".b }) unless list.empty?
    end
  end

  # The same with the field of RFC 7239: the client, the scheme and the rest of the list.
  {
    "for=192.0.2.1" => [CLIENT, "http", "for=192.0.2.1"],
    "For=\"192.0.2.1:4711\";Proto=HTTPS;by=_x" => [CLIENT, "https", "For=\"192.0.2.1:4711\";Proto=HTTPS;by=_x"],
    "for=\"[2001:db8::1]\" ; proto=http" => ["2001:db8::1", "http", "for=\"[2001:db8::1]\" ; proto=http"],
    "for=[2001:db8::1]:80" => ["2001:db8::1", "http", "for=[2001:db8::1]:80"],
    "for=192.0.2.1;proto=https, for=10.0.0.2;proto=http" => [CLIENT, "https", "for=192.0.2.1;proto=https"],
    "for=203.0.113.9;proto=https, for=192.0.2.1" => [CLIENT, "http", "for=192.0.2.1"],
    "for=\"203.0.113.9, for=192.0.2.1" => [CLIENT, "http", "for=192.0.2.1"],
    "for=203.0.113.9;by=\", for=\"192.0.2.1\"" => [CLIENT, "http", "for=\"192.0.2.1\""],
    "host=\"a,b\\\",c\";for=192.0.2.1" => [CLIENT, "http", "host=\"a,b\\\",c\";for=192.0.2.1"],
    ";;for=192.0.2.1;;" => [CLIENT, "http", ";;for=192.0.2.1;;"],
    "for=10.0.0.3, for=10.0.0.2" => ["10.0.0.3", "http", "for=10.0.0.3"],
    "for=unknown, for=10.0.0.2" => ["10.0.0.2", "http", "for=10.0.0.2"],
    "for=\"2001:db8::1\"" => nil, "for=unknown" => nil, "for=_hidden" => nil, "proto=https" => nil, "192.0.2.1" => nil, "for" => nil, "for=" => nil, "=192.0.2.1" => nil,
    "for=192.0.2.1;for=203.0.113.9" => nil, "for=192.0.2.1 proto=https" => nil, "for=\"192.0.2.1" => nil, "for=192.0.2.1;proto=\"" => nil,
    "for=\"192.0.2.1\"proto=https" => nil, "for=\"192.0.2.1\\" => nil, "" => nil
  }.each do |field, expected|
    define_method(:"test_field_#{field.dump}") do
      seen = tell(PROXY, "Forwarded: #{field}", field: :forwarded)
      assert_equal expected || [PROXY, "http", nil], seen.values_at("REMOTE_ADDR", "rack.url_scheme", "HTTP_FORWARDED")
      assert_equal expected&.first || PROXY, seen["ip"]
      assert_equal seen["rack.url_scheme"], seen["scheme"]
    end
  end

  {
    "https" => "https", "HTTPS" => "https", "http, https" => "https", "https, http" => "http", "https,gopher" => "https", "wss" => "https",
    "ws" => "http", "http" => "http", "gopher" => "http", "" => "http", "httpsx" => "http"
  }.each do |said, scheme|
    define_method(:"test_scheme_#{said.dump}") do
      seen = tell(PROXY, "X-Forwarded-Proto: #{said}", "X-Forwarded-Ssl: on", "X-Forwarded-Scheme: https")
      secure = scheme == "https"
      assert_equal [scheme, scheme, (secure ? "on" : nil), secure ? "443" : "80"], seen.values_at("rack.url_scheme", "scheme", "HTTPS", "SERVER_PORT")
      assert_equal [nil, nil], seen.values_at("HTTP_X_FORWARDED_SSL", "HTTP_X_FORWARDED_SCHEME")
    end
  end

  def test_a_port_that_the_request_names
    assert_equal "8443", tell(PROXY, "X-Forwarded-Proto: https", host: "example.org:8443")["SERVER_PORT"]
  end

  OF_PROXIES = ["Forwarded: for=1.1.1.1", "X-Forwarded-For: 1.1.1.1", "x-forwarded-proto: https", "X-Forwarded-Host: evil", "X-FORWARDED-PORT: 1",
    "X-Forwarded-Anything-At-All: 1", "X-Forwarded-Ssl: on", "X-Real-IP: 1.1.1.1", "Client-IP: 1.1.1.1", "X-Client-IP: 1.1.1.1",
    "True-Client-IP: 1.1.1.1", "CF-Connecting-IP: 1.1.1.1", "X-Request-Start: t=1", "X_Forwarded_For: 1.1.1.1", "X_FORWARDED-Proto: https",
    "X_Real-IP: 1.1.1.1"].freeze

  %i[x_forwarded forwarded].each do |field|
    define_method(:"test_nobody_forges_where_#{field}_counts") do
      seen = tell(STRANGER, *OF_PROXIES, "X-Forwarde: kept", field:, underscore_headers: :pass)
      assert_equal [STRANGER, STRANGER, "http", "http"], seen.values_at("REMOTE_ADDR", "ip", "rack.url_scheme", "scheme")
      assert_empty seen["all"]
    end
  end

  def test_fields_of_a_trusted_proxy
    fields = OF_PROXIES - ["X-Forwarded-Ssl: on"]
    seen = tell(PROXY, *fields, underscore_headers: :pass)
    assert_equal ["1.1.1.1", "https", "evil", nil], seen.values_at("REMOTE_ADDR", "scheme", "HTTP_X_FORWARDED_HOST", "HTTP_FORWARDED")
    assert_equal ["1.1.1.1", "https"], seen.values_at("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO"), "names with underscores add nothing"
    seen = tell(PROXY, *fields, field: :forwarded, underscore_headers: :pass)
    assert_equal ["1.1.1.1", "http", nil, nil], seen.values_at("REMOTE_ADDR", "scheme", "HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_FOR")
  end

  def test_without_a_trusted_proxy_all_fields_are_left_as_they_are
    serve(TELL)
    seen = JSON.parse(ask(get("/", *OF_PROXIES)).body)
    assert_equal ["127.0.0.1", "for=1.1.1.1", "1.1.1.1", "http"], seen.values_at("REMOTE_ADDR", "HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "rack.url_scheme")
    assert_equal 13, seen["all"].size
  end

  def test_the_client_behind_a_unix_socket
    @folder = Dir.mktmpdir("nb")
    {["unix"] => CLIENT, ["127.0.0.0/8"] => "127.0.0.1"}.each do |trusted_proxies, expected|
      serve(TELL, bind: "unix://#{@folder}/#{expected}", trusted_proxies:)
      assert_equal expected, JSON.parse(ask(get("/", "X-Forwarded-For: #{CLIENT}")).body)["REMOTE_ADDR"]
    end
  end

  def test_the_peer_of_a_proxy_header_is_not_the_socket
    serve(TELL, bind: "unix://#{@folder = Dir.mktmpdir("nb")}/s?proxy=required", trusted_proxies: ["unix"])
    forwarded = get("/", "X-Forwarded-For: #{CLIENT}")
    assert_equal STRANGER, JSON.parse(ask("PROXY TCP4 #{STRANGER} 10.0.0.1 1 2\r\n" + forwarded).body)["REMOTE_ADDR"]
    assert_equal CLIENT, JSON.parse(ask("PROXY UNKNOWN\r\n" + forwarded).body)["REMOTE_ADDR"]
  end

  def test_over_tcp_without_a_proxy_header
    serve(TELL, trusted_proxies: "127.0.0.1")
    assert_equal CLIENT, JSON.parse(ask(get("/", "X-Forwarded-For: #{CLIENT}")).body)["REMOTE_ADDR"]
  end

  def test_all_networks
    serve(TELL, bind: "tcp://127.0.0.1:0?proxy=required", trusted_proxies: ["::/0", "0.0.0.0/0"])
    [STRANGER, "2001:db8::5"].each { |peer| assert_equal "9.9.9.9", told(peer, "X-Forwarded-For: 9.9.9.9, 8.8.8.8")["REMOTE_ADDR"] }
  end

  # Networks that don't end at a byte.
  def test_the_edges_of_a_network
    serve(TELL, bind: "tcp://127.0.0.1:0?proxy=required", trusted_proxies: ["192.0.2.8/29", "2001:db8::/33"])
    {"192.0.2.7" => false, "192.0.2.8" => true, "192.0.2.15" => true, "192.0.2.16" => false, "2001:db8:7fff::1" => true, "2001:db8:8000::" => false}.each do |peer, trusted|
      assert_equal trusted ? "9.9.9.9" : peer, told(peer, "X-Forwarded-For: 9.9.9.9")["REMOTE_ADDR"]
    end
  end

  def test_the_access_log
    lines = StringIO.new
    serve(trusted_proxies: "127.0.0.1", access_log: :common, access_log_to: lines)
    ask(get("/", "X-Forwarded-For: evil, #{CLIENT}"))
    assert server.stop
    assert_match(/\A192\.0\.2\.1 - - /, lines.string)
  end

  slow "it collects garbage at each allocation"
  def test_a_collection_at_every_allocation
    serve(TELL, trusted_proxies: "127.0.0.1", head_timeout: 60)
    GC.stress = 1
    seen = JSON.parse(ask(get("/", "X-Forwarded-For: evil, #{CLIENT}", "X-Forwarded-Proto: https")).body)
    assert_equal [CLIENT, CLIENT, "https"], seen.values_at("REMOTE_ADDR", "HTTP_X_FORWARDED_FOR", "scheme")
  ensure
    GC.stress = false
  end

  private

  # The app's view of a request from this peer.
  def tell(peer, *lines, field: :x_forwarded, host: "example.org", **)
    serve(TELL, bind: "tcp://127.0.0.1:0?proxy=required", trusted_proxies: TRUSTED, trusted_proxies_field: field, **)
    told(peer, *lines, host:)
  end

  def told(peer, *lines, **)
    family = peer.include?(":") ? "TCP6 #{peer} ::1" : "TCP4 #{peer} 127.0.0.1"
    JSON.parse(ask("PROXY #{family} 4711 80\r\n" + get("/", *lines, **)).body)
  end
end
