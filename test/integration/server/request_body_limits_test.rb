# frozen_string_literal: true

require "test_helper"
require "support/served"

# Limits of rack.input: the size of one body, the quota of all, and a TMPDIR that can't store a body.
class ServerRequestBodyLimitsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  ECHO = ->(env) { [200, {}, [env["rack.input"].read]] }

  def test_more_than_max_body_size
    serve(ECHO, max_body_size: 1_000)
    assert_equal "x" * 1_000, ask(post("/", "x" * 1_000)).body
    assert_equal "x" * 1_000, ask(post_chunks("/", ["x" * 500] * 2)).body
    [post("/", "x" * 1_001), request("POST", "/", "Content-Length: 1001"), post_chunks("/", ["x" * 500, "x" * 501]), post_chunks("/", ["x" * 1_000_000])].each do |bytes|
      wire = connect << bytes
      assert_equal [413, "close"], wire.answer.then { |answer| [answer.status, answer["connection"]] }
      assert_predicate wire, :ended?
    end
    await_stats(body_bytes: 0, in_flight: 0)
    await_refused(content_too_large: 4)
  end

  def test_more_than_max_body_size_streamed
    seen = []
    serve(max_body_size: 1_000, request_body: :stream) do |env|
      seen << env["rack.input"].read.bytesize
      HELLO.call(env)
    end
    assert_equal 200, ask(post_chunks("/", ["x" * 500] * 2)).status
    [post("/", "x" * 1_001), post_chunks("/", ["x" * 500, "x" * 501]), post_chunks("/", ["x" * 300_000])].each do |bytes|
      wire = connect << bytes
      assert_equal 413, wire.answer.status
      assert_predicate wire, :ended?
    end
    assert_equal [[1_000], 0], [seen, server.stats[:failed]]
    await_refused(content_too_large: 3)
  end

  def test_the_413_arrives_though_the_client_goes_on_sending
    serve(max_body_size: 1_000)
    wire = connect << request("POST", "/", "Content-Length: 3000000")
    sender = Thread.new { wire << "x" * 3_000_000 }
    assert_equal 413, wire.answer.status
    sender.join
    assert_predicate wire, :ended?
    await_refused(content_too_large: 1)
  end

  def test_a_limit_in_megabytes_of_what_all_bodies_take
    serve(max_body_size: 100_000, body_quota: 150_000)
    first = connect << request("POST", "/", "Content-Length: 100000") << "x" * 99_999
    await_stats(body_bytes: 99_999)
    second = connect << post("/", "x" * 60_000)
    answer = second.answer
    assert_equal [503, "1", "close"], [answer.status, answer["retry-after"], answer["connection"]]
    assert_predicate second, :ended?
    assert_match(/body_quota: a request from 127\.0\.0\.1 is refused with 503: the bodies being held use up body_quota \(150000 bytes\) \(POST \/\)\z/,
      await_refused(body_quota: 1).first)
    await_stats(body_bytes: 99_999)
    assert_equal 200, ask(post("/", "x" * 50_000)).status
    assert_equal 200, (first << "x").answer.status
    assert_equal 200, ask(post("/", "x" * 100_000)).status
  end

  def test_the_quota_counts_until_the_answer
    steps = gate
    serve(max_body_size: 100, body_quota: 100) { |env| steps.pop && HELLO.call(env) }
    wire = connect << post("/", "x" * 100)
    await_stats(in_flight: 1, body_bytes: 100)
    assert_equal 503, ask(post("/", "x")).status
    steps << 1
    assert_equal 200, wire.answer.status
    await_log
    await_stats(body_bytes: 0)
  end

  def test_a_temporary_folder_that_is_full_or_missing
    before = ENV["TMPDIR"]
    ENV["TMPDIR"] = "/no/such/folder"
    serve
    wire = connect << post("/", "x" * 100_000)
    assert_equal 503, wire.answer.status
    assert_match(/body_file: a request from 127\.0\.0\.1 is refused with 503: its body can't be stored in TMPDIR: No such file/, await_refused(body_file: 1).first)
    assert_equal 200, ask(post("/", "x")).status
  ensure
    ENV["TMPDIR"] = before
  end
end
