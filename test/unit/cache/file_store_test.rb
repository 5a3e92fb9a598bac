# frozen_string_literal: true

require "test_helper"
require "support/cache_store_contract"
require "support/cache_folder"
require "support/open_files"
require "support/virtual_time"
require "neverblock/cache"

# The store in files that processes share.
class CacheFileStoreTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::CacheStoreContract
  include NeverBlockTest::CacheStoreContract::Namespaces
  include NeverBlockTest::CacheFolder
  include NeverBlockTest::OpenFiles

  def counts? = true

  def test_under_the_stress_of_the_garbage_collector
    assert_stressed(<<~RUBY)
      store = NeverBlock::Cache::FileStore.new(#{@folder.inspect}, bytes: 1 << 24)
    RUBY
  end

  def test_other_processes_share_it
    store.write(KEY, entry("parent", tags: %w[a]))
    assert_child { bodies(KEY) == ["parent"] && store.write(OTHER, entry("child" * 20_000, tags: %w[a])) }
    assert_equal ["child" * 20_000], bodies(OTHER)
    before = store.generation(KEY)
    assert_child { new_store.purge_tag("a") == 2 }
    assert_equal [[], [], false], [bodies(KEY), bodies(OTHER), store.write(KEY, entry("late", tags: %w[a]), generation: before)]
    before = store.generation(KEY)
    assert_child { store.write(KEY, entry("x", tags: %w[a]), generation: before) }
    assert_equal ["x"], bodies(KEY)
  end

  def test_it_is_there_after_a_restart
    store.write(KEY, entry("x" * 100_000))
    store.close
    @store = new_store
    assert_equal ["x" * 100_000], bodies(KEY)
  end

  def test_no_other_user_can_read_it
    File.umask(0).then do |mask|
      store.write(KEY, entry("x", tags: %w[a]))
      store.write(KEY, entry("x", tags: %w[a]))
    ensure
      File.umask(mask)
    end
    modes = all_paths.to_h { |path| [path, File.lstat(path).then { |one| [one.ftype, one.mode & 0o777] }] }
    assert_equal [["directory", 0o700], ["file", 0o600]], modes.values.uniq.sort
  end

  def test_few_descriptors_stay_open
    with(descriptors: 3)
    10.times { |number| store.write(number.to_s, entry("x" * 100_000)) }
    before = Dir.children("/proc/self/fd").size
    kept = Array.new(10) { |number| only(store.read(number.to_s)) }
    assert_operator Dir.children("/proc/self/fd").size, :<=, before + 3
    assert_equal [["xx"]] * 10, kept.map { |one| one.slice(70_000..70_001).to_a }
    assert_equal [100_000] * 10, kept.map { |one| body(one).bytesize }
  end

  def test_a_file_that_is_not_read_is_closed_soon
    store.write(KEY, entry("x" * 100_000))
    found = only(store.read(KEY))
    NeverBlockTest::VirtualTime.during do |clock|
      assert_equal %w[xx], found.slice(0..1).to_a
      clock.advance(11)
      store.read(OTHER)
    end
    refute_predicate found.body, :open?
    assert_equal 100_000, body(found).bytesize, "opened again"
  end

  def test_a_body_that_is_gone_before_it_is_read
    with(descriptors: 1)
    [KEY, OTHER].each { |key| store.write(key, entry("x" * 100_000)) }
    found = only(store.read(KEY))
    store.read(OTHER) # closes the first
    store.purge(KEY)
    error = assert_raises(NeverBlock::Cache::FileStore::Body::Lost) { body(found) }
    assert_match(/can't be read any more: No such file/, error.message)
    assert_kind_of NeverBlock::Error, error
  end

  # The reader's own error must not look like one of the file.
  def test_an_error_of_the_reader
    store.write(KEY, entry("x" * 100_000))
    found = only(store.read(KEY))
    assert_raises(Errno::EPIPE) { found.each { raise Errno::EPIPE } }
    assert_equal 0, store.stats[:errors]
    refute_predicate found.body, :busy?
  end

  def test_many_read_one_file
    bytes = Random.bytes(300_000)
    store.write(KEY, entry(bytes))
    found = only(store.read(KEY))
    NeverBlock.run do |scope|
      tasks = Array.new(50) do |number|
        scope.spawn do
          text = +""
          found.slice(number..).each do |part|
            text << part
            NeverBlock.pass
          end
          text == bytes.byteslice(number..)
        end
      end
      assert tasks.all?(&:value)
    end
    assert_equal 1, open_files.count(files.first)
  end

  def test_a_variant_that_is_used_stays
    with(max_variants: 3)
    3.times { |number| store.write(KEY, entry(number.to_s, vary: [["x", number.to_s]], at: TIME + number)) }
    age_all
    store.touch(KEY, store.read(KEY).last)
    store.write(KEY, entry("3", vary: [["x", "3"]], at: TIME + 3))
    store.write(KEY, entry("4", vary: [["x", "4"]], at: TIME + 4))
    assert_equal %w[4 3 0], bodies(KEY)
    assert_equal [3, 1], store.stats.values_at(:entries, :keys)
    store.touch(OTHER, entry("unknown"))
  end

  # After a process was killed between the two steps of replacing an entry.
  def test_of_two_files_for_the_same_requests_the_newer_one_counts
    store.write(KEY, entry("old", at: TIME))
    path = files.first
    bytes = File.binread(path)
    store.write(KEY, entry("new", at: TIME + 1))
    File.binwrite(path, bytes)
    assert_equal ["new"], bodies(KEY)
    assert_equal 2, store.purge(KEY)
  end

  def test_invalid_options
    {
      {bytes: 0} => /\Abytes: 0 is not/,
      {namespace: "../x"} => /\Anamespace: "..\/x" is not a name/,
      {namespace: ""} => /\Anamespace/,
      {namespace: "a" * 101} => /\Anamespace/,
      {descriptors: 0} => /\Adescriptors: 0/,
      {memory: "x"} => /\Amemory: "x"/,
      {max_entries: nil} => /\Amax_entries: nil/
    }.each do |options, message|
      assert_match message, assert_raises(NeverBlock::ConfigurationError) { new_store(**options) }.message
    end
    ["", " ", nil, "a\0b"].each do |folder|
      error = assert_raises(NeverBlock::ConfigurationError) { NeverBlock::Cache::FileStore.new(folder, bytes: 1 << 20) }
      assert_match(/is not a path/, error.message)
    end
  end
end
