# frozen_string_literal: true

require "test_helper"
require "support/served"

# A body that went to a file leaves none behind, whatever becomes of its request; and not only when garbage is collected.
class ServerBodyFilesTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  BODY = "b" * 5_000
  LIMITS = {max_in_flight: 1, queue_limit: 2, body_memory: 1_000}.freeze

  def setup
    skip "no /proc here" unless File.directory?("/proc/self/fd")
    GC.disable
    @before = open_files
  end

  def teardown
    GC.enable
    super
  end

  def test_of_a_request_that_was_answered
    serve(**LIMITS) { |env| [200, {}, [env["rack.input"].read.bytesize.to_s]] }
    wire = connect
    3.times { assert_equal "5000", (wire << post("/", BODY)).answer.body }
    await_closed
  end

  def test_of_one_that_failed
    serve(**LIMITS) { |_env| raise "no" }
    assert_equal 500, ask(post("/", BODY)).status
    assert_match(/no/, await_log.first)
    await_closed
  end

  def test_of_those_that_were_refused_or_whose_clients_left
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
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.2 # only of those that wait long is looked whether they are there
    wait_until("its age") { Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline }
    2.times { way << 1 }
    assert_equal [200, 200], [first, patient].map { |wire| wire.answer.status }
    await_stats(queued: 0, in_flight: 0, dropped: 1)
    await_closed
    assert_match(/queue/, log.first)
  end

  def test_of_one_whose_body_was_cut_off
    serve(**LIMITS)
    half = connect << request("POST", "/", "Content-Length: 9000") + BODY
    await_stats(body_bytes: BODY.bytesize)
    assert_operator open_files, :>, @before
    half.close
    await_stats(connections: 0, body_bytes: 0)
    await_closed
  end

  private

  def await_closed = wait_until("the file's end") { open_files == @before }

  # Files without a name.
  def open_files
    Dir.glob("/proc/self/fd/*").count { |path| File.symlink?(path) && File.readlink(path).end_with?("(deleted)") }
  rescue Errno::ENOENT
    retry # another one was closed between the two looks
  end
end
