# frozen_string_literal: true

# slow: starts servers

require "test_helper"
require "support/fronted"
require "support/peer"

# Checks of upstreams, and what an upstream learns by the PROXY protocol.
class ProxyHealthTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Fronted

  OFTEN = {path: "/up", every: 0.02, timeout: 1, fall: 2, rise: 2}.freeze

  # @return [NeverBlock::Server]
  def back_end(name, **directives, &check)
    check ||= -> { 200 }
    app = ->(env) { (env["PATH_INFO"] == "/up") ? check.call.then { |status| [status, {"location" => "/"}, ["x" * 10]] } : [200, {"x-name" => name}, [env["REMOTE_ADDR"]]] }
    NeverBlock::Server.new(app, bind: "tcp://127.0.0.1:0", error_log: errors, **directives).start.tap { |server| servers << server }
  end

  def url_of(server) = server.addresses.first.sub(/\?.*/, "").sub("tcp:", "http:")

  def names(count = 6) = Array.new(count) { ask(get)["x-name"] }.uniq.sort

  def down = proxy.stats.values.map { |stats| stats[:down] }

  def test_one_that_says_so_gets_no_requests_until_it_is_well
    status = 200
    front_of([url_of(back_end("a") { status }), url_of(back_end("b"))], health: OFTEN)
    assert_equal %w[a b], names
    said = with_standard_error do
      status = 503
      wait_until("a down") { down == [true, false] }
      assert_equal %w[b], names
      status = 200
      wait_until("a up") { down == [false, false] }
    end
    assert_equal %w[a b], names
    assert_match(/^[^ ]+Z \[#{Process.pid}\] warn: neverblock proxy: upstream http:.*: no more requests, since 2 checks of GET \/up failed\. The last: its status is 503\n.*: requests again, since 2 checks of GET \/up passed\n/, said)
    assert_operator proxy.stats.values.first[:checks_failed], :>=, 2
  end

  def test_a_redirect_is_not_followed
    front_of([url_of(back_end("a") { 302 }), url_of(back_end("b"))], health: OFTEN)
    with_standard_error do
      ask(get)
      wait_until("a down") { down == [true, false] }
    end
  end

  def test_a_silent_one_a_dead_one_and_one_that_sends_without_end
    silent = NeverBlockTest::ScriptedUpstream.new(->(peer) { peer.request and peer.ended? })
    dead = "http://127.0.0.1:#{NeverBlockTest::Peer.free_port}"
    endless = NeverBlockTest::ScriptedUpstream.new(->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\n\r\n" and loop { peer << "x" * 10_000 } })
    front_of([silent.url, dead, url_of(back_end("b")), endless.url], health: {**OFTEN, timeout: 0.1}, balance: :hash)
    said = with_standard_error do
      connect << get # the endless one may have it
      wait_until("two down") { down == [true, true, false, false] }
    end
    assert_match(/#{silent.url}: .*did not end within 0\.1 s/, said)
    assert_match(/#{dead}: .*refused/, said)
  ensure
    proxy.close
    [silent, endless].each(&:close)
  end

  def test_a_closed_proxy_checks_nothing_and_a_child_of_its_own
    back = back_end("a")
    front_of(url_of(back), health: OFTEN)
    ask(get)
    wait_until("checks") { proxy.stats.values.first[:checks_passed] > 1 }
    proxy.close
    count = proxy.stats.values.first[:checks_passed]
    refute(Thread.list.any? { |thread| thread.name == "NeverBlock::Proxy::Health" })
    assert_equal count, proxy.stats.values.first[:checks_passed]
  end

  def test_keys_of_urls_have_their_upstream
    front_of(%w[a b c].map { |name| url_of(back_end(name)) }, balance: :hash)
    owners = Array.new(20) { |number| ask(get("/#{number}"))["x-name"] }
    assert_equal %w[a b c], owners.uniq.sort
    assert_equal owners, Array.new(20) { |number| ask(get("/#{number}"))["x-name"] }
  end

  [1, 2].each do |version|
    define_method("test_the_proxy_protocol_#{version}_names_the_client") do
      back = NeverBlock::Server.new(->(env) { [200, {}, [env["REMOTE_ADDR"]]] }, bind: "tcp://127.0.0.1:0?proxy=required", error_log: errors).start
      servers << back
      wrap = ->(proxy) { ->(env) { proxy.call(env.merge("REMOTE_ADDR" => env["QUERY_STRING"])) } }
      front_of(url_of(back), wrap:, proxy_protocol: version)
      addresses = ["192.0.2.7", "2001:db8::9", "192.0.2.8", ""] # the last one: of a unix socket
      assert_equal %w[192.0.2.7 2001:db8::9 192.0.2.8 0.0.0.0], addresses.map { |address| ask(get("/?#{address}")).body }
      assert_equal [4, 0], proxy.stats.values.first[:connections].values_at(:opened, :idle)
    end
  end

  private

  # @return [String] what was written to it
  def with_standard_error
    before, $stderr = $stderr, StringIO.new
    yield
    $stderr.string
  ensure
    $stderr = before
  end
end
