# frozen_string_literal: true

require "test_helper"
require "support/at_call"
require "support/cache_store_contract"
require "support/cache_folder"
require "support/virtual_time"
require "neverblock/cache"

# Disks that are full, folders that vanish or are not safe, processes that stop, and what is left of killed ones.
class CacheFileStoreTroubleTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::AtCall
  include NeverBlockTest::CacheFolder

  Entry = NeverBlock::Cache::Entry
  FileStore = NeverBlock::Cache::FileStore
  KEY = "https://example.org/"
  OTHER = "https://example.org/other"

  # A limit of the process stands for a full disk: the write fails in its middle.
  def test_a_full_disk
    store.write(KEY, entry("small", tags: %w[a]))
    assert_child do
      trap(:XFSZ, "IGNORE")
      Process.setrlimit(:FSIZE, 100_000)
      results = [store.write(OTHER, entry("x" * 200_000)), store.write(OTHER, entry("x" * 300_000)), store.write(KEY, entry("y"))]
      results == [false, false, true] && read(KEY) == ["y"] && store.stats.values_at(:errors, :refused) == [2, 2] &&
        @lines.size == 1 && @lines.first.match?(/File too large.*EFBIG/) && temporary.empty?
    end
    assert_equal [["y"], []], [read(KEY), read(OTHER)]
    assert_equal [1, 1], store.stats.values_at(:entries, :keys)
  end

  # Purges need no room.
  def test_a_purge_on_a_full_disk
    store.write(KEY, entry("x", tags: %w[a]))
    before = store.generation(KEY)
    assert_child do
      trap(:XFSZ, "IGNORE")
      Process.setrlimit(:FSIZE, 66_000)
      store.purge_tag("a") == 1 && store.purge(KEY).zero? && store.stats[:errors].zero?
    end
    refute store.write(KEY, entry("late", tags: %w[a]), generation: before)
  end

  def test_a_folder_that_vanishes_is_made_again
    store.write(KEY, entry("x", tags: %w[a]))
    before = store.generation(KEY)
    FileUtils.rm_rf(path)
    assert_equal [[], 0], [read(KEY), store.purge(KEY)]
    refute store.write(KEY, entry("late"), generation: before), "the purge is recorded elsewhere"
    FileUtils.rm_rf(path("default"))
    assert store.write(KEY, entry("new", tags: %w[a]), generation: store.generation(KEY))
    assert_equal [["new"], 1, 0], [read(KEY), store.purge_tag("a"), store.stats[:errors]]
    FileUtils.rm_rf(path("default", "e"))
    assert store.write(KEY, entry("again"))
    assert_equal ["again"], read(KEY)
  end

  def test_a_folder_that_is_none_any_more
    store.write(KEY, entry("x"))
    FileUtils.rm_rf(path("default", "e"))
    File.write(path("default", "e"), "")
    assert_equal [[], false], [read(KEY), store.write(KEY, entry("y"))]
    assert_operator store.stats[:errors], :>, 0
    assert_match(/Not a directory/, @lines.first)
  end

  # What can't be purged must not be shown.
  def test_after_a_failed_purge_nothing_is_read_until_all_is_removed
    %w[purge purge_tag clear].each do |name|
      NeverBlockTest::VirtualTime.during do |clock|
        @store = new_store
        store.write(KEY, entry("old", tags: %w[a]))
        FileUtils.mv(path("default", "state"), path("default", "aside"))
        Dir.mkdir(path("default", "state"))
        assert_equal :unknown, store.generation(KEY)
        assert_equal 0, store.public_send(name, *{"purge" => [KEY], "purge_tag" => ["a"]}[name])
        assert_equal [[], false], [read(KEY), store.write(OTHER, entry("x"))], name
        Dir.rmdir(path("default", "state"))
        FileUtils.mv(path("default", "aside"), path("default", "state"))
        assert_equal [], read(KEY), name
        refute store.write(OTHER, entry("x"), generation: :unknown)
        clock.advance(6)
        assert store.write(OTHER, entry("x")), "it was emptied first"
        assert_equal [[], ["x"]], [read(KEY), read(OTHER)], name
        assert_equal [], new_store.read(KEY), name
      end
    end
  end

  def test_an_interrupted_purge_has_failed
    store.write(KEY, entry("x"))
    catch(:out) { at_call(FileStore::Files, :remove, -> { throw :out }) { store.purge(KEY) } }
    assert_equal 1, files.size
    assert_equal [], read(KEY)
  end

  # Timeout and Thread#raise may come anywhere: here at every eleventh line of the store, one after the other.
  def test_an_interrupted_thread_leaves_what_is_complete
    stop = Class.new(StandardError)
    folder = File.dirname(FileStore.instance_method(:read).source_location.first)
    text = "x" * 150_000
    (0..).step(11).find do |line|
      trace = TracePoint.new(:line) do |point|
        Thread.current.raise(stop) if point.path.start_with?(folder) && (line -= 1) == -1
      end
      over = begin
        trace.enable(target_thread: Thread.current) do
          store.write(KEY, entry(text, tags: %w[a]))
          read(KEY)
        end
        true
      rescue stop
        false
      end
      assert_includes [[], [text]], read(KEY)
      over
    end => steps
    assert_operator steps, :>, 200
    assert_equal 0, store.stats[:errors], @lines
    assert_equal files.size, store.purge_tag("a")
    assert_empty files
    assert store.write(KEY, entry("y"))
  end

  # A task is cancelled at its waits: for the disk, the lock, and other fibers.
  def test_a_cancelled_task_leaves_nothing_behind
    texts = %w[x y z].map { |letter| letter * 200_000 }
    NeverBlock.run do |scope|
      30.times do |round|
        tasks = texts.map { |text| scope.spawn { store.write(KEY, entry(text, tags: %w[a])) && read(KEY) } }
        (round % 6).times { NeverBlock.pass }
        tasks.each(&:cancel)
        tasks.each(&:join)
        read(KEY).each { |text| assert_includes texts, text }
      end
    end
    assert_equal [[], 0], [temporary, store.stats[:errors]], @lines
    assert_equal files.size, store.purge_tag("a")
    assert_empty files
  end

  def test_a_log_that_fails
    @store = FileStore.new(path, bytes: 1 << 20, memory: 0, log: ->(_line) { raise "no log" })
    store.write(KEY, entry("x"))
    File.write(files.first, "y")
    assert_equal [[], 1], [read(KEY), store.stats[:errors]]
  end

  # As a stopped process would.
  def test_a_lock_that_is_not_released
    @store = new_store(patience: 0.02)
    store.write(KEY, entry("x", tags: %w[a]))
    before = store.generation(KEY)
    File.open(path("default", "state")) do |file|
      file.flock(File::LOCK_EX)
      assert_equal :unknown, store.generation(KEY)
      assert_equal [false, []], [store.write(OTHER, entry("y")), temporary]
      assert_match(/has kept the lock/, @lines.first)
      assert_equal 1, store.purge(KEY), "the lock is taken away"
    end
    refute store.write(KEY, entry("late"), generation: before)
    assert store.write(KEY, entry("new"), generation: store.generation(KEY))
    assert_equal ["new"], read(KEY)
  end

  def test_a_process_from_which_the_lock_was_taken_undoes_its_change
    at_call(FileStore::Writer, :mark, -> { others.replace }) { refute store.write(KEY, entry("x")) }
    assert_equal [[], []], [read(KEY), files]

    @store = new_store
    store.write(KEY, entry("x"))
    before = nil
    at_call(FileStore::Files, :names, -> { before = others.replace.then { others.generation(KEY) } }) do
      assert_equal 0, store.purge(KEY), "the repeated purge finds nothing any more"
    end
    refute store.write(KEY, entry("late"), generation: before), "but is recorded where others look"
  end

  def test_folders_that_are_not_safe
    {
      "can be written by other users (mode 0777)" => -> { make(0o777) },
      "can be written by other users (mode 0775)" => -> { make(0o775) },
      "can be written by other users (mode 1777)" => -> { make(0o1777) },
      "is not a folder, or is a link" => -> { File.write(path, "") },
      "is not a folder, or is a link " => -> { File.symlink(Dir.mktmpdir(nil, @folder), path) },
      "is not a folder, or is a link  " => -> { make(0o700) && File.symlink("/tmp", path("default")) },
      **(Process.euid.zero? ? {"belongs to another user (12345" => -> { make(0o700) && File.chown(12_345, nil, path) }} : {})
    }.each do |message, make|
      FileUtils.rm_rf(path)
      make.call
      error = assert_raises(NeverBlock::ConfigurationError) { new_store }
      assert_includes error.message, message.strip
      assert_match(/chmod 700/, error.message)
    end
    FileUtils.rm_rf(path)
    make(0o755)
    assert new_store.write(KEY, entry("x"))
  end

  def test_a_folder_that_can_not_be_made
    error = assert_raises(NeverBlock::ConfigurationError) { FileStore.new("/proc/nothing/cache", bytes: 1 << 20) }
    assert_match(%r{can't use the folder /proc/nothing/cache}, error.message)
    File.write(File.join(@folder, "file"), "")
    assert_raises(NeverBlock::ConfigurationError) { FileStore.new(File.join(@folder, "file", "cache"), bytes: 1 << 20) }
  end

  def test_what_killed_processes_have_left_is_removed
    store.write(KEY, entry("kept", tags: %w[a b]))
    old, recent = %w[0011223344556677 8899aabbccddeeff].map { |id| File.join(File.dirname(files.first), ".#{id}.tmp") }
    [old, recent].each { |path| File.write(path, "x") }
    File.utime(Time.now - 700, Time.now - 700, old)
    orphan = markers.first.sub(/\h{4}\.nbc\z/, "0000.nbc")
    File.write(orphan, "")
    FileUtils.mkdir_p(path("default", "t", "00", "11" * 31))
    FileUtils.mkdir_p(path("default", "e.0011223344556677", "00", "11"))
    FileUtils.cp(files.first, path("default", "e.0011223344556677", "00", "11"))
    store.sweep
    assert_equal [[recent], 2], [temporary, markers.size]
    assert_equal %w[e state sweep t], Dir.children(path("default")).sort
    refute_path_exists path("default", "t", "00", "11" * 31)
    assert_equal [["kept"], 1], [read(KEY), store.purge_tag("b")]
  end

  # Its process was killed when it had put aside the tag's folder.
  def test_a_purge_that_was_begun_is_finished
    2.times do |round|
      store.write(KEY, entry("x", tags: %w[a]))
      folder = File.dirname(markers.first)
      File.rename(folder, "#{folder}.0011223344556677")
      round.zero? ? store.sweep : assert_equal(1, store.purge_tag("a"))
      assert_equal [[], []], [read(KEY), markers]
    end
  end

  def test_counters_become_exact_again
    4.times { |number| store.write(KEY, entry("x", vary: [["x", number.to_s]])) }
    store.write(OTHER, entry("x", tags: %w[a]))
    exact = store.stats
    others.locked { |locked| locked.set(bytes: 1 << 40, entries: 0, keys: 77, links: 9) }
    store.sweep
    assert_equal exact, store.stats
    assert_equal 5, exact[:entries]
    FileUtils.rm(path("default", "state"))
    assert_equal [0, 0], store.stats.values_at(:entries, :keys)
    store.purge("nothing")
    store.write(OTHER, entry("y")) # a new file of counters is a reason to sweep
    assert_equal [5, 2], store.stats.values_at(:entries, :keys)
  end

  def test_the_longest_unused_leave_when_there_is_no_room
    @store = new_store(bytes: 400_000, max_entry: 100_000)
    9.times { |number| store.write(number.to_s, entry("x" * 39_000)) }
    age_all
    [3, 4].each { |number| read(number.to_s) }
    before = store.read("0").first
    age_all
    [3, 4].each { |number| read(number.to_s) }
    2.times { |number| store.write("new#{number}", entry("x" * 39_000)) }
    present = [*0..8, "new0", "new1"].reject { |key| read(key.to_s).empty? }
    assert_equal [3, 4, "new0", "new1"], present & [3, 4, "new0", "new1"]
    assert_operator present.size, :<=, 9
    stats = store.stats
    assert_operator stats[:bytes], :<=, 400_000
    assert_equal [present.size, 11 - present.size, 0], stats.values_at(:entries, :evicted, :errors)
    assert_equal 39_000, before.each.to_a.join.size
  end

  def test_no_more_files_than_allowed
    @store = new_store(max_entries: 10)
    40.times { |number| store.write(number.to_s, entry("x", tags: ["t#{number}", "a"])) }
    assert_operator files.size, :<=, 10
    assert_operator markers.size, :<=, 40
    store.sweep
    assert_equal [files.size, 2 * files.size], [store.stats[:entries], markers.size]
    assert_operator store.stats[:evicted], :>=, 30
  end

  # Each response with a tag of its own.
  def test_tags_of_replaced_entries_do_not_pile_up
    @store = new_store(max_entries: 10)
    50.times { |number| store.write(KEY, entry("x", tags: ["t#{number}"])) }
    assert_operator markers.size, :<=, 12
    assert_operator Dir.glob(path("default", "t", "*", "*")).size, :<=, 12
    assert_equal 1, store.purge_tag("t49")
  end

  def test_while_another_process_sweeps
    @store = new_store(bytes: 100_000, max_entry: 50_000)
    File.open(path("default", "sweep"), "w") do |file|
      file.flock(File::LOCK_EX)
      results = Array.new(10) { |number| store.write(number.to_s, entry("x" * 20_000)) }
      assert_equal [6, 4], [results.count(true), results.count(false)], "bounded nevertheless"
      assert_equal 0, store.stats[:errors]
    end
    refute store.write("a", entry("x" * 20_000)), "it sweeps"
    assert store.write("a", entry("x" * 20_000))
    assert_operator store.stats[:bytes], :<=, 100_000
  end

  private

  def store = @store ||= new_store

  # The lock and the counters, as other processes have them.
  def others = FileStore::State.new(FileStore::Layout.new(path, "default"))

  def read(key) = store.read(key).map { |one| one.each.to_a.join }

  def make(mode) = Dir.mkdir(path) && File.chmod(mode, path)

  def entry(text, tags: [], vary: [])
    Entry.new(status: 200, headers: {"a" => "b"}, chunks: [text], requested_at: 1.0, responded_at: 2.0, vary:, tags:)
  end
end
