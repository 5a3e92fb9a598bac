# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"
require "support/cached_app"
require "support/cache_folder"

# Purges of all caches of a process.
class CacheRegistryTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::CacheFolder
  include NeverBlockTest::CachedApp

  Cache = NeverBlock::Cache

  # Notes what it is asked to purge.
  class Purged
    attr_reader :tags
    attr_writer :count

    def initialize(&count)
      @tags = []
      @count = count || -> { 0 }
    end

    def purge_tag(tag)
      @tags << tag
      @count.call
    end
  end

  # Caches of other tests may not have been collected yet.
  def setup
    super
    @purged = []
    Cache.purge_url("http://example.org/a")
  end

  def teardown
    @purged.each { |object| object.count = -> { 0 } }
    super
  end

  # Otherwise a request in between would fetch the old response from there.
  def test_stores_further_inside_are_purged_first
    cache = tagged("news")
    entries_then = nil
    inner = Object.new
    inner.define_singleton_method(:purge_tag) { |_| entries_then = cache.stats[:entries] }
    Cache.register(inner)
    Cache.purge_tag("news")
    assert_equal [1, 0], [entries_then, cache.stats[:entries]]
  end

  def test_each_cache_is_purged_by_tag
    caches = Array.new(2) { tagged("news, Post-7") }
    assert_equal 2, Cache.purge_tag("news")
    assert_equal [0, 0], entries(caches)
    assert_equal 0, Cache.purge_tag("news")
  end

  def test_each_cache_is_purged_by_url
    caches = Array.new(2) { tagged("news") }
    assert_equal 2, Cache.purge_url("http://example.org/a", "http://example.org/b")
    assert_equal [0, 0], entries(caches)
  end

  def test_several_tags_count_together_and_a_response_once
    caches = [tagged("one, two")]
    assert_equal 1, Cache.purge_tag("one", "two", "one")
    assert_equal [0], entries(caches)
    assert_equal 0, Cache.purge_tag
    assert_equal 0, Cache.purge_url
  end

  # Cache-Tag is read without regard to case, and as bytes.
  def test_a_tag_is_found_in_any_case_and_encoding
    caches = [tagged("Post-7"), tagged("k\u00fche")]
    assert_equal 1, Cache.purge_tag("POST-7")
    assert_equal 1, Cache.purge_tag("k\u00fche")
    assert_equal [0, 0], entries(caches)
    caches = [tagged("Post-7"), tagged("k\u00fche", store: file_store)]
    assert_equal 1, caches.first.purge_tag("Post-7")
    assert_equal 1, caches.last.purge_tag("k\u00fche")
  end

  def test_what_can_not_be_a_tag_or_a_url_is_refused
    [nil, :news, "", " ", "a, b", ["a"]].each do |tag|
      assert_match(/purge_tag: .* is not a tag/, assert_raises(ArgumentError) { Cache.purge_tag("news", tag) }.message)
    end
    [nil, "", "/a", "ftp://example.org/", :a].each do |url|
      assert_match(/ is not a URL/, assert_raises(ArgumentError) { Cache.purge_url("http://a/", url) }.message)
    end
  end

  def test_nothing_is_purged_if_one_of_the_tags_is_refused
    cache = tagged("news")
    assert_raises(ArgumentError) { Cache.purge_tag("news", nil) }
    assert_equal [1], entries([cache])
  end

  def test_other_objects_can_be_registered
    object = registered { 3 }
    assert_equal 6, Cache.purge_tag("a", "b")
    assert_equal %w[a b], object.tags
    assert_equal 0, Cache.purge_url("http://example.org/nothing"), "it has no method purge"
    assert_match(/has no method purge_tag/, assert_raises(ArgumentError) { Cache.register(Object.new) }.message)
  end

  # NeverBlock::ActionCaching registers itself when it is loaded.
  def test_action_caching_without_a_rails_app_has_nothing_to_purge
    assert_child do
      require "neverblock"
      NeverBlock::ActionCaching.purge_tag("a").nil? && Cache.purge_tag("a").zero?
    end
  end

  def test_an_object_without_a_count_counts_as_none
    object = registered { true }
    assert_equal 0, Cache.purge_tag("a")
    assert_equal ["a"], object.tags
  end

  def test_one_that_fails_does_not_keep_the_others_from_being_purged
    objects = [registered { raise "trouble 0" }, registered, registered { raise "trouble 1" }, registered]
    assert_match(/\Atrouble [01]\z/, assert_raises(RuntimeError) { Cache.purge_tag("a", "b") }.message)
    assert_equal [%w[a b]] * 4, objects.map(&:tags)
  end

  def test_a_cache_that_nothing_needs_is_collected
    registered = ObjectSpace::WeakMap.new
    make = lambda do
      100.times { registered[tagged("weak")] = true }
      nil
    end
    make.call
    wait_until("a collected cache") do
      GC.start
      registered.size < 100
    end
    assert_operator Cache.purge_tag("weak"), :<, 100
  end

  def test_a_forked_child_purges_its_own_caches
    cache = tagged("news")
    assert_child { Cache.purge_tag("news") >= 1 && cache.stats[:entries].zero? }
    assert_equal [1], entries([cache])
  end

  def test_a_file_store_is_purged_for_all_processes
    cache = tagged("news", store: file_store)
    assert_child { Cache.purge_tag("news") >= 1 }
    assert_equal [0], entries([cache])
  end

  def test_threads_register_and_purge_at_the_same_time
    threads = Array.new(4) { Thread.new { Array.new(200) { |n| Cache.purge_tag("t#{n}") && Purged.new.tap { |one| Cache.register(one) } } } }
    assert_equal 800, threads.flat_map(&:value).size
  end

  private

  def registered(&)
    object = Purged.new(&)
    @purged << object
    Cache.register(object)
    object
  end

  def file_store = "file:#{path}?bytes=10m"

  def tagged(tags, **options)
    cached(**options) { |_| ok("a page", "cache-control" => "max-age=60", "cache-tag" => tags) }
    get("/a")
    wait_until("a stored response") { @cache.stats.values_at(:entries, :fetching) == [1, 0] }
    @cache
  end

  def entries(caches) = caches.map { |cache| cache.stats[:entries] }
end
