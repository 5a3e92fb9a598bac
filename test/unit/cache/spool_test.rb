# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "neverblock/cache"

# A body that is kept in memory, in a file, and not at all.
class CacheSpoolTest < Minitest::Test
  Spool = NeverBlock::Cache::Spool

  # A disk that takes so many bytes, and at most three at once.
  class Disk
    attr_reader :content, :closed

    def initialize(room)
      @room = room
      @content = +"".b
    end

    def pwrite(text, offset)
      text = text.byteslice(0, [3, @room - @content.bytesize].min)
      raise Errno::ENOSPC if text.empty?
      @content[offset, text.bytesize] = text
      text.bytesize
    end

    def pread(length, offset) = @content.byteslice(offset, length)

    def path = "/nowhere"

    def close = @closed = true
  end

  def test_a_body_that_is_kept
    spool = filled(Spool.new(memory: 10, file: 20), %w[0123456789 abcdefghij klmnopqrst])
    assert_predicate spool, :whole?
    assert_equal [30, 3, 0], [spool.bytes, spool.count, spool.loose]
    assert_equal %w[0123456789 abcdefghij klmnopqrst], all(spool)
    assert_nil spool.chunks, "not all of it is in memory"
  end

  def test_a_disk_that_takes_a_part_at_once
    on_disk(100) do |disk|
      spool = filled(Spool.new(memory: 0, file: 100), %w[0123456789 abcdefghij])
      assert_equal %w[0123456789 abcdefghij], all(spool)
      assert_equal "0123456789abcdefghij", disk.content
    end
  end

  # The response goes on, and is not stored.
  def test_a_full_disk
    on_disk(15) do
      spool = filled(Spool.new(memory: 5, file: 100), %w[01234 0123456789 abcdefghij 56789])
      assert_kind_of Errno::ENOSPC, spool.error
      refute_predicate spool, :whole?
      assert_equal %w[01234 0123456789 abcdefghij 56789], all(spool)
      assert_equal [30, 15], [spool.bytes, spool.loose]
      spool.trim(3)
      assert_equal ["0123456789", nil, "56789"], [1, 2, 3].map { |index| (place = spool.place(index)) && spool.load(place) }
    end
  end

  def test_no_folder_for_the_file
    [ArgumentError.new("could not find a temporary directory"), Errno::EMFILE.new, Errno::EACCES.new].each do |error|
      Tempfile.stub(:create, ->(*, **) { raise error }) do
        spool = filled(Spool.new(memory: 1, file: 100), %w[a b])
        assert_same error, spool.error
        assert_equal %w[a b], all(spool)
      end
    end
  end

  def test_a_file_that_was_shortened
    on_disk(100) do |disk|
      spool = filled(Spool.new(memory: 0, file: 100), %w[0123456789])
      disk.content.slice!(5..)
      assert_raises(EOFError) { all(spool) }
    end
  end

  def test_the_file_is_closed
    on_disk(100) do |disk|
      spool = filled(Spool.new(memory: 0, file: 100), %w[a])
      assert_predicate spool, :file?
      spool.close
      assert disk.closed
    end
    Spool.new(memory: 0, file: 0).close
  end

  # Each chunk is an object: bytes alone would not be a limit.
  def test_very_many_chunks
    spool = Spool.new(memory: 1 << 30, file: 0)
    (Spool::MOST_KEPT + Spool::MOST_LOOSE).times { spool.add(spool.keep("x")) }
    refute_predicate spool, :whole?
    refute spool.crowded?(1 << 30)
    spool.add("x")
    assert spool.crowded?(1 << 30)
    spool.trim(spool.count)
    refute spool.crowded?(1 << 30)
  end

  private

  def filled(spool, chunks)
    chunks.each { |chunk| spool.add(spool.keep(chunk)) }
    spool
  end

  def all(spool) = Array.new(spool.count) { |index| spool.load(spool.place(index)) }

  def on_disk(room)
    disk = Disk.new(room)
    Tempfile.stub(:create, disk) { File.stub(:unlink, nil) { yield disk } }
  end
end
