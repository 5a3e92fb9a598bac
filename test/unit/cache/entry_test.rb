# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# What is stored of a response.
class CacheEntryTest < Minitest::Test
  Entry = NeverBlock::Cache::Entry

  def test_it_never_changes
    name, value, line, tag, chunk = %w[etag a b news body].map(&:dup)
    one = entry(chunks: [chunk], headers: {name => value, "link" => [line]}, vary: [["x", value]], tags: [tag])
    [name, value, line, tag, chunk].each { |text| text << "!" }
    assert_equal [{"etag" => "a", "link" => ["b"]}, [["x", "a"]], ["news"], ["body"]], [one.headers, one.vary, one.tags, one.each.to_a]
    objects = [one, one.headers, one.headers["link"], one.vary, one.vary[0], one.tags, one.body, *one.headers.values, *one.each]
    assert objects.all?(&:frozen?)
  end

  def test_chunks_are_binary
    texts = ["\u00e4", "b".encode("UTF-16LE"), "\xff".b]
    one = entry(chunks: texts)
    assert_equal texts.map(&:b).join, one.each.to_a.join
    assert_equal [Encoding::BINARY], one.each.map(&:encoding).uniq
    assert_equal 5, one.body_size
  end

  # Each chunk is an object, and a write of each response.
  def test_small_chunks_are_joined
    one = entry(chunks: ["a"] * 100_000)
    assert_equal [[65_536, 34_464], 100_000], [one.each.map(&:bytesize), one.body_size]
    assert_operator one.bytes, :<, 102_000
    assert_equal [5, 70_000, 5], entry(chunks: ["a" * 5, "b" * 70_000, "", "c" * 5]).each.map(&:bytesize)
    large = ["a" * 40_000, "b" * 40_000].map { |text| text.b.freeze }.freeze
    assert_same large, entry(chunks: large).body
  end

  def test_parts
    bytes = Random.new(1).bytes(300)
    one = entry(chunks: [bytes[0, 100], bytes[100, 1], "", bytes[101..]].map { |chunk| chunk })
    many = entry(chunks: Array.new(30) { |place| ("%04d" % place) * 2_000 })
    [one, many].each do |entry|
      whole = entry.each.to_a.join
      size = whole.bytesize
      [0..0, 0..(size - 1), 99..100, 100..100, 101..150, (size - 1)..(size - 1), 5..4, 0...1, 7..(size + 10), (size - 3).., nil..4, size..size + 5,
        8_000..17_000].each do |range|
        expected = (range.begin.to_i > size) ? "" : whole.byteslice(range).to_s
        assert_equal expected.hash, entry.slice(range).to_a.join.hash, range.inspect
      end
    end
    assert many.slice(10..200_000).all? { |part| part.bytesize <= 8_000 }
  end

  def test_bytes_count_all_that_is_kept
    small = entry.bytes
    assert_operator small, :>, 500
    {
      {chunks: ["x" * 1_000]} => 1_000, {headers: {"x" * 500 => "y" * 500}} => 1_000, {headers: {"a" => ["b" * 500, "c" * 500]}} => 1_000,
      {vary: [["x", "y" * 1_000]]} => 1_000, {tags: Array.new(10) { |number| "tag#{number}" }} => 1_000
    }.each { |fields, bytes| assert_operator entry(**fields).bytes, :>, small + bytes, fields.inspect }
  end

  def test_renewed
    one = entry(chunks: ["abc"], headers: {"etag" => "a"}, vary: [["x", "y"]], tags: ["t"])
    two = one.renewed(headers: {"etag" => "b"}, requested_at: 5.0, responded_at: 6.0)
    assert_equal [{"etag" => "b"}, 5.0, 6.0, 200, [["x", "y"]], ["t"]], [two.headers, two.requested_at, two.responded_at, two.status, two.vary, two.tags]
    assert_same one.body, two.body
    assert_equal ["u"], one.renewed(headers: {}, requested_at: 5.0, responded_at: 6.0, tags: ["u"]).tags
  end

  def test_variants_are_told_apart
    lists = [[], [["a", nil]], [["a", ""]], [["a", "-"]], [["a", "b"]], [["ab", ""]], [["a", nil], ["b", nil]], [["a", "=1:b"]], [["a", "\u00e4"]],
      [["a", "b\n1:c"]], [["a", "b"], ["c", nil]]]
    assert_equal lists.size, lists.map { |vary| entry(vary:).variant }.uniq.size
    assert_equal entry(vary: [["a", "\u00e4"]]).variant, entry(vary: [["a", "\u00e4".b]]).variant
  end

  def test_headers_that_are_none
    [nil, 5, [1], [nil], {}].each do |value|
      error = assert_raises(ArgumentError) { entry(headers: {"a" => value}) }
      assert_match(/the header a is /, error.message)
    end
  end

  # Of a response whose Vary no request matches; no store takes it.
  def test_a_vary_of_anything
    anything = Object.new
    assert_same anything, entry(vary: [["*", anything]]).vary[0][1]
  end

  private

  def entry(chunks: [], headers: {}, vary: [], tags: [])
    Entry.new(status: 200, headers:, chunks:, requested_at: 1.0, responded_at: 2.0, vary:, tags:)
  end
end
