# frozen_string_literal: true

require "test_helper"
require "neverblock"

# Chunked content and trailers as the proxy's client reads them. The decoder's own cases are in chunks_test.rb.
class HttpResponseChunksTest < Minitest::Test
  WHOLE = "5\r\nhello\r\n4;x=\"y\"\r\n you\r\n0\r\nDigest: abc\r\nX-Empty:\r\n\r\n".b.freeze

  # @return [Array] data, trailers, surplus bytes; or the reason, a String
  def decode(bytes, cuts: [], fields: 128)
    chunks = NeverBlock::ResponseParser::Chunks.new
    data = +""
    from = 0
    [*cuts, bytes.bytesize].each do |cut|
      piece = chunks.feed(bytes.byteslice(from, cut - from).dup) or return chunks.reason
      data << piece
      from = cut
    end
    return :more unless chunks.ended?
    trailers = chunks.trailers(fields)
    (String === trailers) ? trailers : [data, trailers.each_slice(2).to_a, chunks.surplus]
  end

  def test_data_and_trailers_are_the_same_however_they_come
    expected = ["hello you", [["digest", "abc"], ["x-empty", ""]], 0]
    assert_equal expected, decode(WHOLE)
    (1...WHOLE.bytesize).each { |cut| assert_equal expected, decode(WHOLE, cuts: [cut]), "cut at #{cut}" }
    assert_equal expected, decode(WHOLE, cuts: (1...WHOLE.bytesize).to_a)
  end

  def test_every_beginning_waits_for_more
    (0...WHOLE.bytesize).each { |size| assert_equal :more, decode(WHOLE.byteslice(0, size)) }
  end

  def test_surplus_bytes_are_counted_and_not_data
    assert_equal ["a", [], 3], decode("1\r\na\r\n0\r\n\r\nXYZ")
    chunks = NeverBlock::ResponseParser::Chunks.new
    assert_equal "a", chunks.feed(+"1\r\na\r\n0\r\n\r\n")
    assert_equal "", chunks.feed(+"HTTP/1.1 200 OK\r\n")
    assert_equal 17, chunks.surplus
  end

  def test_without_trailers_there_are_none
    assert_equal ["", [], 0], decode("0\r\n\r\n")
  end

  {
    "1\r\nab\r\n0\r\n\r\n" => /no CRLF after a chunk's data/,
    "x\r\n" => /no chunk size/,
    "0x1\r\na\r\n" => /not a hexadecimal number/,
    "1\na\n0\n\n" => /not a hexadecimal number/,
    "10000000000000000\r\n" => /too many digits/,
    "0\r\nA b: c\r\n\r\n" => /no trailer name can have/,
    "0\r\n A: b\r\n\r\n" => /folded trailer/,
    "0\r\nA: b\r\n c\r\n\r\n" => /folded trailer/,
    "0\r\nA: b\0\r\n\r\n" => /control character/,
    "0\r\nA: b\rc\r\n\r\n" => /without CRLF/,
    "0\r\nContent-Length: 5\r\n\r\n" => /only a head can have/,
    "0\r\nTransfer-Encoding: chunked\r\n\r\n" => /only a head can have/,
    "0\r\nconnection: close\r\n\r\n" => /only a head can have/,
    "0\r\n#{"a" * 257}: b\r\n\r\n" => /more than 256/,
    "0\r\nA: #{"b" * 20_000}\r\n\r\n" => /trailers that are too long/
  }.each do |bytes, reason|
    define_method("test_refused:_#{bytes[0, 40].inspect}") do
      assert_match reason, decode(bytes)
      assert_match reason, decode(bytes, cuts: (1...bytes.bytesize).to_a)
    end
  end

  def test_trailers_have_a_limit
    assert_match(/too many fields/, decode("0\r\nA: b\r\nB: c\r\n\r\n", fields: 1))
  end

  def test_what_was_refused_stays_refused
    chunks = NeverBlock::ResponseParser::Chunks.new
    assert_nil chunks.feed(+"x\r\n")
    assert_nil chunks.feed(+"0\r\n\r\n")
    refute_predicate chunks, :ended?
    assert_nil chunks.trailers(128)
  end

  def test_a_frozen_string_and_another_object_raise
    assert_raises(FrozenError) { NeverBlock::ResponseParser::Chunks.new.feed("0\r\n\r\n") }
    assert_raises(TypeError) { NeverBlock::ResponseParser::Chunks.new.feed(1) }
  end

  def test_a_shared_string_is_not_changed_for_others
    source = "1\r\na\r\n0\r\n\r\n" * 20
    piece = source.dup
    NeverBlock::ResponseParser::Chunks.new.feed(piece)
    assert_equal "1\r\na\r\n0\r\n\r\n" * 20, source
  end

  slow "collects garbage at each allocation"
  def test_it_survives_collection_and_compaction_at_any_time
    head = "HTTP/1.1 200 OK\r\nX-Long-Name-#{"a" * 100}: #{"b" * 200}\r\nETag: c\r\nTransfer-Encoding: chunked\r\n\r\n".b
    GC.stress = true
    found = NeverBlock::ResponseParser.head(head, 0, false, 65_536, 128)
    outcome = decode(WHOLE, cuts: [3, 11, 30, 40, 45])
    GC.stress = false
    assert_equal ["x-long-name-#{"a" * 100}", "etag", "transfer-encoding"], found[3].each_slice(2).map(&:first)
    assert_equal ["hello you", [["digest", "abc"], ["x-empty", ""]], 0], outcome
    chunks = NeverBlock::ResponseParser::Chunks.new
    chunks.feed("0\r\nDigest: #{"x" * 500}\r\n")
    GC.compact if GC.respond_to?(:compact)
    chunks.feed(+"\r\n")
    assert_equal ["digest", "x" * 500], chunks.trailers(128)
  ensure
    GC.stress = false
  end
end
