# frozen_string_literal: true

require "test_helper"
require "support/cache_store_contract"
require "support/cache_folder"
require "neverblock/cache"

# Files that are not what they should be: by accident, or forged.
class CacheFileStoreDamageTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::CacheFolder

  Format = NeverBlock::Cache::EntryFormat
  Entry = NeverBlock::Cache::Entry
  FileStore = NeverBlock::Cache::FileStore
  KEY = "https://example.org/"

  def setup
    super
    @store = new_store(memory: 0)
    @store.write(KEY, entry)
    @path = files.first
    @bytes = File.binread(@path)
  end

  def test_a_flipped_bit_at_every_place
    @bytes.bytesize.times do |place|
      bytes = @bytes.dup
      bytes.setbyte(place, bytes.getbyte(place) ^ (1 << (place % 8)))
      assert_refused bytes, "byte #{place}"
    end
    assert_equal [@bytes.bytesize, 1], [@store.stats[:errors], @lines.size]
    assert_match(/\Athe cache in .*checksum.*Malformed.*only counted\z/, @lines.first)
  end

  def test_any_other_length
    @bytes.bytesize.times { |length| assert_refused @bytes[0, length], "#{length} bytes" }
    assert_refused "#{@bytes}\0", "one more byte"
    assert_refused @bytes * 2, "twice"
    assert_refused "x" * 1_000, "something else"
  end

  def test_a_file_without_damage
    File.binwrite(@path, @bytes)
    assert_equal ["hello"], read
    assert_equal 0, @store.stats[:errors]
  end

  # It is found when the block is read, and before the block is handed over.
  def test_a_long_body
    bytes = Random.bytes(300_000)
    @store.write(KEY, entry(chunks: [bytes]))
    path = files.first
    File.open(path, "r+b") { |file| file.pwrite("#", 213 + 140_000) unless file.pread(1, 213 + 140_000) == "#" }
    found = @store.read(KEY).first
    assert_equal bytes[0, 131_072].hash, found.slice(0..131_071).to_a.join.hash
    seen = +""
    error = assert_raises(FileStore::Body::Lost) { found.each { |part| seen << part } }
    assert_match(/is damaged: the body's checksum is wrong, at byte 131072/, error.message)
    assert_equal bytes[0, 131_072].hash, seen.hash
    assert_equal [[], false, 1], [@store.read(KEY), File.exist?(path), @store.stats[:errors]]
  end

  def test_a_long_body_that_is_cut_off_while_it_is_read
    @store.write(KEY, entry(chunks: ["x" * 300_000]))
    found = @store.read(KEY).first
    File.truncate(files.first, 100_000)
    assert_raises(FileStore::Body::Lost) { found.each { |_| } }
    assert_equal [], @store.read(KEY)
  end

  def test_a_renewal_does_not_keep_damage
    @store.write(KEY, entry(chunks: ["x" * 300_000]))
    found = @store.read(KEY).first
    File.open(files.first, "r+b") { |file| file.pwrite("#", 200_000) }
    refute @store.write(KEY, found.renewed(headers: {}, requested_at: 1.0, responded_at: 2.0))
    assert_equal [[], []], [@store.read(KEY), temporary]
  end

  def test_another_key_s_file
    @store.write("https://example.org/other", entry)
    other = (files - [@path]).first
    FileUtils.cp(other, @path)
    assert_equal [], read
    assert_equal 1, @store.stats[:errors]
  end

  # The link's target could be any file that this process can read.
  def test_links_and_other_things_are_not_opened
    target = File.join(@folder, "target")
    File.binwrite(target, @bytes)
    {
      link: -> { File.symlink(target, @path) },
      fifo: -> { File.mkfifo(@path) },
      folder: -> { Dir.mkdir(@path) },
      socket: -> { UNIXServer.open("short") { File.rename("short", @path) } }
    }.each do |what, make|
      File.unlink(@path) if File.symlink?(@path) || File.file?(@path)
      Dir.chdir(@folder) { make.call }
      assert_equal [[], false], [read, File.symlink?(@path) || File.exist?(@path)], what
    end
    assert_equal @bytes, File.binread(target)
    assert_equal 4, @store.stats[:errors]
  end

  def test_another_user_s_file
    skip "only root can give files away" unless Process.euid.zero?
    File.chown(12_345, nil, @path)
    assert_equal [], read
  end

  def test_another_version
    start = "NBCache\x02".b + @bytes[8, 16]
    assert_refused start + [Zlib.crc32(start)].pack("L>") + @bytes[28..], "version 2"
  end

  # With checksums that are right.
  def test_forged_headers
    good = {"key" => KEY, "status" => 200, "headers" => [["a", "b"]], "requested_at" => 1.0, "responded_at" => 2, "vary" => [["x", nil]],
            "tags" => ["t"], "marks" => {}}
    assert_equal ["hello"], forged(JSON.generate(good))
    fields = {
      "key" => [nil, 1, "other", ["k"], {"utf-8" => 1}, {"json_class" => "File"}],
      "status" => [nil, "200", 99, 1_000, 200.5, [], true],
      "headers" => [nil, {}, {"a" => "b"}, ["a"], [["a"]], [["a", "b", "c"]], [["a", nil]], [["a", 1]], [["a", [["b"]]]], [["a", {"b" => "c"}]],
        [["A", "b"]], [["", "b"]], [["a b", "c"]], [["a:", "c"]], [["a\n", "b"]], [[1, "b"]], [["a", "b\r\nset-cookie: c"]],
        [["a", ["b", "c\n"]]], [["a", "\0"]], [["a", {"utf-8" => "\u00e4\r\n"}]], [["a", "b"], ["a", "c"]], [["a", "\u20ac"]]],
      "requested_at" => [nil, "1", -1, 1e300, 10**400, [], {}],
      "responded_at" => [nil, Time.now.to_f + 1_000, 99_999_999_999],
      "vary" => [nil, {}, [["x"]], [["x", 1]], [["x", ["y"]]], "x"],
      "tags" => [nil, "t", [1], [nil], [["t"]]],
      "marks" => [nil, [], {"a" => 1}, {"a" => nil}]
    }
    fields.each do |name, values|
      values.each { |value| assert_equal [], forged(JSON.generate(good.merge(name => value))), "#{name}: #{value.inspect}" }
      assert_equal [], forged(JSON.generate(good.except(name))), "without #{name}"
    end
    deep = "[" * 10_000
    ["", "null", "[]", "1", "{}", "{", deep, JSON.generate(good.merge("more" => 1)), JSON.generate(good)[..-2], "\xff\xfe".b,
      JSON.generate(good).sub('"b"', '"\\ud800"'), JSON.generate(good).sub("2,", "NaN,"), JSON.generate(good).sub("2,", "1e999,")].each do |text|
      assert_equal [], forged(text), text[0, 100]
    end
  end

  # Lengths of terabytes, with checksums that are right, are not believed.
  def test_forged_lengths
    [[0, 0], [@bytes.bytesize, 5], [1 << 31, 5], [100, (1 << 64) - 1], [(1 << 32) - 1, 1 << 63]].each do |header, body|
      start = @bytes[0, 8] + [header, 0, body].pack("L>L>Q>")
      assert_refused start + [Zlib.crc32(start)].pack("L>") + @bytes[28..], [header, body].inspect
    end
  end

  def test_a_damaged_file_of_counters_begins_anew
    state = path("default", "state")
    before = @store.generation(KEY)
    {
      "short" => ->(bytes) { bytes[0, 100] }, "empty" => ->(_) { "" }, "another version" => ->(bytes) { bytes.sub("State\x01".b, "State\x02".b) },
      "long" => ->(bytes) { bytes + "x" }, "noise" => ->(bytes) { "x" * bytes.bytesize }
    }.each do |what, change|
      File.binwrite(state, change.call(File.binread(state)))
      refute_equal before, before = @store.generation(KEY), what
      assert @store.write(KEY, entry, generation: before), what
      File.binwrite(state, change.call(File.binread(state)))
      refute @store.write(KEY, entry, generation: before), what
      assert_equal 1, @store.purge(KEY), what
    end
    assert_equal 0, @store.stats[:errors]
    @store.write(KEY, entry)
    assert_equal [1, 1], @store.stats.values_at(:entries, :keys)
  end

  private

  def entry(chunks: ["hello"])
    Entry.new(status: 200, headers: {"a" => "b"}, chunks:, requested_at: 1.0, responded_at: 2.0, vary: [["x", nil]], tags: ["t"])
  end

  def read = @store.read(KEY).map { |one| one.each.to_a.join }

  def assert_refused(bytes, what)
    File.binwrite(@path, bytes)
    assert_equal [[], false], [read, File.exist?(@path)], what
  end

  # @return [Array<String>] what is read of a file with this header
  def forged(header)
    header = header.b
    start = @bytes[0, 8] + [header.bytesize, Zlib.crc32(header), 5].pack("L>L>Q>")
    sums = [Zlib.crc32("hello")].pack("L>")
    File.binwrite(@path, start + [Zlib.crc32(start)].pack("L>") + header + "hello" + sums + [Zlib.crc32(sums)].pack("L>"))
    read
  end
end
