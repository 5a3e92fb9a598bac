# frozen_string_literal: true

# engines: every - a whole server on each engine

require "test_helper"
require "support/served"
require "time"

# Common behaviour of HTTP servers: methods, targets, env, and the end of connections (RFC 9112 §9).
class ServerProtocolTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  def test_hello
    serve
    before = Time.now.to_i
    answer = ask(get)
    assert_equal [200, "OK", "hello", :length], [answer.status, answer.reason, answer.body, answer.framing]
    assert_equal %w[content-type Content-Length Date], answer.fields.map(&:first)
    assert_match(/\A(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT\z/, answer["date"])
    assert_includes before..Time.now.to_i, Time.httpdate(answer["date"]).to_i
  end

  def test_over_a_unix_socket
    serve(unix: true) { |env| [200, {}, [env.values_at("REMOTE_ADDR", "SERVER_NAME", "SERVER_PORT").join(" ")]] }
    assert_equal "127.0.0.1 example.org 80", ask(get).body
  end

  def test_many_requests_over_one_connection
    serve { |env| [200, {}, [env["PATH_INFO"]]] }
    wire = connect
    200.times { |n| assert_equal "/#{n}", (wire << get("/#{n}")).answer.body }
    assert_equal({accepted: 1, requests: 200, answered: 200}, server.stats.slice(:accepted, :requests, :answered))
  end

  # ---- closing ----

  # [version, fields of the request, fields of the answer, the answer's Connection, whether it goes on]
  {
    "HTTP/1.1" => ["1.1", [], {}, nil, true],
    "HTTP/1.1 with close" => ["1.1", ["Connection: close"], {}, "close", false],
    "HTTP/1.1 with CLOSE in a list" => ["1.1", ["Connection: foo, CLOSE ,bar"], {}, "close", false],
    "HTTP/1.1 with two Connection fields" => ["1.1", ["Connection: foo", "Connection: close"], {}, "close", false],
    "HTTP/1.1 with keep-alive and close" => ["1.1", ["Connection: keep-alive, close"], {}, "close", false],
    "HTTP/1.1 with keep-alive" => ["1.1", ["Connection: keep-alive"], {}, nil, true],
    "HTTP/1.1 where a name only contains close" => ["1.1", ["Connection: closed"], {}, nil, true],
    "HTTP/1.1 where the app closes" => ["1.1", [], {"connection" => "close"}, "close", false],
    "HTTP/1.1 where the app would keep what the client closes" => ["1.1", ["Connection: close"], {"connection" => "keep-alive"}, "close", false],
    "HTTP/1.0" => ["1.0", [], {}, "close", false],
    "HTTP/1.0 with keep-alive" => ["1.0", ["Connection: Keep-Alive"], {}, "keep-alive", true],
    "HTTP/1.0 with keep-alive where the app closes" => ["1.0", ["Connection: keep-alive"], {"connection" => "close"}, "close", false],
    "HTTP/1.0 where the app would keep" => ["1.0", [], {"connection" => "keep-alive"}, "close", false]
  }.each do |name, (version, lines, headers, connection, goes_on)|
    define_method("test_who_closes_#{name.tr(" ", "_")}") do
      serve { |_env| [200, headers, ["hello"]] }
      wire = connect << get("/", *lines, version:)
      answer = wire.answer
      assert_equal [200, "hello", connection], [answer.status, answer.body, answer["connection"]]
      if goes_on
        assert_equal 200, (wire << get("/", *lines, version:)).answer.status
      else
        assert_predicate wire, :ended?
      end
    end
  end

  def test_http_1_0_without_host
    seen = nil
    serve { |env| (seen = env) && HELLO.call(env) }
    assert_equal 200, ask(get("/", version: "1.0", host: nil)).status
    assert_equal ["localhost", "80", nil, "HTTP/1.0"], seen.values_at("SERVER_NAME", "SERVER_PORT", "HTTP_HOST", "SERVER_PROTOCOL")
    refute seen.key?("HTTP_HOST")
  end

  def test_http_1_0_has_no_chunks_and_ends_with_the_connection
    serve { |_env| [200, {}, %w[a b].each] }
    wire = connect << get("/", "Connection: keep-alive", version: "1.0")
    answer = wire.answer
    assert_equal [:close, "ab", nil], [answer.framing, answer.body, answer["transfer-encoding"]]
  end

  def test_http_1_0_keeps_the_connection_where_the_length_is_known
    serve { |_env| [200, {"content-length" => "2"}, %w[a b].each] }
    wire = connect
    2.times do
      answer = (wire << get("/", "Connection: keep-alive", version: "1.0")).answer
      assert_equal [:length, "ab", "keep-alive"], [answer.framing, answer.body, answer["connection"]]
    end
  end

  def test_max_requests_per_connection
    serve(max_requests_per_connection: 3)
    wire = connect << get * 4
    assert_equal [nil, nil, "close"], wire.answers(3).map { |answer| answer["connection"] }
    assert_predicate wire, :ended?
    assert_equal 3, server.stats[:requests]
  end

  def test_a_client_that_has_said_all_gets_its_answers
    serve { |env| [200, {}, [env["PATH_INFO"]]] }
    wire = (connect << get("/a") << get("/b")).close_write
    assert_equal %w[/a /b], wire.answers(2).map(&:body)
    assert_predicate wire, :ended?
  end

  def test_a_request_after_a_close_is_not_run
    seen = []
    serve { |env| (seen << env["PATH_INFO"]) && HELLO.call(env) }
    wire = connect << "#{get("/a", "Connection: close")}#{get("/b")}" # in one write: bytes after the server's close cause a reset
    assert_equal "close", wire.answer["connection"]
    assert_predicate wire, :ended?
    assert_equal %w[/a], seen
  end

  def test_one_empty_line_before_a_request_is_passed_over
    serve
    wire = connect << "\r\n" << get << "\r\n" << get
    assert_equal [200, 200], wire.answers(2).map(&:status)
  end

  def test_an_empty_line_after_a_body_that_closes
    serve { |env| [200, {}, [env["rack.input"].read]] }
    wire = connect << "#{post("/", "abc", "Connection: close")}\r\n" # in one write: bytes after the server's close cause a reset
    assert_equal "abc", wire.answer.body
    assert_predicate wire, :ended?
  end

  # ---- methods and targets ----

  %w[GET POST PUT DELETE PATCH OPTIONS TRACE PROPFIND M-SEARCH get X].each do |method|
    define_method("test_method_#{method}") do
      serve { |env| [200, {}, [env["REQUEST_METHOD"]]] }
      assert_equal method, ask(request(method, "/")).body
    end
  end

  # target => [PATH_INFO, QUERY_STRING, SERVER_NAME, SERVER_PORT, HTTP_HOST, REQUEST_URI]
  {
    "/" => ["/", "", "example.org", "80", "example.org", "/"],
    "/a/b%20c/?x=1&y=%2F" => ["/a/b%20c/", "x=1&y=%2F", "example.org", "80", "example.org", "/a/b%20c/?x=1&y=%2F"],
    "/?" => ["/", "", "example.org", "80", "example.org", "/?"],
    "//a" => ["//a", "", "example.org", "80", "example.org", "//a"],
    "/a?b?c" => ["/a", "b?c", "example.org", "80", "example.org", "/a?b?c"],
    "/../a" => ["/../a", "", "example.org", "80", "example.org", "/../a"],
    "http://example.org/a?b" => ["/a", "b", "example.org", "80", "example.org", "http://example.org/a?b"],
    "HTTP://EXAMPLE.org" => ["/", "", "EXAMPLE.org", "80", "EXAMPLE.org", "HTTP://EXAMPLE.org"],
    "http://example.org?x" => ["/", "x", "example.org", "80", "example.org", "http://example.org?x"]
  }.each do |target, expected|
    define_method("test_target_#{target}") do
      seen = nil
      serve { |env| (seen = env) && HELLO.call(env) }
      assert_equal 200, ask(get(target)).status
      assert_equal expected, seen.values_at("PATH_INFO", "QUERY_STRING", "SERVER_NAME", "SERVER_PORT", "HTTP_HOST", "REQUEST_URI")
    end
  end

  def test_target_asterisk
    serve { |env| [200, {}, [env["PATH_INFO"]]] }
    assert_equal "*", ask(request("OPTIONS", "*")).body
  end

  {"example.org:3000" => %w[example.org 3000], "[::1]:81" => %w[[::1] 81], "127.0.0.1" => %w[127.0.0.1 80]}.each do |host, expected|
    define_method("test_host_#{host}") do
      serve { |env| [200, {}, [env.values_at("SERVER_NAME", "SERVER_PORT").join(" ")]] }
      assert_equal expected.join(" "), ask(get("/", host:)).body
    end
  end

  # ---- env ----

  def env_of(bytes, **directives)
    seen = nil
    serve(**directives) { |env| (seen = env.dup) && HELLO.call(env) }
    assert_equal 200, ask(bytes).status
    seen
  end

  def test_env
    env = env_of(get("/a?b", "X-Custom: 1", "Content-Type: text/x", "Accept: */*"))
    assert_equal Hash, env.class
    assert_equal({
      "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/a", "QUERY_STRING" => "b", "SERVER_PROTOCOL" => "HTTP/1.1",
      "REMOTE_ADDR" => "127.0.0.1", "HTTP_X_CUSTOM" => "1", "CONTENT_TYPE" => "text/x", "HTTP_ACCEPT" => "*/*", "rack.url_scheme" => "http",
      "rack.hijack?" => true, "rack.multithread" => false
    }, env.slice(*%w[REQUEST_METHOD SCRIPT_NAME PATH_INFO QUERY_STRING SERVER_PROTOCOL REMOTE_ADDR HTTP_X_CUSTOM CONTENT_TYPE HTTP_ACCEPT
      rack.url_scheme rack.hijack? rack.multithread]))
    refute env.key?("CONTENT_LENGTH")
    refute env.key?("HTTP_CONTENT_TYPE")
    assert env.each_value.none?(nil), env.select { |_, value| value.nil? }.inspect
  end

  # fields => their values in env
  {
    "fields of one name are one" => [["X-A: 1", "x-a: 2", "X-A:"], {"HTTP_X_A" => "1, 2, "}],
    "known fields of one name too" => [["Accept: a", "accept: b"], {"HTTP_ACCEPT" => "a, b"}],
    "cookies are joined with semicolons" => [["Cookie: a=1", "Cookie: b=2"], {"HTTP_COOKIE" => "a=1; b=2"}],
    "blanks around values" => [["X-A: \t 1 2 \t "], {"HTTP_X_A" => "1 2"}],
    "an empty value" => [["X-A:"], {"HTTP_X_A" => ""}],
    "Proxy is dropped" => [["Proxy: http://evil", "X-A: 1"], {"HTTP_X_A" => "1"}],
    "Version is dropped" => [["Version: HTTP/9", "X-A: 1"], {"HTTP_X_A" => "1"}],
    "underscores are dropped" => [["X_A: evil", "X-A: 1", "Content_Length: 5"], {"HTTP_X_A" => "1"}],
    "bytes above 127" => [["X-A: \xC3\xA9"], {"HTTP_X_A" => "\xC3\xA9".b}]
  }.each do |name, (lines, expected)|
    define_method("test_fields_#{name.tr(" ", "_")}") do
      env = env_of(get("/", *lines))
      assert_equal expected, env.select { |key, _| key.start_with?("HTTP_") && key != "HTTP_HOST" }
      assert_equal "HTTP/1.1", env["SERVER_PROTOCOL"]
    end
  end

  def test_fields_with_underscores_where_they_may_pass
    assert_equal "1", env_of(get("/", "X_A: 1"), underscore_headers: :pass)["HTTP_X_A"]
  end

  def test_names_from_the_network_are_not_kept
    serve
    names = Array.new(50) { |n| "X-Strange-#{n}-#{rand(1 << 60)}" }
    ask(get("/", *names.map { |name| "#{name}: 1" }))
    keys = names.map { |name| "HTTP_#{name.upcase.tr("-", "_")}" }
    kept = ObjectSpace.each_object(Symbol).map(&:name) & keys
    assert_empty kept
  end

  def test_each_request_has_an_env_of_its_own
    envs = []
    serve { |env| envs << env and env["mine"] = envs.size and HELLO.call(env) }
    (connect << get * 3).answers(3)
    assert_equal [1, 2, 3], envs.map { |env| env["mine"] }
    refute_same envs[0]["rack.response_finished"], envs[1]["rack.response_finished"]
  end

  def test_query_strings_and_paths_of_one_request_can_be_changed
    serve do |env|
      env["PATH_INFO"] << "!"
      env["QUERY_STRING"] = "changed"
      [200, {}, [env["PATH_INFO"]]]
    end
    wire = connect << get("/a") << get("/a")
    assert_equal %w[/a! /a!], wire.answers(2).map(&:body)
  end
end
