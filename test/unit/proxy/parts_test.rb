# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "neverblock/cache"
require "stringio"
require "support/virtual_time"

# The small parts of the reverse proxy.
class ProxyPartsTest < Minitest::Test
  include NeverBlockTest::VirtualTime

  Proxy = NeverBlock::Proxy

  def invalid(*upstreams, **options) = assert_raises(NeverBlock::ConfigurationError) { Proxy.new(*upstreams, **options) }.message

  def test_options_that_are_refused
    url = "http://127.0.0.1:3000"
    assert_match(/needs an upstream/, invalid([]))
    assert_match(/given 2 times/, invalid([url, "#{url}/"]))
    assert_match(/"ftp:\/\/x" is not an address/, invalid("ftp://x"))
    assert_match(/no option :colour\. Its options are host, /, invalid(url, colour: 1))
    {host: :other, hosts: [], forwarded: :some, trusted_clients: ["x"], via: "a b", proxy_status: true, max_request_body: 0, max_response_body: -1,
     upgrades: ["h2c"], tunnel_idle: 0, max_tunnels: 0, max_failures: 0, out_for: "1", max_tries: nil, early_hints: 1,
     balance: :best, hash_by: "a b", hash_load: 0.9, health: true, proxy_protocol: 3}.each do |name, value|
      assert_match(/\A#{name}: /, invalid(url, name => value))
    end
    assert_match(/longest_out: 1 is less than out_for: 2/, invalid(url, out_for: 2, longest_out: 1))
    {path: "up", host: "a/b", every: 0, timeout: "1", fall: 0, rise: nil, status: 100..299}.each do |name, value|
      assert_match(/\Ahealth: #{name}: /, invalid(url, health: {name => value}))
    end
    assert_match(/health: has no option :evry\. Its options are path, host, /, invalid(url, health: {evry: 1}))
    assert_match(/timeouts: has no option :frist_byte\. Its options are connect, first_byte, /, invalid(url, timeouts: {frist_byte: 1}))
    assert_match(/timeouts: 5 is not a Hash/, invalid(url, timeouts: 5))
    assert_match(/\Ahealth: "\/up" is not a Hash, as in \{path: "\/up", every: 5\}, or nil\z/, invalid(url, health: "/up"))
    assert_match(/timeouts: connect:/, invalid(url, timeouts: {connect: -1}))
    assert_match(/max_connections:/, invalid(url, max_connections: 0))
    assert_match(/accel_roots: 5/, invalid(url, accel_roots: 5))
    assert_match(/accel_roots: .*none.* can't be used/, invalid(url, accel_roots: ["/none/such"]))
    assert_match(/must begin and end/, invalid(url, accel_roots: {"files" => Dir.tmpdir}))
  end

  def test_upstreams
    given = Proxy::Upstream.new("unix:/run/app.sock")
    proxy = Proxy.new(["http://127.0.0.1:3000", given], timeouts: {total: 5}, max_connections: 7)
    assert_equal ["http://127.0.0.1:3000", "unix:/run/app.sock"], proxy.upstreams.map(&:url)
    assert_equal [5, nil], proxy.upstreams.map { |upstream| upstream.timeouts.total }
    assert_equal "#<NeverBlock::Proxy http://127.0.0.1:3000, unix:/run/app.sock>", proxy.inspect
  end

  def test_options_of_tls_are_for_those_with_https
    authority = OpenSSL::X509::DEFAULT_CERT_FILE
    assert_equal [false, true], Proxy.new(["http://a", "https://b"], ca_file: authority).upstreams.map(&:tls?)
    assert_match(/are for https:\/\/ alone/, invalid("http://a", ca_file: authority))
  end

  def test_via
    via = Proxy::Via.new("here", [])
    {nil => false, "1.1 other" => false, "1.1 here" => true, "1.0 a, 1.1 HERE (x, y)" => true, "1.1 other (1.1 here, here)" => false, "here" => false, "1.1 herein" => false}.each do |value, found|
      assert_equal found, !!via.loop?(value), value.inspect
    end
    assert via.loop?((["1.1 a"] * 51).join(", "))
    own = Proxy::Via.new(nil, ["http://a:1"])
    assert_match(/\Aneverblock-\h{8}\z/, own.name)
    assert_equal own.name, Proxy::Via.new(nil, ["http://a:1"]).name
    refute_equal own.name, Proxy::Via.new(nil, ["http://a:2"]).name
  end

  # The examples of sections 2.1 and 2.2 of the PROXY protocol's specification.
  def test_prefaces
    preface = Proxy::Preface.method(:call)
    assert_equal "PROXY TCP4 192.0.2.7 0.0.0.0 0 0\r\n", preface.call(1, "192.0.2.7")
    assert_equal "PROXY TCP4 192.0.2.7 0.0.0.0 0 0\r\n", preface.call(1, "::ffff:192.0.2.7")
    assert_equal "PROXY TCP6 2001:db8::1 :: 0 0\r\n", preface.call(1, "2001:db8::1")
    # With UNKNOWN the upstream would take the proxy's address for the client's.
    ["", "0.0.0.0", "localhost", "1.2.3.4\r\n"].each { |none| assert_equal "PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n", preface.call(1, none) }
    assert_equal "PROXY UNKNOWN\r\n", preface.call(1, nil)
    signature = "\r\n\r\n\0\r\nQUIT\n".b
    assert_equal signature + "\x21\x11\0\x0c\xc0\0\2\7#{"\0" * 8}".b, preface.call(2, "192.0.2.7")
    assert_equal signature + "\x21\x21\0\x24#{"\0" * 15}\1#{"\0" * 20}".b, preface.call(2, "::1")
    assert_equal signature + "\x20\0\0\0".b, preface.call(2, nil)
    assert_equal signature + "\x21\x11\0\x0c#{"\0" * 12}".b, preface.call(2, "")
  end

  def test_forwarded
    env = {"REMOTE_ADDR" => "::1", "rack.url_scheme" => "https", "HTTP_HOST" => "a:8080", "HTTP_X_FORWARDED_FOR" => "evil", "HTTP_FORWARDED" => "for=evil"}
    both = Proxy::Forwarded.new(:both, [IPAddr.new("::1")])
    assert_equal [%w[x-forwarded-for ::1], %w[x-forwarded-proto https], %w[x-forwarded-host a:8080], ["forwarded", "for=\"[::1]\";proto=https;host=\"a:8080\""]], both.to_enum(:each, env, false).to_a
    assert both.trusts?(env)
    assert both.trusts?(env.merge("REMOTE_ADDR" => "::1"))
    refute both.trusts?(env.merge("REMOTE_ADDR" => "::2"))
    refute both.trusts?(env.merge("REMOTE_ADDR" => ""))
    assert Proxy::Forwarded.new(:none, [IPAddr.new("10.0.0.0/8")]).trusts?("REMOTE_ADDR" => "::ffff:10.1.1.1")
    assert_empty Proxy::Forwarded.new(:none, []).to_enum(:each, env, false).to_a
  end

  # Without a field an upstream on the same host would take the proxy's address for the client's, and the client for local.
  def test_a_client_without_an_address_is_not_local
    [nil, "", "0.0.0.0", "localhost"].each do |address|
      env = {"REMOTE_ADDR" => address, "rack.url_scheme" => "https", "HTTP_HOST" => "a:8080", "HTTP_X_FORWARDED_FOR" => "1.1.1.1"}
      assert_equal ["for=unknown;proto=https;host=\"a:8080\""], Proxy::Forwarded.new(:forwarded, []).to_enum(:each, env, false).map { |_, value| value }
      fields = Proxy::Forwarded.new(:x_forwarded, [])
      assert_equal %w[0.0.0.0 https a:8080], fields.to_enum(:each, env, false).map { |_, value| value }
      assert_equal "1.1.1.1, 0.0.0.0", fields.to_enum(:each, env, true).to_h.fetch("x-forwarded-for")
    end
  end

  def test_fields_for_a_client
    fields = [%w[connection close,\ x-a], %w[x-a 1], %w[keep-alive 5], %w[set-cookie a], %w[set-cookie b], %w[set-cookie c], %w[content-length 5], %w[rack.hijack x], %w[x-sendfile /a], %w[via x]]
    assert_equal({"set-cookie" => %w[a b c], "via" => "x"}, Proxy::HopByHop.response(fields.flatten))
  end

  # Without these a cache in front would take the response for one that is for all.
  def test_connection_does_not_remove_what_decides_about_sharing
    deciding = NeverBlock::HttpFields::DECISIVE - ["content-length"]
    assert_empty %w[cache-control vary set-cookie pragma content-range authentication-info set-cookie2] - deciding
    fields = [["connection", "#{deciding.join(", ")}, x-a"], *deciding.map { |name| [name, "1"] }, %w[x-a 1]]
    assert_equal deciding.sort, Proxy::HopByHop.response(fields.flatten).keys.sort
  end

  def test_an_input
    input = Proxy::LimitedInput.new(StringIO.new("hello"), 5)
    assert_predicate input, :any?
    assert_equal ["hello", nil], [input.read(100), input.read(100)]
    refute_predicate Proxy::LimitedInput.new(StringIO.new, nil), :any?
    only_read = Class.new { def read(_most) = "abc" }.new
    input = Proxy::LimitedInput.new(only_read, 5)
    assert_equal "abc", input.read(3)
    error = assert_raises(Proxy::LimitedInput::TooLarge) { input.read(3) }
    assert_same error, input.failure
  end

  def test_an_input_that_comes_too_slowly
    slow = Struct.new(:clock) { def read(most) = clock.advance(3) && "x" * most }.new(clock)
    input = Proxy::LimitedInput.new(slow, nil, least: 500)
    3.times { assert_equal 10, input.read(10).bytesize } # three seconds each
    assert_raises(Proxy::LimitedInput::TooSlow) { input.read(10) }
    fast = Proxy::LimitedInput.new(slow, nil, least: 500)
    5.times { assert_equal 2_000, fast.read(2_000).bytesize }
    never = Proxy::LimitedInput.new(slow, nil)
    10.times { assert_equal 10, never.read(10).bytesize }
  end

  def test_lines_are_one_a_second_of_a_kind_and_escaped
    lines = Proxy::ErrorLines.new
    env = {"rack.errors" => log = StringIO.new, "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/\e[31m\n"}
    5.times { lines.write(env, "a", nil, "b\nc\xFF") }
    lines.write(env, "other", nil, "x" * 10_000)
    assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \[#{Process.pid}\] warn: neverblock proxy: a: b/, log.string)
    assert_operator log.string.lines(chomp: true).first, :end_with?, "neverblock proxy: a: b\\x0ac\\xff (GET /\\x1b[31m\\x0a)"
    assert_equal 2, log.string.lines.size
    assert_operator log.string.bytesize, :<, 1_000
  end

  def test_lines_go_to_a_logger
    said = []
    logger = Object.new.tap { |one| one.define_singleton_method(:warn) { |text| said << text } }
    proxy = Proxy.new("http://127.0.0.1:9", hosts: ["a"], log: logger)
    env = {"rack.errors" => errors = StringIO.new, "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/", "HTTP_HOST" => "b"}
    assert_equal 421, proxy.refuse(env).first
    assert_equal [["neverblock proxy: http_request_denied: this host is not served here (GET /)"], ""], [said, errors.string]
    assert_equal 502, Proxy.new("http://127.0.0.1:9", log: Object.new.tap { |one| one.define_singleton_method(:warn) { |_| raise Errno::EPIPE } })
      .call(env.merge("QUERY_STRING" => "", "rack.url_scheme" => "http")).first, "a log that can't be written"
    assert_match(/log: 5 is not an object with warn/, assert_raises(NeverBlock::ConfigurationError) { Proxy.new("http://127.0.0.1:9", log: 5) }.message)
  end

  def test_failures_have_a_status_for_each_error
    errors = ObjectSpace.each_object(Class).select { |kind| kind < Exception && kind.include?(Proxy::Error) && !kind.singleton_class? } - [Proxy::TimeoutError, Proxy::LimitedInput::Refused, Proxy::Accel::Refused, Proxy::Body::TooLarge]
    assert_operator errors.size, :>, 9
    errors.each { |kind| assert_kind_of Proxy::Failure, Proxy::Failure.of(kind.new("x")), kind.name }
    assert_nil Proxy::Failure.of(RuntimeError.new)
  end

  def test_outside_of_a_server
    proxy = Proxy.new("http://127.0.0.1:9")
    env = {"REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/", "QUERY_STRING" => "", "rack.url_scheme" => "http"}
    assert_nil proxy.refuse(env)
    assert_equal 405, proxy.call(env.merge("REQUEST_METHOD" => "CONNECT")).first
    assert_equal 400, proxy.call(env.merge("REQUEST_URI" => "http://b/", "HTTP_HOST" => "a")).first
    assert_nil proxy.refuse(env.merge("REQUEST_URI" => "http://a:80/", "HTTP_HOST" => "A"))
    assert_equal 508, proxy.refuse(env.merge("HTTP_VIA" => "1.1 #{Proxy::Via.new(nil, ["http://127.0.0.1:9"]).name}")).first
    assert_equal 400, proxy.call(env.merge("PATH_INFO" => "/a b")).first
    assert_equal 400, proxy.call(env.merge("rack.input" => StringIO.new("x"), "CONTENT_LENGTH" => "-1")).first
  end
end
