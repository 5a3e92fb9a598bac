# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "support/runs"
require "tmpdir"
require "neverblock/cache"

# Our stores as Rails.cache.
class CacheStoreTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  def setup
    skip "activesupport is not among the gems here" unless Gem.loaded_specs.key?("activesupport")
    require "neverblock/cache/store"
    @folder = Dir.mktmpdir("nb")
  end

  def teardown
    FileUtils.rm_rf(@folder) if @folder
  end

  def test_values
    each_store do |store|
      values = [1, nil, false, "text", "größer", "\xff".b, {"a" => [1, 2.5, :b]}, Time.at(0), "x" * 300_000]
      values.each_with_index { |value, n| assert store.write("k#{n}", value) }
      assert_equal values, Array.new(values.size) { |n| store.read("k#{n}") }
      assert_equal [true, false], [store.exist?("k1"), store.exist?("none")]
      assert_equal({"k0" => 1, "k3" => "text"}, store.read_multi("k0", "k3", "none"))
      store.write_multi({"m1" => 1, "m2" => 2})
      assert_equal({"m1" => 1, "m2" => 2, "m3" => "m3"}, store.fetch_multi("m1", "m2", "m3") { |key| key })
      assert_equal [true, false], [store.delete("k0"), store.delete("k0")]
      assert_equal 2, store.delete_multi(%w[m1 m2 none])
      store.clear
      assert_nil store.read("k3")
    end
  end

  def test_a_value_of_the_caller_is_not_the_stored_one
    each_store do |store|
      value = +"a"
      store.write("k", value)
      value << "b"
      store.read("k") << "c"
      assert_equal "a", store.read("k")
    end
  end

  def test_lifetimes_versions_and_namespaces
    each_store do |store|
      store.write("short", 1, expires_in: 60)
      assert_equal [1, nil], [59, 61].map { |seconds| later(seconds) { store.read("short") } }
      store.write("v", 1, version: 1)
      assert_equal [1, nil], [store.read("v", version: 1), store.read("v", version: 2)]
      store.write("k", 1, namespace: "a")
      assert_equal [1, nil], [store.read("k", namespace: "a"), store.read("k")]
      assert_equal [true, false], Array.new(2) { |n| store.write("once", n, unless_exist: true) }
      assert_equal 0, store.read("once")
    end
  end

  def test_counters
    each_store do |store|
      assert_equal [1, 3, 2], [store.increment("n"), store.increment("n", 2), store.decrement("n")]
      Array.new(4) { Thread.new { 25.times { store.increment("n") } } }.each(&:join)
      assert_equal 102, store.read("n")
      store.increment("limit", 1, expires_in: 60)
      later(59) { assert_equal 2, store.increment("limit", 1, expires_in: 60) }
      later(61) { assert_equal [nil, 1], [store.read("limit"), store.increment("limit")] }
    end
  end

  def test_fetch_collapses
    each_store do |store|
      calls = 0
      gate = Thread::Queue.new
      values = in_run do |scope|
        tasks = Array.new(20) { scope.spawn { store.fetch("k", collapse: true) { (calls += 1) && gate.pop } } }
        tasks.each { |task| parked(task) }
        gate << "value"
        tasks.map(&:value)
      end
      assert_equal [["value"], 1], [values.uniq, calls]
      assert_equal "value", store.fetch("k") { flunk }
    end
  end

  # Rails sets it.
  def test_an_internal_encoding_converts_nothing
    verbose, $VERBOSE = $VERBOSE, nil
    internal = Encoding.default_internal
    Encoding.default_internal = Encoding::UTF_8
    each_store do |store|
      store.write("k", "\xff\xfe".b)
      assert_equal "\xff\xfe".b, store.read("k")
    end
  ensure
    Encoding.default_internal = internal
    $VERBOSE = verbose
  end

  def test_a_folder_is_shared_by_processes
    one = NeverBlock::Cache::Store.new("file:#{@folder}/shared?bytes=10m")
    one.write("k", "old")
    child = fork do
      NeverBlock::Cache::Store.new("file:#{@folder}/shared?bytes=10m").write("k", "new")
      exit!(0)
    end
    Process.wait(child)
    assert_equal "new", one.read("k")
  end

  def test_memory_is_bounded_and_damage_is_a_miss
    store = NeverBlock::Cache::Store.new("memory:1m")
    100.times { |n| store.write("k#{n}", "x" * 50_000, compress: false) }
    assert_operator store.stats[:bytes], :<=, 1 << 20
    assert_equal 50_000, store.read("k99").size
    store = NeverBlock::Cache::Store.new("file:#{@folder}/damaged?bytes=10m")
    store.write("k", "x" * 5_000, compress: false)
    files = Dir["#{@folder}/damaged/**/*"].select { |file| File.file?(file) && File.size(file) > 5_000 }
    refute_empty files
    files.each { |file| File.binwrite(file, File.binread(file).tr("x", "y")) }
    assert_nil NeverBlock::Cache::Store.new("file:#{@folder}/damaged?bytes=10m").read("k")
  end

  def test_wrong_options
    assert_raises(NeverBlock::ConfigurationError) { NeverBlock::Cache::Store.new("disk:/x") }
    assert_raises(NotImplementedError) { NeverBlock::Cache::Store.new.delete_matched(/a/) }
    assert_match(/NeverBlock::Cache::Store/, NeverBlock::Cache::Store.new.inspect)
  end

  private

  # Rails notes and compares Time.now.
  def later(seconds, &) = Time.stub(:now, Time.now + seconds, &)

  def each_store
    yield NeverBlock::Cache::Store.new
    yield NeverBlock::Cache::Store.new("file:#{@folder}/store?bytes=10m")
  end
end
