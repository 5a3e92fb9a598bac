# frozen_string_literal: true

require "test_helper"
require "support/fronted"
require "support/served_in_time"
require "support/peer"

# The reverse proxy in our server: what the upstream gets of a request, and what the client gets of a response.
class ProxyTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Fronted
  include NeverBlockTest::ServedInTime

  def respond(head = "200 OK", *lines, body: "ok", close: false)
    bytes = ["HTTP/1.1 #{head}", *lines, *("Content-Length: #{body.bytesize}" if body), "", body].join("\r\n")
    ->(peer) { peer << bytes while peer.request && !close }
  end

  # ---- requests ----

  def test_target_and_fields
    front(KEEP)
    answer = ask(get("/a%2Fb//c;d?x=%20&y", "Accept: text/html", "X-Own: 1", "Cookie: a=b", "Cookie: c=d"))
    assert_equal [200, "ok"], [answer.status, answer.body]
    assert_equal "GET /a%2Fb//c;d?x=%20&y HTTP/1.1", sent.lines(chomp: true).first
    assert_equal({"accept" => "text/html", "x-own" => "1", "cookie" => "a=b; c=d", "host" => "example.org", "via" => "1.1 here",
      "x-forwarded-for" => "127.0.0.1", "x-forwarded-proto" => "http", "x-forwarded-host" => "example.org"}, sent_fields)
  end

  def test_an_empty_query_stays
    front(KEEP)
    ask(get("/a?"))
    assert_equal "GET /a? HTTP/1.1", sent.lines(chomp: true).first
  end

  def test_the_path_at_which_it_is_mounted_stays
    front(KEEP, wrap: ->(proxy) { ->(env) { proxy.call(env.merge("SCRIPT_NAME" => "/api", "PATH_INFO" => env["PATH_INFO"].delete_prefix("/api"))) } })
    ask(get("/api/v1?a"))
    assert_equal "GET /api/v1?a HTTP/1.1", sent.lines(chomp: true).first
  end

  def test_options_for_the_whole_server
    front(KEEP)
    ask(request("OPTIONS", "*"))
    assert_equal "OPTIONS * HTTP/1.1", sent.lines(chomp: true).first
  end

  def test_an_unknown_method_is_passed_on
    front(KEEP)
    assert_equal 200, ask(request("PURGE", "/a")).status
    assert_equal "PURGE /a HTTP/1.1", sent.lines(chomp: true).first
  end

  def test_fields_between_two_neighbours_and_those_that_connection_names_are_removed
    front(KEEP)
    lines = ["Connection: keep-alive, X-Trace, Via", "X-Trace: 1", "Keep-Alive: 5", "Proxy-Authorization: x", "Proxy-Connection: x", "Upgrade: h2c", "HTTP2-Settings: x", "Trailer: a"]
    ask(get("/", *lines, "TE: gzip"))
    assert_equal %w[host via x-forwarded-for x-forwarded-host x-forwarded-proto], sent_fields.keys.sort
    assert_equal "1.1 here", sent_fields["via"]
    ask(get("/", *lines, "TE: gzip, trailers")) # what the proxy itself understands is said anew
    assert_equal %w[connection host te via x-forwarded-for x-forwarded-host x-forwarded-proto], sent_fields.keys.sort
    assert_equal %w[TE trailers], sent_fields.values_at("connection", "te")
  end

  def test_instructions_for_a_proxy_are_stripped_from_clients
    front(KEEP)
    ask(get("/", "X-Accel-Redirect: /x", "X-Sendfile: /x", "X-Sendfile-Type: X-Accel-Redirect", "X-Accel-Mapping: /=/", "X-Accel-Buffering: no", "Proxy: http://evil"))
    assert_equal %w[host via x-forwarded-for x-forwarded-host x-forwarded-proto], sent_fields.keys.sort
  end

  def test_what_an_unknown_client_says_about_others_is_dropped
    front(KEEP)
    claims = ["Forwarded: for=1.1.1.1", "X-Forwarded-For: 1.1.1.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil", "X-Forwarded-Port: 1", "X-Real-IP: 1.1.1.1", "Client-IP: 1.1.1.1", "CF-Connecting-IP: 1.1.1.1"]
    ask(get("/", *claims))
    assert_equal %w[host via x-forwarded-for x-forwarded-host x-forwarded-proto], sent_fields.keys.sort
    assert_equal %w[127.0.0.1 http example.org], sent_fields.values_at("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host")
  end

  def test_what_a_trusted_client_says_is_kept_and_added_to
    front(KEEP, trusted_clients: ["127.0.0.0/8"], forwarded: :both)
    ask(get("/", "Forwarded: for=1.1.1.1", "X-Forwarded-For: 1.1.1.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: www.example.org", "X-Real-IP: 1.1.1.1"))
    assert_equal ["1.1.1.1, 127.0.0.1", "https", "www.example.org", "1.1.1.1", "for=1.1.1.1, for=127.0.0.1;proto=http;host=example.org"],
      sent_fields.values_at("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-real-ip", "forwarded")
  end

  def test_the_host
    front(KEEP, host: :upstream)
    ask(get("/"))
    assert_equal ["127.0.0.1:#{scripted.port}", "example.org"], sent_fields.values_at("host", "x-forwarded-host")
  end

  def test_a_host_of_its_own
    front(KEEP, host: "app.internal:80")
    ask(get("/"))
    assert_equal "app.internal:80", sent_fields["host"]
  end

  # ---- contents of requests ----

  def test_a_content_with_a_length
    front(KEEP)
    ask(post("/", "hello", "Content-Type: text/plain"))
    assert_equal %w[5 text/plain], sent_fields.values_at("content-length", "content-type")
    assert_operator sent, :end_with?, "\r\n\r\nhello"
  end

  def test_a_content_in_chunks
    front(KEEP)
    ask(post_chunks("/", %w[one two]))
    assert_equal ["chunked", nil], sent_fields.values_at("transfer-encoding", "content-length")
    assert_operator sent, :end_with?, "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n".then { |apart| sent.include?("6\r\n") ? "6\r\nonetwo\r\n0\r\n\r\n" : apart }
  end

  def test_chunks_without_any_byte_are_no_content
    front(KEEP)
    ask(post_chunks("/", []))
    assert_equal [nil, "0"], sent_fields.values_at("transfer-encoding", "content-length")
  end

  # The upstream has the first piece while the client has not sent the second one.
  def test_a_content_is_not_collected
    seen = gate
    front(->(peer) do
      peer.head
      2.times { seen << peer.take(3) }
      peer << OK
    end)
    wire = connect << request("POST", "/", "Content-Length: 6") << "one"
    assert_equal "one", seen.pop(timeout: LIMIT)
    wire << "two"
    assert_equal "two", seen.pop(timeout: LIMIT)
    assert_equal 200, wire.answer.status
  end

  def test_a_content_that_is_too_large
    front(KEEP, max_request_body: 5)
    answer = ask(post("/", "123456"))
    assert_equal [413, "here; error=http_request_error"], [answer.status, answer["proxy-status"]]
    assert_empty scripted.requests
    answer = ask(post_chunks("/", %w[123 456]))
    assert_equal 413, answer.status
    assert_equal 200, ask(post("/", "12345")).status
  end

  def test_a_client_that_waits_for_consent
    front(KEEP)
    wire = connect << request("POST", "/", "Content-Length: 2", "Expect: 100-continue")
    wire << "hi"
    assert_equal 200, wire.answer.status
    assert_equal "100-continue", sent_fields["expect"]
  end

  # The upstream refuses by the head alone: the client need not send its content.
  def test_a_refusal_in_place_of_the_consent
    front(->(peer) { peer.head and peer << "HTTP/1.1 401 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" })
    wire = connect << request("POST", "/", "Content-Length: 2", "Expect: 100-continue")
    answer = wire.answer
    assert_equal [401, []], [answer.status, answer.interim.map(&:status)]
  end

  # ---- responses ----

  def test_a_response
    front(respond("201 Fine", "Set-Cookie: a", "Set-Cookie: b", "Date: Thu, 01 Jan 1970 00:00:00 GMT", "ETag: \"x\"", "Via: 1.1 app"))
    answer = ask(get)
    assert_equal [201, %w[a b], "Thu, 01 Jan 1970 00:00:00 GMT", "\"x\"", "1.1 app", "2", nil],
      [answer.status, answer.all("set-cookie"), answer["date"], answer["etag"], answer["via"], answer["content-length"], answer["proxy-status"]]
  end

  def test_fields_of_a_response_that_are_not_for_clients
    front(respond("200 OK", "Connection: keep-alive, x-secret", "X-Secret: 1", "Keep-Alive: timeout=5", "X-Accel-Redirect: /x", "X-Sendfile: /etc/passwd", "X-Accel-Expires: 5", "Proxy-Authenticate: x",
      "Upgrade: h2c", "rack.hijack: x", "Trailer: x", "Status: 500"))
    answer = ask(get)
    assert_equal %w[Content-Length Date], answer.fields.map(&:first).map { |name| name.split("-").map(&:capitalize).join("-") }.sort
  end

  def test_a_response_in_chunks
    go_on = gate
    front(->(peer) { (peer << "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n") && go_on.pop && (peer << "0\r\n\r\n") while peer.request })
    {"1.1" => :chunked, "1.0" => :close}.each.with_index(1) do |(version, framing), count|
      wire = connect << get(version:)
      wait_until("the head") { upstream_stats[:requests][:"2xx"] == count }
      go_on << 1
      assert_equal ["one", framing], wire.answer.then { |one| [one.body, one.framing] }
    end
    assert_equal 1, scripted.connections
  end

  # What is there as a whole has a length.
  def test_a_short_response_in_chunks
    front(->(peer) { peer << "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n" while peer.request })
    2.times { assert_equal ["one", :length], ask(get).then { |one| [one.body, one.framing] } }
    assert_equal 1, scripted.connections
  end

  # A piece of a chunk's size is not waited for.
  def test_a_head_is_not_held_back_for_its_content
    go_on = gate
    front(->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1" and go_on.pop and peer << "\r\nx\r\n0\r\n\r\n" })
    wire = connect << get
    assert_equal 200, wire.read_head.status
    go_on << 1
    assert_equal "1\r\nx\r\n", wire.read(6)
  end

  def test_a_response_that_ends_with_its_connection
    front(->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\n\r\nall of it" })
    assert_equal ["all of it", :chunked], ask(get).then { |answer| [answer.body, answer.framing] }
  end

  def test_responses_without_content
    front(->(peer) do
      while (text = peer.request)
        peer << (text.start_with?("HEAD") ? "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" : "HTTP/1.1 #{text[/ \/(\d+)/, 1]} x\r\nETag: \"a\"\r\n\r\n")
      end
    end)
    assert_equal [200, "5", ""], ask(request("HEAD", "/")).then { |answer| [answer.status, answer["content-length"], answer.body.to_s] }
    assert_equal [304, "\"a\""], ask(get("/304")).then { |answer| [answer.status, answer["etag"]] }
    assert_equal 204, ask(get("/204")).status
  end

  def test_redirects_are_passed_and_not_followed
    front(respond("302 Found", "Location: http://127.0.0.1:1/elsewhere"))
    answer = ask(get)
    assert_equal [302, "http://127.0.0.1:1/elsewhere"], [answer.status, answer["location"]]
    assert_equal 1, scripted.requests.size
  end

  def test_early_hints
    front(->(peer) { peer.request and peer << "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: x\r\nX: 1\r\n\r\n#{OK}" })
    answer = ask(get)
    assert_equal [[103, [["link", "</a.css>"]]]], answer.interim.map { |one| [one.status, one.fields.map { |name, value| [name.downcase, value] }] }
  end

  # 100 that no client waits for, 102, 103 and one that the proxy does not know.
  INTERIM = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 x\r\nX: 1\r\nConnection: y\r\nY: 2\r\n\r\nHTTP/1.1 103 x\r\nLink: </a>\r\n\r\nHTTP/1.1 104 x\r\n\r\n"

  def interim_of(**options)
    front(->(peer) { peer << INTERIM << OK while peer.request }, **options)
    answer = ask(get)
    assert_equal [200, "ok"], [answer.status, answer.body]
    answer.interim.map { |one| [one.status, one.fields] }
  end

  def test_all_interim_responses_but_100_are_relayed
    assert_equal [[102, [%w[x 1]]], [103, [%w[link </a>]]], [104, []]], interim_of
    assert_empty ask(get(version: "1.0")).interim
  end

  def test_no_interim_response_is_relayed_if_that_is_off
    assert_empty interim_of(early_hints: false)
  end

  def test_no_interim_response_is_relayed_by_a_server_that_can_not
    assert_empty interim_of(server: {early_hints: false})
  end

  def test_other_servers_get_103_alone
    assert_equal [103], interim_of(wrap: ->(proxy) { ->(env) { proxy.call(env.except("neverblock.interim")) } }).map(&:first)
  end

  def test_a_middleware_that_takes_early_hints_away_has_its_way
    assert_equal [102, 104], interim_of(wrap: ->(proxy) { ->(env) { proxy.call(env.except("rack.early_hints")) } }).map(&:first)
  end

  # The upstream is not blamed for what the client's end has cost.
  def test_a_response_that_came_while_an_interim_one_was_sent_is_not_late
    entered, came = gate, gate
    slow = lambda do |_headers|
      entered << 1
      came.pop
      sleep 11
    end
    front(->(peer) { peer.request and peer << "HTTP/1.1 103 x\r\n\r\n" and entered.pop and peer << OK and came << 1 },
      wrap: ->(proxy) { ->(env) { proxy.call(env.merge!("rack.early_hints" => slow)) } }, timeouts: {first_byte: 10})
    assert_equal [200, "ok"], ask(get).then { |answer| [answer.status, answer.body] }
  end

  # What begins a fetch has them, and what passes the cache too.
  def test_interim_responses_with_a_cache_in_front
    assert_equal [102, 103, 104], interim_of(wrap: ->(proxy) { NeverBlock::Cache.new(proxy) }).map(&:first)
    assert_equal [102, 103, 104], ask(get("/", "Cookie: a=b")).interim.map(&:status)
  end

  # ---- what the proxy says ----

  def test_proxy_status_of_each_response
    front(respond("404 x", "Proxy-Status: inner; received-status=404"), proxy_status: :all)
    assert_equal "inner; received-status=404, here; received-status=404", ask(get)["proxy-status"]
  end

  def test_no_proxy_status
    front_of("http://127.0.0.1:#{NeverBlockTest::Peer.free_port}", proxy_status: :none)
    assert_equal [502, nil], ask(get).then { |answer| [answer.status, answer["proxy-status"]] }
  end

  def test_what_the_logs_get
    noted = gate
    front(KEEP, wrap: ->(proxy) { ->(env) { proxy.call(env).tap { noted << env["neverblock.upstream"] } } })
    ask(get)
    note = noted.pop
    assert_equal [scripted.url, false], note.values_at(:url, :retried)
    assert_operator note[:connect], :<=, note[:first_byte]
    assert_equal [{"2xx": 1}, 0], upstream_stats.values_at(:requests, :in_flight)
    assert_equal proxy.stats.fetch(scripted.url), NeverBlock.stats[:proxy].fetch(scripted.url)
  end

  # ---- what is refused ----

  def test_connect_and_trace
    front(KEEP)
    assert_equal 501, ask("CONNECT example.org:80 HTTP/1.1\r\nHost: example.org:80\r\n\r\n").status
    await_refused(not_implemented: 1)
    assert_equal 405, ask(request("TRACE", "/")).status
    assert_empty scripted.requests
  end

  def test_an_absolute_target_of_a_foreign_authority
    front(KEEP)
    assert_equal 400, ask(get("http://elsewhere.example/")).status
    await_refused(bad_request: 1)
    assert_empty scripted.requests
    assert_equal 200, ask(get("http://example.org/a?b")).status
    assert_equal ["GET /a?b HTTP/1.1", "example.org"], [sent.lines(chomp: true).first, sent_fields["host"]]
  end

  # Whatever a request names, only the configured upstream is asked.
  def test_no_request_chooses_an_upstream
    front(KEEP, hosts: ["example.org"])
    other = NeverBlockTest::ScriptedUpstream.new(KEEP)
    answer = ask(get("/", host: "127.0.0.1:#{other.port}"))
    assert_equal [421, "here; error=http_request_denied"], [answer.status, answer["proxy-status"]]
    assert_equal 421, ask(get("http://127.0.0.1:#{other.port}/", host: "127.0.0.1:#{other.port}")).status
    assert_equal 200, ask(get("//127.0.0.1:#{other.port}/")).status
    assert_equal 0, other.connections
    assert_equal 1, scripted.requests.size
  ensure
    other&.close
  end

  def test_a_loop
    front(KEEP)
    answer = ask(get("/", "Via: 1.1 other, 1.1 here (a, b)"))
    assert_equal [508, "here; error=proxy_loop_detected"], [answer.status, answer["proxy-status"]]
    assert_equal 200, ask(get("/", "Via: 1.1 other")).status
    assert_equal "1.1 other, 1.1 here", sent_fields["via"]
  end

  def test_max_forwards
    front(KEEP)
    %w[0 00].each { |value| assert_equal 204, ask(request("OPTIONS", "/", "Max-Forwards: #{value}")).status }
    assert_empty scripted.requests
    ask(request("OPTIONS", "/", "Max-Forwards: 5"))
    assert_equal "4", sent_fields["max-forwards"]
  end

  # ---- files ----

  def test_files_that_an_upstream_names
    Dir.mktmpdir do |folder|
      root = File.join(folder, "root")
      Dir.mkdir(root)
      File.write("#{root}/a b", "a file")
      File.write("#{folder}/secret", "secret")
      File.symlink("#{folder}/secret", "#{root}/link")
      named = nil
      front(->(peer) { peer << "HTTP/1.1 200 OK\r\n#{named}\r\nContent-Type: text/x\r\nContent-Length: 2\r\n\r\nno" while peer.request }, accel_roots: {"/files/" => root})
      {"X-Accel-Redirect: /files/a%20b" => [200, "a file"], "X-Sendfile: #{root}/a b" => [200, "a file"], "X-Sendfile: #{folder}/secret" => 502, "X-Sendfile: #{root}/link" => 502,
       "X-Accel-Redirect: /files/../secret" => 502, "X-Accel-Redirect: /files/%2e%2e/secret" => 502, "X-Accel-Redirect: /other" => 502, "X-Accel-Redirect: /files/none" => 404, "X-Sendfile: #{root}" => 502}.each do |line, expected|
        named = line
        answer = ask(get)
        assert_equal expected, (Array === expected) ? [answer.status, answer.body] : answer.status, line
        assert_equal "text/x", answer["content-type"] if answer.status == 200
      end
      assert_match(%r{http_request_error: an upstream named a file that there is not: No such file or directory .*/root/none}, proxy_log)
      named = "X-Sendfile: #{root}/a b"
      File.stub(:realpath, ->(*) { raise Errno::EMFILE }) { assert_equal 502, ask(get).status }
    end
  end
end
