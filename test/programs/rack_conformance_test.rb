# frozen_string_literal: true

# slow: it starts servers

require "test_helper"
require "support/serve_process"
require "json"
require "net/http"

# Requirements for any Rack server, of Rack 3 and of Rack 2. The rack-conform project has such a list for many servers
# (its gem has the launcher only; its tests are not published); these tests cover the same requirements and more.
class RackConformanceTest < Minitest::Test
  APP = File.join(NeverBlockTest::ROOT, "test", "apps", "conformance", "config.ru")
  RACK2 = File.join(NeverBlockTest::ROOT, "test", "apps", "rack2.gemfile")

  def test_rack_3 = conform({}, 3)

  def test_rack_2
    skip "the gems are known under bundle exec only" unless ENV["BUNDLE_GEMFILE"]
    skip "bin/setup has not installed Rack 2" unless File.exist?("#{RACK2}.lock")
    conform({"BUNDLE_GEMFILE" => RACK2, "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => File.join(NeverBlockTest::ROOT, "vendor", "bundle")}, 2)
  end

  private

  def conform(environment, rack)
    NeverBlockTest::ServeProcess.open("", "-p", "0", APP, environment:, gems: true) do |served|
      @port = served.port
      Net::HTTP.start("127.0.0.1", @port, read_timeout: 30) do |http|
        @http = http
        assert_equal rack, ask("release").body.to_i
        bodies
        headers
        options
        streams
      end
      takes_over
      served.stop
      refute_match(/error:/, served.errors)
    end
  end

  def bodies
    ["", "some", "more" * 50_000].each { |body| assert_equal body, ask("echo", body).body }
    assert_equal "itself", ask("itself_as_body").body
    [200, 204, 304, 404, 418, 599].each { |status| assert_equal status, ask("status", fields: {"Status" => status.to_s}).code.to_i }
  end

  def headers
    assert_equal ["a=1"], ask("cookies", JSON.generate(a: "1")).get_fields("set-cookie")
    assert_equal %w[a=1 b=2], ask("cookies", JSON.generate(a: "1", b: "2")).get_fields("set-cookie")
    assert_equal "text/plain", ask("headers", JSON.generate("content-type": "text/plain"))["content-type"]
    assert_equal %w[1 2], ask("headers", JSON.generate("x-number": %w[1 2])).get_fields("x-number").flat_map { |value| value.split(/, ?/) }
  end

  # RFC 9112 §3.2.4
  def options
    answer = @http.request(Net::HTTP::Options.new("/"))
    assert_equal ["200", "OPTIONS /", "GET, OPTIONS"], [answer.code, answer.body, answer["allow"]]
    assert_match(/\AHTTP\/1\.1 200 .*\r\n\r\nOPTIONS \*\z/m, converse("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", &:read))
  end

  def streams
    assert_equal Array.new(10) { |number| "line #{number}\n" }.join, ask("enumerator").body
    assert_equal "called", ask("callable").body
  end

  def takes_over
    assert_match(/\AHTTP\/1\.1 200 .*hijacked\z/m, converse("GET /partial_hijack HTTP/1.1\r\nHost: a\r\n\r\n", &:read))
    assert_match(/\AHTTP\/1\.1 200 .*whole\z/m, converse("GET /full_hijack HTTP/1.1\r\nHost: a\r\n\r\n", &:read))
    %w[upgrade_by_body upgrade_by_hijack].each do |path|
      converse("GET /#{path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n") do |socket|
        head = socket.gets("\r\n\r\n")
        assert_match(/\AHTTP\/1\.1 101 /, head)
        assert_match(/^connection: upgrade\r$/i, head)
        assert_match(/^upgrade: echo\r$/i, head)
        refute_match(/^(content-length|transfer-encoding):/i, head)
        %w[one two].each do |word|
          socket.write(word)
          assert_equal "#{word}!", socket.readpartial(100)
        end
        socket.write("end")
        assert_equal "", socket.read
      end
    end
  end

  # GET with a body too.
  def ask(path, body = nil, fields: {})
    @http.request(Net::HTTPGenericRequest.new("GET", !body.nil?, true, "/#{path}", {"Content-Type" => "application/json", **fields}), body)
  end

  def converse(request)
    Timeout.timeout(30) do
      TCPSocket.open("127.0.0.1", @port) do |socket|
        socket.write(request)
        yield socket
      end
    end
  end
end
