# frozen_string_literal: true

# slow: starts servers

require "test_helper"
require "net/http"
require "support/fronted"
require "support/nginx"
require "support/peer"

# Several upstreams, which fail and come back; and upstreams that are servers, and no scripts.
class ProxyUpstreamsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Fronted

  Peer = NeverBlockTest::Peer

  # @return [NeverBlock::Server] with fields of its own in each response
  def back_end(name, port: 0, **directives, &app)
    app ||= ->(env) { [200, {"x-name" => name}, [env["rack.input"].read]] }
    NeverBlock::Server.new(app, bind: "tcp://127.0.0.1:#{port}", error_log: errors, **directives).start.tap { |server| servers << server }
  end

  def url_of(server) = server.addresses.first.sub("tcp:", "http:")

  def test_requests_are_distributed
    back_ends = %w[a b c].map { |name| back_end(name) }
    front_of(back_ends.map { |one| url_of(one) })
    assert_equal({"a" => 3, "b" => 3, "c" => 3}, Array.new(9) { ask(get)["x-name"] }.tally)
  end

  def test_without_a_connection_the_next_one_is_asked
    live = back_end("live")
    front_of(["http://127.0.0.1:#{Peer.free_port}", url_of(live)])
    answers = Array.new(4) { |number| ask(post("/", "content #{number}")) }
    assert_equal Array.new(4) { |number| [200, "live", "content #{number}"] }, answers.map { |answer| [answer.status, answer["x-name"], answer.body] }
    assert_equal [1, 1, true], proxy.stats.values.first.values_at(:connect_failures, :taken_out, :out)
  end

  def test_the_log_has_a_line_when_one_is_left_alone_and_one_when_it_comes_back
    port = Peer.free_port
    url = "http://127.0.0.1:#{port}"
    front_of([url, url_of(back_end("live"))], out_for: 0.05, longest_out: 0.05)
    wait_until("it to be left alone twice") { ask(get) && proxy.stats[url][:taken_out] >= 2 }
    lines = -> { proxy_log.lines(chomp: true).grep(/upstream #{url}: /) }
    assert_match(/\A[^ ]+Z \[#{Process.pid}\] warn: neverblock proxy: upstream #{url}: left alone, for 0\.[01] s at first, since a request failed: can't connect to the upstream #{url}: .*refused/, lines.call.first)
    assert_equal 1, lines.call.size
    back_end("again", port:)
    wait_until("it to respond") { ask(get)["x-name"] == "again" }
    5.times { ask(get) }
    assert_equal ["neverblock proxy: upstream #{url}: requests again, since it has responded"], lines.call.drop(1).map { |line| line[/neverblock.*/] }
  end

  def test_several_failures_in_a_row_are_told_with_the_last
    ill = NeverBlockTest::ScriptedUpstream.new(->(peer) { peer << "nonsense \e[2J\r\n\r\n" while peer.request })
    front_of([ill.url, url_of(back_end("live"))], max_failures: 2)
    4.times { ask(get) }
    assert_match(/neverblock proxy: upstream #{ill.url}: left alone, for [01]\.\d s at first, since 2 requests in a row failed\. The last: upstream #{ill.url}: an invalid response/, proxy_log)
    refute_includes proxy_log, "\e"
  ensure
    ill&.close
  end

  def test_no_upstream_at_all
    front_of(Array.new(4) { "http://127.0.0.1:#{Peer.free_port}" })
    assert_equal 502, ask(get).status
    assert_equal 3, proxy.stats.values.sum { |stats| stats[:connect_failures] } # max_tries
  end

  # Something of it may have been done.
  def test_a_request_that_was_sent_is_not_sent_to_another_one
    first = NeverBlockTest::ScriptedUpstream.new(->(peer) { peer.request })
    second = NeverBlockTest::ScriptedUpstream.new(->(peer) { peer.request })
    front_of([first.url, second.url])
    assert_equal 502, ask(post("/", "x")).status
    assert_equal 1, first.requests.size + second.requests.size
  ensure
    [first, second].each { |one| one&.close }
  end

  # Each restart closes the connections that are kept, and refuses others for a while.
  def test_upstreams_that_restart_under_load
    ports = Array.new(2) { Peer.free_port }
    running = ports.map { |port| back_end(port.to_s, port:) }
    front_of(ports.map { |port| "http://127.0.0.1:#{port}" }, out_for: 0.05, longest_out: 0.1)
    done = false
    statuses = Array.new(4) do
      Thread.new do
        wire = connect
        counts = Hash.new(0)
        counts[(wire << get).answer.status] += 1 until done
        counts
      end
    end
    6.times do |turn|
      index = turn % 2
      before = proxy.stats.values[index][:requests][:"2xx"].to_i
      wait_until("requests for it") { proxy.stats.values[index][:requests][:"2xx"].to_i > before + 20 }
      running[index].stop(timeout: 5)
      running[index] = back_end("again", port: ports[index])
    end
    done = true
    assert_equal [200], statuses.map(&:value).reduce { |one, other| one.merge(other) { |_, a, b| a + b } }.keys
  end

  def test_a_response_of_many_megabytes_and_a_content_of_as_many
    bytes = Random.bytes(8 << 20)
    back = back_end("large") { |env| [200, {}, (env["REQUEST_METHOD"] == "GET") ? bytes.scan(/.{1,100000}/mn) : [env["rack.input"].read.hash.to_s]] }
    front_of(url_of(back))
    assert_equal bytes.hash, ask(get).body.hash
    assert_equal bytes.hash.to_s, ask(post("/", bytes)).body
    assert_equal bytes.hash.to_s, ask(post_chunks("/", bytes.scan(/.{1,50000}/mn))).body
  end

  def test_behind_itself_it_is_a_loop
    port = Peer.free_port
    front_of("http://127.0.0.1:#{port}", server: {bind: "tcp://127.0.0.1:#{port}"})
    answer = ask(get)
    assert_equal [508, "here; error=proxy_loop_detected"], [answer.status, answer["proxy-status"]]
  end

  def test_nginx
    reason = Peer.missing("nginx") and skip reason
    port = Peer.free_port
    peer = Peer.start(signal: "QUIT") do |folder|
      write(folder, port)
      NeverBlockTest::Nginx.command(folder)
    end
    peer.until_ready { Peer.listens?(port) }
    front_of("http://127.0.0.1:#{port}")
    long = ask(get("/long"))
    assert_equal [200, "x" * 500_000], [long.status, long.body]
    assert_equal [206, "xxx"], ask(get("/long", "Range: bytes=0-2")).then { |answer| [answer.status, answer.body] }
    assert_equal 304, ask(get("/long", "If-None-Match: #{long["etag"]}")).status
    assert_equal "GET a b 127.0.0.1", ask(get("/say?a", "X-Say: b")).body
    assert_equal "POST a  127.0.0.1", ask(post_chunks("/say?a", ["x"])).body
    assert_equal 413, ask(post("/say", "x" * 2_000_000)).status
    assert_equal 405, ask(post("/long", "x")).status
    assert_equal "GET  c 127.0.0.1", ask(get("/say", "X-Say: c")).body
  ensure
    peer&.stop
  end

  private

  def write(folder, port)
    File.write("#{folder}/long", "x" * 500_000)
    NeverBlockTest::Nginx.write(folder, <<~NGINX)
      server {
        listen 127.0.0.1:#{port};
        root #{folder};
        location /say { return 200 "$request_method $args $http_x_say $http_x_forwarded_for"; }
      }
    NGINX
  end
end
