# frozen_string_literal: true

# engines: every - io_uring writes body files, the others use threads

require "test_helper"
require "support/open_files"
require "support/served_in_time"

# The file of a request body is removed, whatever becomes of the request, and not only by the garbage collector.
class ServerBodyFilesTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::OpenFiles
  include NeverBlockTest::ServedInTime

  BODY = "b" * 5_000
  LIMITS = {max_in_flight: 1, queue_limit: 2, body_memory: 1_000}.freeze

  def setup
    skip "no /proc here" unless File.directory?("/proc/self/fd")
    GC.disable
    @before = removed_files
  end

  def teardown
    GC.enable
    super
  end

  def test_a_request_with_a_response_leaves_no_file
    serve(**LIMITS) { |env| [200, {}, [env["rack.input"].read.bytesize.to_s]] }
    wire = connect
    3.times { assert_equal "5000", (wire << post("/", BODY)).answer.body }
    await_closed
  end

  def test_a_failed_request_leaves_no_file
    serve(**LIMITS) { |_env| raise "no" }
    assert_equal 500, ask(post("/", BODY)).status
    assert_match(/no/, await_log.first)
    await_closed
  end

  def test_refused_requests_and_gone_clients_leave_no_file
    way = gate
    serve(**LIMITS, queue_max_wait: 5) { |_env| [200, {}, [way.pop.to_s]] }
    first = connect << get
    await_stats(in_flight: 1)
    left = connect << post("/", BODY)
    await_stats(queued: 1)
    patient = connect << post("/", BODY)
    await_stats(queued: 2)
    assert_equal 503, ask(post("/", BODY)).status
    left.close
    sleep 1 # the server checks only requests that have waited for a while
    2.times { way << 1 }
    assert_equal [200, 200], [first, patient].map { |wire| wire.answer.status }
    await_stats(queued: 0, in_flight: 0, dropped: 1)
    await_closed
    assert_match(/queue/, log.first)
  end

  def test_a_body_that_was_cut_off_leaves_no_file
    serve(**LIMITS)
    half = connect << request("POST", "/", "Content-Length: 9000") + BODY
    await_stats(body_bytes: BODY.bytesize)
    assert_operator removed_files, :>, @before
    half.close
    await_stats(connections: 0, body_bytes: 0)
    await_closed
  end

  private

  def await_closed = wait_until("the file's end") { removed_files == @before }

  # Open ones.
  def removed_files = open_files.count { |path| path.end_with?("(deleted)") }
end
