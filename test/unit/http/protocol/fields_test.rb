# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "support/http_cases"

# The syntax of field lines (RFC 9112 §5, RFC 9110 §5.5 and §5.6); the fields' meaning is tested in HttpFramingTest.
class HttpFieldsTest < Minitest::Test
  extend NeverBlockTest::HttpCases

  def self.a(value) = {fields: [["Host", "a"], ["A", value.b]]}

  accepts "no blank before a value", head("A:b"), **a("b")
  accepts "blanks around a value", head("A: \t  b c \t "), **a("b c")
  accepts "a tab within a value", head("A: b\tc"), **a("b\tc")
  accepts "a value of tabs and letters longer than a register", head("A: #{"b\t" * 40}c"), **a("#{"b\t" * 40}c")
  accepts "an empty value", head("A:"), **a("")
  accepts "a blank value", head("A: \t "), **a("")
  accepts "a value of one letter", head("A: b"), **a("b")
  accepts "colons in a value", head("A: b:c: d"), **a("b:c: d")
  accepts "commas and quotes in a value", head("A: \"b, \\\"c\", (d)"), **a("\"b, \\\"c\", (d)")
  accepts "UTF-8 in a value", head("A: caf\u00e9 \u{1F600}"), **a("caf\u00e9 \u{1F600}")
  accepts "bytes that are no UTF-8 in a value", head("A: \xFF\x80".b), **a("\xFF\x80")
  accepts "a value of 4,000 bytes", head("A: #{"b" * 4000}"), **a("b" * 4000)
  accepts "a name of one letter", bare("GET / HTTP/1.0", "x: y"), fields: [["x", "y"]]
  accepts "every character a name can have", bare("GET / HTTP/1.0", "!#$%&'*+-.^_`|~09azAZ: b"),
    fields: [["!#$%&'*+-.^_`|~09azAZ", "b"]]
  accepts "names as they were sent",
    head("x-A_b: 1", "X-A-B: 2"), fields: [["Host", "a"], ["x-A_b", "1"], ["X-A-B", "2"]]
  accepts "fields that come twice, in their order", head("A: 1", "B: 2", "A: 3"),
    fields: [["Host", "a"], ["A", "1"], ["B", "2"], ["A", "3"]]
  accepts "Proxy, for the environment to drop (httpoxy, CVE-2016-5385)",
    head("Proxy: evil"), keys: %w[HTTP_HOST HTTP_PROXY]
  accepts "Version, which changes nothing", head("Version: HTTP/9.9"), keys: %w[HTTP_HOST HTTP_VERSION], minor: 1
  accepts "Content-Type among the keys",
    head("content-TYPE: text/plain", "B: c"), keys: ["HTTP_HOST", "CONTENT_TYPE", nil]
  accepts "nine fields of a browser", head("Connection: keep-alive", "User-Agent: Mozilla/5.0 (X11; Linux x86_64)",
    "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "Accept-Encoding: gzip, deflate, br", "Accept-Language: en",
    "Cookie: a=b; c=\"d\"", "Referer: http://a/", "Upgrade-Insecure-Requests: 1"),
    keys: %w[HTTP_HOST HTTP_CONNECTION HTTP_USER_AGENT HTTP_ACCEPT HTTP_ACCEPT_ENCODING HTTP_ACCEPT_LANGUAGE HTTP_COOKIE
      HTTP_REFERER HTTP_UPGRADE_INSECURE_REQUESTS]

  # Blanks: §5.1 and §5.2
  refuses "a blank before the colon (node CVE-2021-22959)", head("A : b"), 400, /in or after a field name/
  refuses "a tab before the colon", head("A\t: b"), 400, /in or after a field name/
  refuses "a blank before Content-Length's colon", head("Content-Length : 5"), 400, /in or after a field name/
  refuses "a blank before Transfer-Encoding's colon",
    head("Transfer-Encoding : chunked"), 400, /in or after a field name/
  refuses "a blank in a name", head("A b: c"), 400, /in or after a field name/
  refuses "a blank before the first field (node CVE-2024-27982)",
    bare("GET / HTTP/1.1", " Host: a"), 400, /before the first field/
  refuses "a tab before the first field", bare("GET / HTTP/1.1", "\tHost: a"), 400, /before the first field/
  refuses "a blank line in place of the first field", bare("GET / HTTP/1.1", " "), 400, /before the first field/
  refuses "a folded field (node CVE-2022-32215)", head("A: b", " c"), 400, /folded/
  refuses "a field folded with a tab", head("A: b", "\tc"), 400, /folded/
  refuses "a folded Transfer-Encoding", head("Transfer-Encoding: chunked", " , x"), 400, /folded/
  refuses "a fold that looks like a field", head("A: b", " Content-Length: 5"), 400, /folded/
  refuses "a fold of nothing", head("A: b", " "), 400, /folded/

  # Names are tokens
  refuses "a line without a colon", head("A"), 400, /without a colon/
  refuses "a first line without a colon", bare("GET / HTTP/1.1", "Host"), 400, /without a colon/
  refuses "a name that is missing", head(": b"), 400, /without a name/
  refuses "a colon alone", head(":"), 400, /without a name/
  refuses "two colons in front", head("::b"), 400, /without a name/
  %w[A(B) A/B A@B A,B A;B A<B A>B A=B A?B A[B] A{B} A\\B A"B].each do |name|
    refuses "the name #{name}", head("#{name}: c"), 400, /no field name can have/
  end
  refuses "a byte above 127 in a name", head("caf\u00e9: b"), 400, /no field name can have/
  refuses "a byte above 127 at the start of a name", head("\xFFA: b".b), 400, /no field name|without a name/
  refuses "a byte order mark before the first field",
    bare("GET / HTTP/1.1", "\u{FEFF}Host: a"), 400, /no field name|without a name/

  # Control bytes: RFC 9110 §5.5
  ((0..0x1f).to_a - [9, 10, 13] + [0x7f]).each do |byte|
    refuses format("the byte %#04x in a value", byte), head("A: b#{byte.chr}c"), 400, /control character/
    refuses format("the byte %#04x in a name", byte), head("A#{byte.chr}: b"), 400, /control character/
  end
  refuses "a NUL at the end of a value", head("A: b\0"), 400, /control character/
  refuses "a NUL after a long value", head("A: #{"b" * 100}\0"), 400, /control character/
  refuses "a NUL in a field's place", head("\0"), 400, /control character/
  refuses "a carriage return in a value", head("A: b\rc"), 400, /carriage return/
  refuses "a carriage return in a name", head("A\rB: c"), 400, /carriage return/
  refuses "a carriage return before the colon", head("A\r: c"), 400, /carriage return/
  refuses "a line feed in a value", head("A: b\nc: d"), 400, /line feed/
  refuses "a line feed in place of a value", head("A:\n b"), 400, /line feed/
  refuses "a vertical tab before chunked", head("Transfer-Encoding: \vchunked"), 400, /control character/

  # The vectorised scan stops at the right byte at any position.
  def test_a_control_byte_is_found_at_every_place_of_a_value
    (0..40).each do |before|
      [0, 1, 8, 0x1f, 0x7f].each do |byte|
        [0, 1, 15, 33].each do |after|
          bytes = self.class.head("A: #{"\xFF".b * before}#{byte.chr}#{"b" * after}".b)
          assert_equal [400, "a control character"], parse(bytes), [before, byte, after].inspect
        end
      end
    end
  end

  def test_every_byte_that_values_may_have_is_kept
    value = ["x".ord, 9, *0x20..0x7e, *0x80..0xff].pack("C*")
    (0..17).each do |shift|
      whole = "#{"x" * shift}#{value}x".b
      assert_equal whole, parse(self.class.head("A: #{whole}".b))[:fields].last.last
    end
  end
end
