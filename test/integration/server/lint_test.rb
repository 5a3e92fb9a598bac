# frozen_string_literal: true

require "test_helper"
require "support/served_in_time"
require "rack/lint"
require "tempfile"

# Rack::Lint between the server and apps of every kind: both sides comply with Rack's specification.
class ServerLintTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  # An enumerable body.
  class Body
    def initialize(*parts) = @parts = parts

    def each(&) = @parts.each(&)

    def close = nil
  end

  # A body that responds to to_ary.
  class ArrayBody < Body
    def to_ary = @parts.dup.tap { close }
  end

  # A body with a path.
  class FileBody
    def initialize(path) = @path = path

    def to_path = @path

    def each = yield(File.binread(@path))
  end

  TEXT = {"content-type" => "text/plain"}.freeze
  FILE = File.expand_path("../../../LICENSE", __dir__)

  APPS = {
    "an Array" => ->(_env) { [200, TEXT.dup, %w[a b]] },
    "an Array and a length" => ->(_env) { [200, TEXT.merge("content-length" => "2"), %w[a b]] },
    "each" => ->(_env) { [200, TEXT.dup, Body.new("a", "b")] },
    "to_ary" => ->(_env) { [200, TEXT.dup, ArrayBody.new("a", "b")] },
    "a file" => ->(_env) { [200, TEXT.dup, FileBody.new(FILE)] },
    "an Enumerator" => ->(_env) { [200, TEXT.dup, Enumerator.new { |yielder| yielder << "a" << "b" }] },
    "an Enumerator that waits" => ->(_env) { [200, TEXT.dup, Enumerator.new { |yielder| (yielder << "a") && sleep(1) && yielder << "b" }] },
    "several values" => ->(_env) { [200, TEXT.merge("set-cookie" => %w[a=1 b=2]), []] },
    "204" => ->(_env) { [204, {}, []] },
    "304" => ->(_env) { [304, {"etag" => '"a"'}, []] },
    "404" => ->(_env) { [404, TEXT.dup, ["no"]] },
    "the body read at once" => ->(env) { [200, TEXT.dup, [env["rack.input"].read]] },
    "the body read in lines" => ->(env) { [200, TEXT.dup, [+""].each { |text| env["rack.input"].each { |line| text << line } } << env["rack.input"].gets.to_s] },
    "the body read in pieces" => ->(env) { [200, TEXT.dup, [env["rack.input"].read(3).to_s, env["rack.input"].read(10, +"").to_s, env["rack.input"].read]] },
    "the body closed" => ->(env) { env["rack.input"].close || [200, TEXT.dup, []] },
    "errors written" => ->(env) { env["rack.errors"].flush && [200, TEXT.dup, []] },
    "early hints" => ->(env) { env["rack.early_hints"]&.call({"link" => "</a.css>"}) || [200, TEXT.dup, []] },
    "a finished callback" => ->(env) { env["rack.response_finished"].unshift(->(_env, _status, _headers, _error) {}) && [200, TEXT.dup, []] }
  }.freeze

  REQUESTS = {
    "GET" => ["GET", "/a%20b?c=d", {}],
    "HEAD" => ["HEAD", "/", {}],
    "OPTIONS *" => ["OPTIONS", "*", {}],
    "POST" => ["POST", "/", {body: "line\nbody\n"}],
    "POST without a body" => ["POST", "/", {body: ""}],
    "POST of a large body" => ["POST", "/", {body: "x" * 100_000}],
    "HTTP/1.0" => ["GET", "/", {version: "1.0"}],
    "HTTP/1.0 without Host" => ["GET", "/", {version: "1.0", host: nil}],
    "an absolute target" => ["GET", "http://example.org:81/a?b", {host: "example.org:81"}],
    "IPv6" => ["GET", "/", {host: "[::1]:8080"}],
    "a DELETE" => ["DELETE", "/", {}],
    "a method of its own" => ["PROPFIND", "/", {}]
  }.freeze

  APPS.each do |app_name, app|
    define_method(:"test_#{app_name.tr(" ", "_")}") do
      serve(Rack::Lint.new(app))
      REQUESTS.each do |name, (method, target, options)|
        bytes = request(method, target, "Accept: */*", "Cookie: a=b", "X-Forwarded-For: 1.2.3.4", **options)
        answer = ask(bytes)
        assert_operator answer.status, :<, 500, "#{name}: #{errors.string}"
      end
      answer = ask(post_chunks("/", ["line\n", "body\n"]))
      assert_operator answer.status, :<, 500
    end

    define_method(:"test_#{app_name.tr(" ", "_")}_with_streamed_bodies") do
      serve(Rack::Lint.new(app), request_body: :stream)
      [get, post("/", "line\nbody\n"), post_chunks("/", ["line\n", "body\n"]), post("/", "")].each do |bytes|
        assert_operator ask(bytes).status, :<, 500, errors.string
      end
    end
  end

  def test_a_stream
    serve(Rack::Lint.new(->(_env) { [200, TEXT.dup, ->(stream) { (stream << "a").then { stream.flush } && stream.write("b") && stream.close }] }))
    assert_equal "ab", ask(get).body
  end

  def test_a_stream_that_reads
    serve(Rack::Lint.new(->(_env) { [200, TEXT.dup, ->(stream) { stream.write(stream.read) && stream.close }] }))
    assert_equal "abc", ask(post("/", "abc")).body
  end

  def test_full_hijack
    serve(Rack::Lint.new(->(env) { env["rack.hijack"].call.then { |io| io.write("raw") && io.close } || [200, {}, []] }))
    assert_equal "raw", (connect << get).rest
  end

  def test_partial_hijack
    serve(Rack::Lint.new(->(_env) { [200, TEXT.merge("rack.hijack" => ->(io) { io.write("raw") && io.close }), []] }))
    wire = connect << get
    assert_equal 200, wire.read_head.status
    assert_equal "raw", wire.rest
  end

  def test_an_upgrade
    serve(Rack::Lint.new(->(env) { [101, {"rack.protocol" => env["rack.protocol"].first}, ->(stream) { stream.write("raw") && stream.close }] }))
    wire = connect << get("/", "Connection: upgrade", "Upgrade: echo")
    assert_equal "echo", wire.answer["upgrade"]
    assert_equal "raw", wire.rest
  end

  # The outermost layer is closed first.
  def test_bodies_are_closed_through_all_layers
    closed = 0
    body = Body.new("a")
    body.define_singleton_method(:close) { closed += 1 }
    serve(Rack::Lint.new(Rack::Lint.new(->(_env) { [200, TEXT.dup, body] })))
    assert_equal "a", ask(get).body
    wait_until("the close") { closed == 1 }
  end

  def test_a_body_that_lint_finds_fault_with
    serve(Rack::Lint.new(->(_env) { [200, {"Content-Type" => "x"}, []] }))
    assert_equal 500, ask(get).status
    assert_match(/Rack::Lint::LintError: uppercase/, log.join)
  end
end
