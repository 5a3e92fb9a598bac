# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "support/http_cases"

# The parser's limits, each at its boundary: bytes of the target (414), of the head and of a name (431), fields (431).
class HttpLimitsTest < Minitest::Test
  extend NeverBlockTest::HttpCases

  def self.get(size) = head(request: "GET /#{"a" * (size - 1)} HTTP/1.1")

  # The target
  accepts "a target as long as the limit", get(20), limits: {uri: 20}, path: "/#{"a" * 19}"
  refuses "a target one byte longer than the limit", get(21), 414, /target is too long/, limits: {uri: 20}
  refuses "a far longer target", get(5000), 414, /target is too long/, limits: {uri: 20}
  refuses "an endless target", "GET /#{"a" * 100}", 414, /target is too long/, limits: {uri: 20}
  refuses "an endless target with a control byte at last",
    "GET /#{"a" * 100}\0", 414, /target is too long/, limits: {uri: 20}
  refuses "a control byte within the limit", "GET /#{"a" * 9}\0", 400, /control character/, limits: {uri: 20}
  refuses "a fragment within the limit", "GET /a##{"a" * 100}\r\n", 400, /fragment/, limits: {uri: 20}
  accepts "an absolute target as long as the limit",
    head(request: "GET http://a/bcd HTTP/1.1"), limits: {uri: 12}, path: "/bcd"
  refuses "an absolute target one byte longer",
    head(request: "GET http://a/bcd HTTP/1.1"), 414, /too long/, limits: {uri: 11}
  waits "for more of a target within the limit", "GET /#{"a" * 19}", limits: {uri: 20}
  refuses "an endless version", "GET / HTTP/1.1#{"1" * 100}", 400, /after the HTTP version/, limits: {uri: 20}

  # The head
  accepts "a head as long as the limit",
    head("A: #{"b" * 10}"), limits: {head: head("A: #{"b" * 10}").bytesize}, minor: 1
  refuses "a head one byte longer than the limit", head("A: #{"b" * 11}"), 431, /head is too long/,
    limits: {head: head("A: #{"b" * 10}").bytesize}
  refuses "a field that does not end", "#{head.chomp}A: #{"b" * 200}", 431, /head is too long/, limits: {head: 100}
  refuses "a name that does not end", "#{head.chomp}#{"b" * 200}", 431, /head is too long/, limits: {head: 100}
  refuses "fields that do not end", "#{head.chomp}#{"A: b\r\n" * 40}", 431, /head is too long/, limits: {head: 100}
  refuses "a request line longer than the head may be",
    get(100), 414, /request line is too long/, limits: {head: 50, uri: 100}
  refuses "a request line that ends where the head must", head, 431, /head is too long/, limits: {head: 16}
  refuses "an empty line in front that makes the head too long",
    "\r\n#{head}", 431, /too long/, limits: {head: head.bytesize + 1}
  accepts "an empty line in front, just so", "\r\n#{head}", limits: {head: head.bytesize + 2}, minor: 1
  refuses "a control byte within the limit for heads",
    head("A: \0#{"b" * 200}"), 400, /control character/, limits: {head: 100}
  refuses "a control byte beyond the limit for heads",
    head("A: #{"b" * 200}\0"), 431, /head is too long/, limits: {head: 100}
  waits "for a head that can still be short enough", "#{head.chomp}A: ", limits: {head: 100}

  # Names
  accepts "a name of 256 bytes", head("#{"n" * 256}: b"), fields: [["Host", "a"], ["n" * 256, "b"]]
  refuses "a name of 257 bytes", head("#{"n" * 257}: b"), 431, /name of more than 256/

  # Fields
  accepts "as many fields as the limit", head(*["A: b"] * 3), limits: {fields: 4}, fields: [%w[Host a], *[%w[A b]] * 3]
  refuses "one field more than the limit", head(*["A: b"] * 4), 431, /too many fields/, limits: {fields: 4}
  accepts "128 fields", head(*["A: b"] * 127), minor: 1
  refuses "129 fields", head(*["A: b"] * 128), 431, /too many fields/
  refuses "129 fields where more were asked for", head(*["A: b"] * 128), 431, /too many fields/, limits: {fields: 1000}
  accepts "no fields where none are allowed", bare("GET / HTTP/1.0"), limits: {fields: 0}, minor: 0
  refuses "a field where none are allowed", head, 431, /too many fields/, limits: {fields: 0}

  # Each byte of a head is scanned once, however small the pieces.
  def test_each_call_begins_where_the_last_one_ended
    bytes = self.class.head("A: #{"b" * 300}", *["C: d"] * 50)
    (0...bytes.bytesize).each do |size|
      part = bytes.byteslice(0, size)
      assert_includes [size, size - 1], NeverBlock::Server::Head.scanned(part) # except for a carriage return at the end
    end
  end

  def test_scanned_bytes_are_not_scanned_again
    part = self.class.head.chomp << "A: \0" << "b" * 100
    assert_equal [400, "a control character"], parse(part)
    assert_equal :more, parse(part, scanned: part.index("\0") + 1)
  end
end
