# frozen_string_literal: true

require "test_helper"
require "support/cache_store_contract"
require "support/virtual_time"
require "neverblock/cache"
require "tmpdir"

# Any store of Rails beneath the cache.
module CacheActiveSupportStoreTest
  # What is so with each of them.
  module Shared
    include NeverBlockTest::Helpers
    include NeverBlockTest::CacheStoreContract
    include NeverBlockTest::CacheStoreContract::Namespaces
    include NeverBlockTest::VirtualTime

    ActiveSupportStore = NeverBlock::Cache::ActiveSupportStore

    def setup
      skip "activesupport is not among the gems here" unless Gem.loaded_specs.key?("activesupport")
      require "active_support"
      require "active_support/cache"
      @lines = []
    end

    def new_store(**options)
      ActiveSupportStore.new(@cache ||= new_cache, log: ->(line) { @lines << line }, **options)
    end

    def counts? = false

    def test_other_processes_purge_it
      other = new_store
      store.write(KEY, entry("x", tags: %w[a]))
      assert_equal ["x"], other.read(KEY).map { |one| body(one) }
      [[:purge, KEY], [:purge_tag, "a"], [:clear]].each do |purge|
        before = store.generation(KEY)
        other.public_send(*purge)
        assert_equal [[], false], [store.read(KEY), store.write(KEY, entry("late", tags: %w[a]), generation: before)]
        assert store.write(KEY, entry("x", tags: %w[a]))
      end
    end

    # Between each two steps of the writer.
    def test_a_purge_at_any_time_of_a_write
      [[:purge, KEY], [:purge_tag, "a"], [:clear]].each do |purge|
        (0..30).find do |place|
          before = store.generation(KEY)
          over = at_step(place, -> { new_store.public_send(*purge) }) { store.write(KEY, entry("late", tags: %w[a b]), generation: before) }
          assert_equal [], store.read(KEY), "#{purge} at #{place}" unless over
          over
        end => places
        assert_operator places, :>, 5
        assert_equal ["late"], bodies(KEY)
        store.clear
      end
    end

    # And of the purge.
    def test_a_write_at_any_time_of_a_purge
      [[:purge, KEY], [:purge_tag, "a"], [:clear]].each do |purge|
        (0..10).find do |place|
          before = store.generation(KEY)
          over = at_step(place, -> { new_store.write(KEY, entry("late", tags: %w[a]), generation: before) }) { store.public_send(*purge) }
          assert_equal [], store.read(KEY), "#{purge} at #{place}"
          over
        end
      end
    end

    def test_marks_that_are_lost_cost_the_entries
      store.write(KEY, entry("x", tags: %w[a]))
      names.each do |name|
        value = @cache.read(name, raw: true)
        @cache.delete(name)
        next @cache.write(name, value, raw: true) if name.end_with?(":tags") # is for writers
        assert_equal [], store.read(KEY), name
        store.generation(KEY) # makes a new one
        assert_equal [], store.read(KEY), name unless name.match?(/:[ie]:/)
        @cache.write(name, value, raw: true)
      end
      assert_equal ["x"], bodies(KEY)
    end

    def test_damaged_and_foreign_values
      store.write(KEY, entry("hello", tags: %w[a]))
      name = names.find { |one| one.include?(":e:") }
      good = @cache.read(name, raw: true).b
      good.bytesize.times do |place|
        next unless (place % 7).zero?
        bad = good.dup
        bad.setbyte(place, bad.getbyte(place) ^ 1)
        @cache.write(name, bad, raw: true)
        assert_equal [], store.read(KEY), place
      end
      ["", "x", good[0..-2], "#{good}x", 1, nil, [good], {a: 1}].each do |value|
        @cache.write(name, value, raw: true)
        assert_equal [], store.read(KEY), value.inspect
      end
      assert_operator store.stats[:errors], :>, 10
      assert_equal 1, @lines.size
      index = names.find { |one| one.include?(":i:") }
      @cache.write(name, good, raw: true)
      ["", "{}", "[1]", "[\"../x\"]", "[[]]", "x", "\xff", 5, nil].each do |value|
        @cache.write(index, value, raw: true)
        assert_equal [], store.read(KEY), value.inspect
      end
    end

    def test_a_store_that_fails
      store.write(KEY, entry("x", tags: %w[a]))
      failing(:read_multi) do
        assert_equal [[], false, :unknown], [store.read(KEY), store.write(KEY, entry("y")), store.generation(KEY)]
      end
      refute store.write(KEY, entry("y"), generation: :unknown)
      assert_equal ["x"], bodies(KEY)
      assert_match(/\Athe cache in .*Store: no connection \(IOError\)/, @lines.first)
    end

    def test_after_a_failed_purge_nothing_is_read
      [[:purge, KEY], [:purge_tag, "a"], [:clear]].each do |purge|
        @store = new_store
        store.write(KEY, entry("x", tags: %w[a]))
        failing(:write) { assert_equal 0, store.public_send(*purge) }
        assert_equal [[], false], [store.read(KEY), store.write(OTHER, entry("y"))]
        clock.advance(6)
        assert store.write(OTHER, entry("y")), "it was emptied first"
        assert_equal [[], ["y"]], [bodies(KEY), bodies(OTHER)]
      end
    end

    # RedisCacheStore returns false when it has no connection.
    def test_a_purge_that_the_store_does_not_take
      store.write(KEY, entry("x"))
      @cache.define_singleton_method(:write) { |*, **| false }
      store.purge(KEY)
      assert_equal [[], 1], [store.read(KEY), store.stats[:errors]]
    end

    # Rails' cache of one request must not hide another process's purge.
    def test_within_rails_cache_of_a_request
      @cache = new_cache.extend(ActiveSupport::Cache::Strategy::LocalCache)
      store.write(KEY, entry("x"))
      @cache.with_local_cache do
        assert_equal ["x"], bodies(KEY)
        before = store.generation(KEY)
        Thread.new { new_store.purge(KEY) }.join
        assert_equal [], store.read(KEY)
        refute store.write(KEY, entry("late"), generation: before)
      end
    end

    def test_invalid_options
      [{namespace: "a b"}, {namespace: nil}, {max_entry: 0}, {max_variants: "x"}].each do |options|
        assert_raises(NeverBlock::ConfigurationError) { new_store(**options) }
      end
    end

    private

    # Calls `change` before a step of the store beneath.
    # @return [Boolean] whether the block has fewer steps
    def at_step(place, change)
      count = -1
      %i[read_multi write delete].each do |name|
        @cache.define_singleton_method(name) do |*arguments, **options|
          change.call if (count += 1) == place
          super(*arguments, **options)
        end
      end
      yield
      count < place
    ensure
      %i[read_multi write delete].each { |name| @cache.singleton_class.remove_method(name) }
    end

    def failing(method)
      @cache.define_singleton_method(method) { |*, **| raise IOError, "no connection" }
      yield
    ensure
      @cache.singleton_class.remove_method(method)
    end
  end

  # In memory.
  class Memory < Minitest::Test
    include Shared

    def new_cache = ActiveSupport::Cache::MemoryStore.new(size: 64 << 20)

    def names = @cache.instance_variable_get(:@data).keys
  end

  # In files.
  class Files < Minitest::Test
    include Shared

    def setup
      super
      @folder = Dir.mktmpdir("neverblock-cache-test")
    end

    def teardown
      FileUtils.remove_entry(@folder) if @folder
    end

    # ActiveSupport::Cache::FileStore removes empty folders that another thread is writing into.
    def fails_at_times? = true

    def new_cache = ActiveSupport::Cache::FileStore.new(@folder)

    def names = Dir.glob("#{@folder}/**/*").select { |path| File.file?(path) }.map { |path| @cache.send(:file_path_key, path) }
  end
end
