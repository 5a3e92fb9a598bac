# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"
require "support/cached_app"
require "support/cache_folder"

# Two releases of an app, with one store.
class CacheRevisionTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::CacheFolder
  include NeverBlockTest::CachedApp

  Cache = NeverBlock::Cache
  LIFETIME = {"cache-control" => "max-age=60", "cache-tag" => "pages"}.freeze

  def teardown
    Cache.default_revision = nil
    @caches&.each { |cache| wait_until("the end of all fetches") { cache.stats[:fetching].zero? } }
    super
  end

  {"memory" => -> { Cache::MemoryStore.new(bytes: 10 << 20) }, "file" => -> { new_store }}.each do |kind, store|
    define_method(:"test_a_release_misses_what_another_one_has_stored_in_a_#{kind}_store") do
      releases("old", "new", store: instance_exec(&store))
      assert_equal [%w[old new]] * 2, Array.new(2) { both { get("/a").body } }
      assert_equal [1, 1], @asked.values
    end

    define_method(:"test_a_purge_reaches_both_releases_in_a_#{kind}_store") do
      releases("old", "new", store: instance_exec(&store))
      both { stored { get("/a") } }
      assert_equal 2, @caches.first.purge("http://example.org/a")
      both { stored { get("/a") } }
      assert_equal 2, @caches.last.purge_tag("pages")
      assert_equal %w[old new], both { get("/a").body }
      assert_equal [3, 3], @asked.values
    end

    define_method(:"test_a_request_that_changes_a_page_reaches_both_releases_in_a_#{kind}_store") do
      releases("old", "new", store: instance_exec(&store))
      both { stored { get("/a") } }
      @cache = @caches.first
      request("POST", "/a")
      assert_equal 0, @cache.stats[:entries]
    end
  end

  # Each worker has a store object of its own, in one folder.
  def test_an_old_worker_fills_no_key_of_the_new_release
    releases("old", "new", stores: [new_store, new_store])
    @cache = @caches.first
    stored { get("/a") }
    @cache = @caches.last
    assert_equal "NeverBlock; fwd=uri-miss; fwd-status=200; stored", stored { get("/a") }.headers["cache-status"]
    assert_equal "new", get("/a").body
    assert_match(/hit/, get("/a").headers["cache-status"])
    assert_equal 2, @cache.stats[:entries]
  end

  # Whatever is fetched while another release purges is not stored.
  def test_a_purge_by_the_new_release_counts_for_a_fetch_of_the_old_one
    releases("old", "new", store: new_store)
    purge = -> { @caches.last.purge_tag("pages") }
    @during = purge
    @cache = @caches.first
    get("/a")
    wait_until("the end of the fetch") { @cache.stats[:fetching].zero? }
    assert_equal 0, @cache.stats[:entries]
  end

  # They are read by no release any more, so they are the least recently used.
  def test_entries_of_an_old_release_leave_first
    releases("old", "new", store: new_store(max_entries: 4))
    old = on(0) { Array.new(2) { |number| stored { get("/#{number}") } } && files }
    age_all
    on(1) do
      2.times { |number| stored { get("/#{number}") } }
      3.times { |number| get("/#{number % 2}") } # reads of the same URLs are no uses of the old entries
      assert_empty old - files
      stored { get("/2") }
      assert_empty old & files, "there was room for 0.9 * 4 entries"
      3.times { |number| assert_match(/hit/, get("/#{number}").headers["cache-status"]) }
    end
  end

  def test_without_a_revision_nothing_of_a_release_is_used
    releases(nil, "new", store: new_store)
    assert_equal [nil.to_s, "new"], both { stored { get("/a") }.body }
    assert_equal [nil.to_s, "new"], both { get("/a").body }
    assert_equal [1, 1], @asked.values
  end

  def test_a_request_can_not_name_a_revision
    releases(nil, "new", store: new_store)
    @cache = @caches.last
    stored { get("/a") }
    @cache = @caches.first
    %w[HTTP_REVISION HTTP_Revision HTTP_:REVISION].each { |name| assert_equal "", get("/a", name => "new").body }
  end

  def test_the_default_is_that_of_the_process
    Cache.default_revision = "4f2a91c"
    assert_match(/^revision: 4f2a91c$/, explained)
    refute_match(/REVISION/, explained)
    assert_match(/^revision: b$/, explained(revision: "b"))
    refute_match(/revision/i, explained(revision: nil))
  end

  def test_a_hit_is_explained_with_its_revision_apart_from_the_headers
    cached(revision: "4f2a91c") { |_| ok("a", **LIFETIME, "vary" => "accept-language") }
    stored { get("/a", "HTTP_ACCEPT_LANGUAGE" => "de") }
    lines = @cache.explain(env_of("GET", "/a", "HTTP_ACCEPT_LANGUAGE" => "de")).to_s.lines(chomp: true)
    assert_equal ["key: http://example.org/a", "revision: 4f2a91c", "headers of the key: accept-language \"de\""], lines.first(3)
    assert_match(/\Aa stored response is used/, lines.last)
  end

  def test_what_can_not_be_a_revision_is_refused
    ["", "a b", "\u00fc", :a, 7, "x" * 101, "a\n"].each do |value|
      error = assert_raises(NeverBlock::ConfigurationError) { cached(revision: value) { |_| ok("") } }
      assert_match(/\Arevision: .* is not a text of 1 to 100 visible ASCII characters/, error.message)
      assert_raises(NeverBlock::ConfigurationError) { Cache.default_revision = value }
    end
    assert_nil Cache.default_revision
  end

  private

  def releases(*names, store: nil, stores: [store, store])
    @asked = {}
    @caches = names.zip(stores).map do |name, one|
      @asked[name] = 0
      cached(revision: name, store: one) do |env|
        @asked[name] += 1
        @during&.call
        ok(name.to_s, **((env["REQUEST_METHOD"] == "GET") ? LIFETIME : {}))
      end
    end
  end

  def both = Array.new(2) { |number| on(number) { yield } }

  def on(number)
    @cache = @caches[number]
    yield
  end

  def stored
    response = yield
    wait_until("a stored response") { @cache.stats[:fetching].zero? }
    response
  end

  def explained(**)
    cached(**) { |_| ok("a") }
    @cache.explain(env_of("GET", "/a")).to_s
  end
end
