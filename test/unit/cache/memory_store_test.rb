# frozen_string_literal: true

require "test_helper"
require "support/cache_store_contract"
require "neverblock/cache"

# The store in a process's memory.
class CacheMemoryStoreTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::CacheStoreContract

  MemoryStore = NeverBlock::Cache::MemoryStore

  def new_store(bytes: 16 << 20, **options) = MemoryStore.new(bytes:, **options)

  def counts? = true

  def test_the_least_recently_used_leave_when_there_is_no_room
    with(bytes: 4 * 20_000, max_entry: 20_000)
    write("a", "b", "c", "d")
    store.read("a")
    write("e")
    assert_equal %w[a c d e], present("a", "b", "c", "d", "e")
    write("a") # replaced, and used
    write("f")
    assert_equal %w[a d e f], present("a", "b", "c", "d", "e", "f")
    assert_equal [4, 4, 2, 80_000], store.stats.values_at(:entries, :keys, :evicted, :limit)
    assert_operator store.stats[:bytes], :<=, 80_000
  end

  def test_headers_tags_and_keys_take_room_too
    with(bytes: 300_000)
    40.times { |number| store.write("#{number}#{"k" * 8_000}", entry("")) }
    assert_operator store.stats[:entries], :<, 35
    before = store.stats[:entries]
    20.times { |number| store.write(number.to_s, entry("", headers: {"a" => "x" * 10_000}, tags: Array.new(30) { |tag| "#{number}-#{tag}" })) }
    assert_operator store.stats[:bytes], :<=, 300_000
    assert_operator store.stats[:entries], :<, before
    store.clear
    assert_tags 0
  end

  def test_a_variant_that_is_used_stays
    with(max_variants: 3)
    3.times { |number| store.write(KEY, entry(number.to_s, vary: [["x", number.to_s]], at: TIME + number)) }
    store.touch(KEY, store.read(KEY).last)
    store.write(KEY, entry("3", vary: [["x", "3"]], at: TIME + 3))
    assert_equal %w[3 2 0], bodies(KEY)
    assert_equal 1, store.stats[:evicted]
    store.touch(OTHER, entry("unknown"))
  end

  def test_no_tag_is_left_behind
    20.times { |number| store.write((number % 3).to_s, entry("x", tags: ["a", "b#{number}"])) }
    assert_tags 4
    3.times { |number| store.purge(number.to_s) }
    assert_tags 0
  end

  def test_a_hit_makes_no_objects
    store.write(KEY, entry("x"))
    assert_operator objects_per_call(1_000) { store.read(KEY) }, :<=, 1.1
  end

  # Timeout and Thread#raise may come anywhere: here at each line, one after the other.
  def test_an_interrupted_thread_leaves_nothing_half_done
    with(bytes: 60_000, max_entry: 20_000, max_variants: 2)
    steps = [
      -> { 6.times { |number| store.write("a", entry("x" * 9_000, vary: [["x", (number % 4).to_s]], tags: %w[s t])) } },
      -> { 4.times { |number| store.write(number.to_s, entry("x" * 18_000, tags: ["t#{number}", "t"])) } },
      -> { store.read("3") && store.purge("3") },
      -> { store.purge_tag("t") },
      -> { store.clear }
    ]
    interrupted = steps.each_index.sum do |index|
      (0..).find do |line|
        steps.first(index).each(&:call)
        over = interrupt_at(line, &steps[index])
        assert_consistent
        over
      end
    end
    assert_operator interrupted, :>, 100
    steps[1].call
    assert_equal [3, 3], [store.stats[:entries], store.purge_tag("t")], "the line of those that leave is complete"
  end

  def test_it_is_there_in_a_forked_child
    store.write(KEY, entry("x"))
    child = fork { exit!(bodies(KEY) == ["x"] && store.write(OTHER, entry("y")) && store.purge(KEY) == 1) }
    assert_predicate Process.wait2(child).last, :success?
    assert_equal [["x"], []], [bodies(KEY), bodies(OTHER)]
  end

  def test_under_the_stress_of_the_garbage_collector
    assert_stressed("store = NeverBlock::Cache::MemoryStore.new(bytes: 1 << 24)")
  end

  def test_invalid_options
    [{bytes: 0}, {bytes: "much"}, {bytes: 1, max_entry: -1}, {bytes: 1, max_variants: 0}, {bytes: 1, max_tags: "x"}].each do |options|
      error = assert_raises(NeverBlock::ConfigurationError) { MemoryStore.new(**options) }
      assert_match(/\A(bytes|max_entry|max_variants|max_tags): /, error.message)
    end
    assert_equal 2 << 20, MemoryStore.new(bytes: "2 MiB").stats[:limit]
  end

  private

  # @return [Boolean] whether the block has fewer lines
  def interrupt_at(line, &)
    stop = Class.new(StandardError)
    path = MemoryStore.instance_method(:read).source_location.first
    trace = TracePoint.new(:line) do |point|
      Thread.current.raise(stop) if point.path == path && (line -= 1) == -1
    end
    trace.enable(target_thread: Thread.current, &)
    true
  rescue stop
    false
  end

  # What is counted can be read, and is found by its tags. Afterwards the store is empty.
  def assert_consistent
    found = ["a", *"0".."3"].to_h { |key| [key, store.read(key)] }.reject { |_, entries| entries.empty? }
    entries = found.values.flatten
    bytes = found.sum { |key, list| list.sum { |one| one.bytes + key.bytesize } }
    assert_equal [entries.size, found.size, bytes], store.stats.values_at(:entries, :keys, :bytes)
    assert_tags entries.flat_map(&:tags).uniq.size
    until entries.empty?
      tag = entries.first.tags.first
      tagged, entries = entries.partition { |one| one.tags.include?(tag) }
      assert_equal tagged.size, store.purge_tag(tag)
    end
    assert_equal [0, 0, 0], store.stats.values_at(:entries, :keys, :bytes)
    assert_tags 0
  end

  def assert_tags(number) = assert_match(/ #{number} tags,/, store.inspect)

  # Four of them fit.
  def write(*keys) = keys.each { |key| store.write(key, entry("x" * 18_000)) }

  def present(*keys) = keys.reject { |key| store.read(key).empty? }
end
