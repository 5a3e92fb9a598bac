# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/cached_app"

# Bodies that do what bodies should not, and those that no client reads: none is stored with a hole, and each is closed.
class CacheHostileBodiesTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::CachedApp

  FRESH = {"cache-control" => "max-age=60"}.freeze

  # A body that tells whether it was closed.
  Body = Struct.new(:chunks, :closed) do
    def each(&) = chunks.each(&)

    def close = self.closed = true
  end

  def test_a_body_that_goes_on_after_its_end
    later = nil
    body = Object.new
    body.define_singleton_method(:each) do |&block|
      later = block
      block.call("whole")
    end
    in_run do
      cached { |_| [200, {**FRESH}, body] }
      _, _, following = @cache.call(env_of("GET", "/a"))
      pass_until("the end of the fetch") { @cache.stats[:fetching].zero? }
      begin
        later.call(" and more")
      rescue NeverBlock::Cache::Fill::Abandoned
        nil
      end
      text = +""
      following.each { |chunk| text << chunk }
      assert_equal "whole", text
    end
  end

  def test_a_body_whose_close_raises
    body = Body.new(["whole"])
    def body.close = raise(IOError, "close failed")
    in_run do
      errors = StringIO.new
      cached { |_| [200, {**FRESH}, body] }
      _, _, following = @cache.call(env_of("GET", "/a", "rack.errors" => errors))
      pass_until("the end of the fetch") { @cache.stats[:fetching].zero? }
      text = +""
      following.each { |chunk| text << chunk }
      assert_equal "whole", text, "its client has read it after the failure"
      assert_equal "whole", get("/a").body
      assert_equal 1, @calls
      assert_match(/close failed/, errors.string)
    end
  end

  def test_bodies_that_yield_other_things_than_strings
    [[nil], [1], [:symbol], [["a"]]].each do |chunks|
      cached { |_| [200, {**FRESH}, ["a", *chunks]] }
      assert_raises(NeverBlock::Cache::Fill::Truncated) { get("/a") }
      assert_equal 0, @cache.stats[:entries]
    end
  end

  def test_strings_of_all_encodings
    chunks = ["grün", "grün".encode("UTF-16LE"), "\xff".b, "a".encode("US-ASCII").freeze, ""]
    cached { |_| [200, {**FRESH}, chunks] }
    2.times { assert_equal chunks.map(&:b).join, get("/a").body.b }
    assert_equal 1, @calls
  end

  # All of it would be in memory at once.
  def test_a_body_that_the_store_does_not_take_is_not_read_from_its_file
    writes = 0
    store = NeverBlock::Cache::MemoryStore.new(bytes: 1 << 20, max_entry: 2_000)
    store.define_singleton_method(:write) { |*arguments, **options| (writes += 1) && super(*arguments, **options) }
    cached(store:, memory: 10) { |env| [200, {**FRESH}, ["x" * env["PATH_INFO"][1..].to_i]] }
    assert_equal [5_000, 500], [5_000, 500].map { |size| get("/#{size}").body.bytesize }
    pass_until("the end of both") { @cache.stats[:fetching].zero? }
    assert_equal [1, 1], [writes, @cache.stats[:entries]]
  end

  def test_every_body_is_closed_once_it_is_not_needed
    kinds = {
      "stored" => FRESH, "private" => {"cache-control" => "private"}, "truncated" => {**FRESH, "content-length" => "9"},
      "ill" => {status: 503}, "not modified" => {status: 304}
    }
    kinds.each do |kind, headers|
      bodies = []
      cached { |_| [headers[:status] || 200, headers.except(:status), Body.new(["a"]).tap { |body| bodies << body }] }
      begin
        get("/a")
      rescue NeverBlock::Cache::Fill::Truncated
        nil
      end
      pass_until("the end of the fetch") { @cache.stats[:fetching].zero? }
      assert bodies.all?(&:closed), kind
    end
  end

  def test_a_stream_that_a_refresh_gets_is_closed
    stream = Body.new([]).tap { |body| body.singleton_class.undef_method(:each) }
    def stream.call(_) = nil
    in_run do
      cached { |_| (@calls == 1) ? ok("a", "cache-control" => "max-age=60, stale-while-revalidate=60", "age" => "61") : [200, {}, stream] }
      2.times { assert_equal "a", get("/a").body }
      pass_until("the end of the stream") { stream.closed }
    end
  end

  # Such a body waits for events that never come.
  def test_a_body_for_a_client_that_has_left_is_not_read
    in_run do |scope|
      body = Body.new
      def body.each = Thread::Queue.new.pop
      cached do |_|
        wait_here
        [200, {"content-type" => "text/event-stream"}, body]
      end
      client = parked(scope.spawn { get("/a") })
      client.cancel
      client.join
      go_on
      pass_until("the end of the fetch") { @cache.stats[:fetching].zero? }
      assert body.closed
    end
  end
end
