# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "support/http_cases"

# The decoder of chunked bodies (RFC 9112 §7.1). The bytes of every case are given at once, in two pieces, and byte by
# byte.
class HttpChunksTest < Minitest::Test
  extend NeverBlockTest::HttpCases

  class << self
    def decodes(name, bytes, data, rest: "")
      chunk_case(name, bytes + rest, {data: data.b, consumed: bytes.bytesize}, inner_cuts: bytes.bytesize > 2000)
    end

    def refuses_chunks(name, bytes, status, reason)
      chunk_case(name, bytes, [status, reason], inner_cuts: bytes.bytesize > 2000)
    end

    def waits_for_chunks(name, bytes) = chunk_case(name, bytes, :more)

    private

    def chunk_case(name, bytes, expected, inner_cuts: false)
      bytes = bytes.b
      define_test(name) do
        outcome = parse_chunks(bytes)
        if expected.is_a?(Array)
          assert_equal expected.first, outcome.first, outcome
          assert_match expected.last, outcome.last
        else
          assert_equal expected, outcome
        end
        cuts = (1...bytes.bytesize).to_a
        (inner_cuts ? cuts.each_slice([97, bytes.bytesize / 40].max).map(&:last) : cuts).each do |cut|
          assert_equal outcome, parse_chunks(bytes, cuts: [cut]), "cut at #{cut}"
        end
        assert_equal outcome, parse_chunks(bytes, cuts:), "byte by byte"
      end
    end
  end

  decodes "one chunk", "5\r\nhello\r\n0\r\n\r\n", "hello"
  decodes "several chunks", "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", "hello"
  decodes "no data", "0\r\n\r\n", ""
  decodes "a size in capitals", "A\r\n0123456789\r\n0\r\n\r\n", "0123456789"
  decodes "a size in small letters", "a\r\n0123456789\r\n0\r\n\r\n", "0123456789"
  decodes "every digit of a size", "aBcD\r\n#{"x" * 0xabcd}\r\n0\r\n\r\n", "x" * 0xabcd
  decodes "zeros before a size", "0000000000000005\r\nhello\r\n0\r\n\r\n", "hello"
  decodes "several zeros as the last chunk", "5\r\nhello\r\n000\r\n\r\n", "hello"
  decodes "data that looks like chunks", "9\r\n0\r\n\r\n5\r\na\r\n0\r\n\r\n", "0\r\n\r\n5\r\na"
  decodes "data of any bytes", "6\r\n\0\n\r\xFF\t\x7F\r\n0\r\n\r\n".b, "\0\n\r\xFF\t\x7F".b
  decodes "a body with another request behind it", "1\r\na\r\n0\r\n\r\n", "a", rest: "GET / HTTP/1.1\r\n"
  decodes "a body with a line behind it", "1\r\na\r\n0\r\n\r\n", "a", rest: "\r\n"
  decodes "an extension", "1;a\r\nx\r\n0\r\n\r\n", "x"
  decodes "extensions with values", "1;a=b;c=\"d; e\"\r\nx\r\n0;f=g\r\n\r\n", "x"
  decodes "blanks around an extension", "1 ; a = b\t\r\nx\r\n0\t;a\r\n\r\n", "x"
  decodes "UTF-8 in an extension", "1;a=\"caf\u00e9\"\r\nx\r\n0\r\n\r\n", "x"
  decodes "an extension as long as the limit", "1;#{"a" * 4096}\r\nx\r\n0\r\n\r\n", "x"
  decodes "extensions as long as the limit together", "#{"1;#{"a" * 4096}\r\nx\r\n" * 4}0\r\n\r\n", "xxxx"
  decodes "a signature with every chunk (AWS)", "#{"100;chunk-signature=#{"a" * 64}\r\n#{"x" * 256}\r\n" * 400}0\r\n\r\n", "x" * 102_400
  decodes "as many chunks of a byte as there are", "#{"1\r\nx\r\n" * 10_000}0\r\n\r\n", "x" * 10_000
  decodes "framing as long as the limit", "#{"0000000000000001\r\nx\r\n" * 8_192}0\r\n\r\n", "x" * 8_192
  decodes "a trailer", "1\r\na\r\n0\r\nDigest: abc\r\n\r\n", "a"
  decodes "several trailers", "0\r\nA: b\r\nC:\r\nD:\te\xFF \r\n\r\n".b, ""
  decodes "trailers that would frame (puma CVE-2023-40175), dropped",
    "1\r\na\r\n0\r\nContent-Length: 99\r\nTransfer-Encoding: x\r\nHost: evil\r\n\r\n", "a"
  decodes "trailers as long as the limit", "0\r\nA: #{"b" * (16384 - 7)}\r\n\r\n", ""

  waits_for_chunks "for a size", ""
  waits_for_chunks "for more of a size", "5"
  waits_for_chunks "for the line feed after a size", "5\r"
  waits_for_chunks "for data", "5\r\n"
  waits_for_chunks "for more data", "5\r\nhel"
  waits_for_chunks "for the end after data", "5\r\nhello"
  waits_for_chunks "for the line feed after data", "5\r\nhello\r"
  waits_for_chunks "for the next size", "5\r\nhello\r\n"
  waits_for_chunks "for trailers", "0\r\n"
  waits_for_chunks "for the last line feed", "0\r\n\r"
  waits_for_chunks "for more of a trailer", "0\r\nA: b"
  waits_for_chunks "after a trailer", "0\r\nA: b\r\n"
  waits_for_chunks "for the data of the greatest chunk", "7fffffffffffffff\r\nabc"

  # Sizes
  ["", "g", "-1", "+1", "0x1", "0X1", "x", "_1", "\u0661", "#1", "\"1\"", "'1'", ".1", "$", "(", ":", ","].each do |size|
    refuses_chunks "a size of #{size.inspect} (protocol-http1 CVE-2023-38697)",
      "#{size}\r\na\r\n0\r\n\r\n", 400, /chunk size/
  end
  ["1g", "1_0", "1.0", "1h", "1,1", "1=", "1\"", "1:"].each do |size|
    refuses_chunks "a size of #{size}", "#{size}\r\na\r\n0\r\n\r\n", 400, /hexadecimal/
  end
  refuses_chunks "a blank before a size", " 1\r\na\r\n0\r\n\r\n", 400, /no chunk size/
  refuses_chunks "a blank after a size", "1 \r\na\r\n0\r\n\r\n", 400, /blank after a chunk size/
  refuses_chunks "a blank within a size", "1 1\r\na\r\n0\r\n\r\n", 400, /blank after a chunk size/
  refuses_chunks "a line before a size", "\r\n1\r\na\r\n0\r\n\r\n", 400, /no chunk size/
  refuses_chunks "a NUL after a size", "1\0\r\na\r\n0\r\n\r\n", 400, /hexadecimal/
  refuses_chunks "a size beyond 2**63 - 1", "8000000000000000\r\n", 413, /beyond all limits/
  refuses_chunks "a size beyond 2**64, which is 5 when it wraps",
    "10000000000000005\r\nhello\r\n0\r\n\r\n", 400, /too many digits/
  refuses_chunks "a size of all the bits", "ffffffffffffffff\r\n", 413, /beyond all limits/
  refuses_chunks "a size of 17 digits", "00000000000000005\r\nhello\r\n0\r\n\r\n", 400, /too many digits/
  refuses_chunks "endless digits", "0" * 9000, 400, /too many digits/

  # Line ends (Go CVE-2025-22871, Kestrel CVE-2025-55315)
  refuses_chunks "a line feed after a size", "1\na\r\n0\r\n\r\n", 400, /hexadecimal/
  refuses_chunks "a carriage return after a size", "1\ra\r\n0\r\n\r\n", 400, /without CRLF/
  refuses_chunks "a line feed after data", "1\r\na\n0\r\n\r\n", 400, /after a chunk's data/
  refuses_chunks "a carriage return after data", "1\r\na\r0\r\n\r\n", 400, /after a chunk's data/
  refuses_chunks "no line end after data", "1\r\na0\r\n\r\n", 400, /after a chunk's data/
  refuses_chunks "two other bytes after data (raptor)", "1\r\naXX0\r\n\r\n", 400, /after a chunk's data/
  refuses_chunks "more data than the size", "1\r\nab\r\n0\r\n\r\n", 400, /after a chunk's data/
  refuses_chunks "less data than the size", "3\r\na\r\n0\r\n\r\n", 400, /after a chunk's data/
  refuses_chunks "a line feed in an extension", "1;a\nb\r\nx\r\n0\r\n\r\n", 400, /control character in a chunk ext/
  refuses_chunks "a line feed at the end of an extension",
    "1;a\nx\r\n0\r\n\r\n", 400, /control character in a chunk ext/
  refuses_chunks "a line feed in an extension's quotes",
    "1;a=\"\n\"\r\nx\r\n0\r\n\r\n", 400, /control character in a chunk ext/
  refuses_chunks "a carriage return in an extension (puma CVE-2024-21647)",
    "1;a\rb\r\nx\r\n0\r\n\r\n", 400, /without CRLF/
  refuses_chunks "two carriage returns after an extension", "1;a\r\r\nx\r\n0\r\n\r\n", 400, /without CRLF/
  refuses_chunks "a NUL in an extension", "1;a\0\r\nx\r\n0\r\n\r\n", 400, /control character in a chunk ext/
  refuses_chunks "an extension without its semicolon", "1 a\r\nx\r\n0\r\n\r\n", 400, /blank after a chunk size/
  refuses_chunks "a line feed after the last chunk", "0\n\r\n", 400, /hexadecimal/
  refuses_chunks "a line feed as the last line", "0\r\n\n", 400, /trailer without a name/
  refuses_chunks "a carriage return as the last line", "0\r\n\rX", 400, /after the last chunk/
  refuses_chunks "no line after the last chunk", "0\r\n GET / HTTP/1.1\r\n", 400, /folded trailer/

  # Limits
  refuses_chunks "an extension longer than the limit (node CVE-2024-22019)",
    "1;#{"a" * 4097}", 413, /extensions that are too long/
  refuses_chunks "an endless extension", "1;#{"a" * 9000}", 413, /extensions that are too long/
  refuses_chunks "blanks without end", "1#{" " * 9000}", 413, /extensions that are too long/
  refuses_chunks "extensions longer than the limit together",
    "#{"1;#{"a" * 4096}\r\nx\r\n" * 5}0\r\n\r\n", 413, /far more framing than data/
  refuses_chunks "framing longer than the limit", "#{"0000000000000001\r\nx\r\n" * 8_193}0\r\n\r\n", 413, /far more framing than data/
  refuses_chunks "trailers longer than the limit",
    "0\r\nA: #{"b" * (16384 - 6)}\r\n\r\n", 413, /trailers that are too long/
  refuses_chunks "endless trailers", "0\r\n#{"A: b\r\n" * 4000}", 413, /trailers that are too long/

  # Trailers: the head's rules
  refuses_chunks "a request where a trailer may be", "0\r\nGET / HTTP/1.1\r\n\r\n", 400, /no trailer name can have/
  refuses_chunks "a trailer without a colon", "0\r\nA\r\n\r\n", 400, /no trailer name can have/
  refuses_chunks "a trailer without a name", "0\r\n: a\r\n\r\n", 400, /without a name/
  refuses_chunks "a blank before a trailer's colon", "0\r\nA : b\r\n\r\n", 400, /no trailer name can have/
  refuses_chunks "a folded trailer", "0\r\nA: b\r\n c\r\n\r\n", 400, /folded/
  refuses_chunks "a line feed after a trailer", "0\r\nA: b\n\r\n", 400, /control character in a trailer/
  refuses_chunks "a carriage return in a trailer", "0\r\nA: b\rc\r\n\r\n", 400, /trailer line without CRLF/
  refuses_chunks "a NUL in a trailer", "0\r\nA: \0\r\n\r\n", 400, /control character in a trailer/
  refuses_chunks "a byte above 127 in a trailer's name", "0\r\n\xFF: b\r\n\r\n".b, 400, /without a name/

  def test_a_body_of_all_sizes
    body = "".b
    encoded = (1..300).map { |size|
      body << (data = (size % 256).chr * size)
      "#{size.to_s(16)};x\r\n".b << data << "\r\n"
    }.join << "0\r\n\r\n"
    cuts = (1...encoded.bytesize).step(13).to_a
    assert_equal({data: body, consumed: encoded.bytesize}, parse_chunks(encoded, cuts:))
  end
end
