# frozen_string_literal: true

require "test_helper"
require "support/cache_store_contract"
require "support/runs"
require "support/virtual_time"
require "neverblock/cache"

# A store in memory over another one.
class CacheTwoLevelsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::CacheStoreContract
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  TwoLevels = NeverBlock::Cache::TwoLevels

  # The other store, as a remote one, which can stop to respond.
  class Remote < NeverBlock::Cache::MemoryStore
    attr_reader :reads
    attr_accessor :resting

    def initialize(...)
      super
      @reads = 0
      @resting = false
    end

    def resting? = @resting

    def fit?(key, entry) = @limits.fit?(key, entry)

    def read(key)
      @reads += 1
      @resting ? [] : super
    end

    def generation(key) = @resting ? :unknown : super

    def write(key, entry, generation: nil) = !@resting && super
  end

  def new_store(fresh_for: 1, memory: 8 << 20, **options)
    @remote = Remote.new(bytes: 64 << 20, **options)
    TwoLevels.new(bytes: memory, over: @remote, fresh_for:)
  end

  def counts? = true

  def test_memory_is_read_for_a_moment
    store.write(KEY, entry("x"))
    assert_equal [["x"]] * 5, Array.new(5) { bodies(KEY) }
    assert_equal 1, @remote.reads
    clock.advance(0.9)
    bodies(KEY)
    assert_equal 1, @remote.reads
    clock.advance(0.2)
    assert_equal ["x"], bodies(KEY)
    assert_equal 2, @remote.reads
  end

  def test_a_purge_by_another_process_is_seen_after_that
    store.write(KEY, entry("x"))
    bodies(KEY)
    @remote.purge(KEY)
    assert_equal ["x"], bodies(KEY)
    clock.advance(1.1)
    assert_equal [], bodies(KEY)
  end

  def test_what_is_not_stored_is_asked_for_again
    2.times { assert_equal [], store.read(KEY) }
    @remote.write(KEY, entry("x"))
    assert_equal ["x"], bodies(KEY)
  end

  # A copy of an entry that this process has written is not all that there is.
  def test_variants_of_other_processes
    store
    @remote.write(KEY, entry("theirs", vary: [["x", "1"]]))
    store.write(KEY, entry("ours", vary: [["x", "2"]]))
    assert_equal %w[ours theirs], bodies(KEY).sort
  end

  def test_a_write_changes_a_copy_that_was_read
    store.write(KEY, entry("old"))
    bodies(KEY)
    clock.advance(0.5)
    store.write(KEY, entry("new"))
    assert_equal [["new"], 1], [bodies(KEY), @remote.reads]
    clock.advance(0.6)
    assert_equal [["new"], 2], [bodies(KEY), @remote.reads], "it lasts no longer for it"
  end

  def test_each_wanted_selection_is_read
    store.write(KEY, entry("x"))
    all = ->(_) { true }
    2.times { store.read(KEY, &all) }
    assert_equal 1, @remote.reads
    store.read(KEY)
    assert_equal 2, @remote.reads
  end

  def test_what_was_read_before_a_purge_or_write_is_not_kept
    changes = [-> { store.purge(KEY) }, -> { store.clear }, -> { store.purge_tag("t") }, -> { store.write(KEY, entry("new")) }]
    changes.each do |change|
      store.clear
      store.write(KEY, entry("old", tags: %w[t]))
      store.look_again(KEY)
      @remote.define_singleton_method(:read) do |key, &wanted|
        super(key, &wanted).tap { change&.call && change = nil }
      end
      store.read(KEY)
      refute_includes bodies(KEY), "old"
      @remote.singleton_class.remove_method(:read)
    end
  end

  def test_while_the_other_store_does_not_respond
    store.write(OTHER, entry("other"))
    @remote.resting = true
    before = store.generation(KEY)
    assert store.write(KEY, entry("x", tags: %w[t]), generation: before)
    assert_equal [["x"], []], [bodies(KEY), store.read("#{KEY}2")]
    refute store.write(KEY, entry("y", headers: {"a" => "b\nc"})), "it is checked as always"
    store.purge_tag("t")
    refute store.write(KEY, entry("late", tags: %w[t]), generation: before)
    assert_equal [], bodies(KEY)
    store.write(KEY, entry("z"))
    clock.advance(1.1)
    assert_equal [], bodies(KEY)
  end

  def test_memory_is_bounded
    @store = new_store(memory: 100_000)
    20.times { |number| store.write("k#{number}", entry("x" * 20_000)) }
    store.write("large", entry("x" * 200_000))
    assert_equal 4, copies
    assert_equal ["x" * 20_000], bodies("k1")
    store.clear
    4.times { |number| store.write("k#{number}", entry("x" * 20_000)) }
    assert_equal 4, copies
  end

  def test_settings
    {{memory: "1m", over: "memory:2m"} => nil, "memory:1m?over=memory:2m&fresh_for=0.5" => nil,
     {memory: "1m", over: "memory:2m", max_tags: 3} => /max_tags belongs to the store/, {memory: "1m", over: "x"} => /none that is known/,
     {memory: "1m", over: "memory:2m", fresh_for: 0} => /fresh_for: 0 is not a number of seconds/}.each do |spec, message|
      next assert_instance_of(TwoLevels, NeverBlock::Cache::Stores.open(spec)) unless message
      error = assert_raises(NeverBlock::ConfigurationError) { NeverBlock::Cache::Stores.open(spec) }
      assert_match message, error.message
    end
  end

  def test_it_has_leases_if_the_other_store_has
    assert_nil store.leases
    @remote.define_singleton_method(:leases) { :some }
    assert_equal :some, store.leases
  end

  private

  # Reads all entries. @return [Integer] how many are then read without the other store, the youngest first, as each
  # that is not drives one out.
  def copies
    20.times { |number| store.read("k#{number}") }
    19.downto(0).count do |number|
      before = @remote.reads
      !store.read("k#{number}").empty? && @remote.reads == before
    end
  end
end
