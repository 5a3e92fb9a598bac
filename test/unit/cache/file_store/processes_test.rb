# frozen_string_literal: true

require "test_helper"
require "support/cache_store_contract"
require "support/cache_folder"
require "neverblock/cache"

# Several processes at once, some of which are killed.
class CacheFileStoreProcessesTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::CacheFolder

  Entry = NeverBlock::Cache::Entry
  KEYS = %w[a b c].freeze

  def setup
    super
    @store = new_store
    @children = []
  end

  def teardown
    @children.dup.each { |child| kill(child) }
    super
  end

  # An entry is complete, or not there; and no lock stays.
  def test_killed_writers
    writers = Array.new(2) { writer }
    reads = 0
    12.times do |round|
      wait_until("an entry") { KEYS.any? { |key| (reads += check(key)) > round } }
      writers.each { |child| kill(child) } if round.even?
      writers = Array.new(2) { writer } if round.even?
      KEYS.each { |key| @store.purge(key) } if round % 3 == 0
    end
    @children.dup.each { |child| kill(child) }
    assert_equal 0, @store.stats[:errors], @lines
    KEYS.each { |key| check(key) }
    left = temporary
    left.each { |path| File.utime(Time.now - 700, Time.now - 700, path) }
    @store.sweep
    assert_empty temporary
    assert_equal files.size, @store.stats[:entries]
    assert_operator @store.purge_tag("t"), :>=, 1
    assert_empty files, "each entry had its tag"
  end

  # What was fetched before a purge is never seen after it. The number is that of the last purge before the fetch.
  def test_what_other_processes_fetched_before_a_purge_is_never_read_after_it
    {purge: ["a"], purge_tag: ["t"], clear: []}.each do |purge, arguments|
      File.write(counter = File.join(@folder, "counter"), "0")
      fetchers = Array.new(2) do
        child { loop { fetch(counter) } }
      end
      seen = 0
      (1..40).each do |number|
        File.write("#{counter}.new", number.to_s)
        File.rename("#{counter}.new", counter)
        @store.public_send(purge, *arguments)
        wait_until("another entry") { (seen = newest(number)) || number.even? }
      end
      assert_equal 0, @store.stats[:errors], @lines
      fetchers.each { |fetcher| kill(fetcher) }
    end
  end

  def test_processes_that_evict_at_once
    @store = new_store(bytes: 1_000_000, max_entry: 100_000)
    done = Array.new(3) do |number|
      child do
        store = new_store(bytes: 1_000_000, max_entry: 100_000)
        80.times { |round| store.write("#{number}-#{round}", entry("x" * 30_000, ["t#{round % 5}"])) }
        store.stats[:errors].zero?
      end
    end
    300.times { |round| @store.read("#{round % 3}-#{round % 80}").each { |one| assert_equal 30_000, one.each.sum(&:bytesize) } }
    done.each { |child| assert_predicate Process.wait2(@children.delete(child)).last, :success? }
    assert_operator files.sum { |path| File.size(path) }, :<=, 1_250_000
    @store.sweep
    assert_equal [files.size, 0], @store.stats.values_at(:entries, :errors)
    assert_operator @store.stats[:bytes], :<=, 1_000_000
    5.times { |tag| @store.purge_tag("t#{tag}") }
    assert_equal [[], [0, 0, 0]], [files, @store.stats.values_at(:entries, :keys, :bytes)]
  end

  private

  def child(&)
    @children << in_child(&)
    @children.last
  end

  def kill(child)
    return unless @children.delete(child)
    Process.kill(:KILL, child)
    Process.wait(child)
  end

  def writer
    child do
      store = new_store
      texts = %w[x y z].map { |letter| letter * 150_000 }
      loop { KEYS.each { |key| store.write(key, entry(texts.sample, %w[t u])) } }
    end
  end

  def check(key)
    @store.read(key).count do |one|
      text = one.each.to_a.join
      assert_equal [150_000, 1], [text.bytesize, text.squeeze.size]
      true
    end
  end

  def fetch(counter)
    before = @store.generation("a")
    text = File.read(counter)
    @store.write("a", entry(text, ["t"]), generation: before)
  end

  # @return [Integer, nil] the number that is stored
  def newest(least)
    text = @store.read("a").first&.each.to_a.join
    assert_operator text.to_i, :>=, least unless text.empty?
    text.to_i unless text.empty?
  end

  def entry(text, tags)
    Entry.new(status: 200, headers: {"a" => "b"}, chunks: [text], requested_at: 1.0, responded_at: 2.0, tags:)
  end
end
