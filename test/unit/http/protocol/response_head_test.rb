# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/http_cases"

# Heads of responses. The lines and fields are read by the code for requests, whose cases are beside this file; here are
# the status line, the rules for where a response ends (RFC 9112 §6.3), and a share of the others.
class HttpResponseHeadTest < Minitest::Test
  extend NeverBlockTest::HttpCases

  KEYS = %i[status minor phrase fields delimiter length keep_alive upgrade head_length].freeze

  # In pieces, each in another place in memory.
  def parse(bytes, cuts: [], to_head: false, head: 65_536, fields: 128)
    scanned = 0
    [*cuts, bytes.bytesize].each do |cut|
      case found = NeverBlock::ResponseParser.head(bytes.byteslice(0, cut).dup, scanned, to_head, head, fields)
      when Integer then scanned = found
      when String then return [502, found]
      else return KEYS.zip(found).to_h.tap { |head| head[:fields] = head[:fields].each_slice(2).to_a }
      end
    end
    :more
  end

  class << self
    # A head of these field lines.
    def head(*lines, status: "HTTP/1.1 200 OK") = bare(status, *lines)
  end

  accepts "the least of HTTP/1.1", "HTTP/1.1 200 OK\r\n\r\n", status: 200, minor: 1, phrase: "OK", fields: [],
    delimiter: :close, length: nil, keep_alive: false, upgrade: false
  accepts "the least of HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\n", minor: 0, delimiter: :close, keep_alive: false
  accepts "an empty phrase", "HTTP/1.1 200 \r\n\r\n", status: 200, phrase: ""
  accepts "no phrase and no space before it", "HTTP/1.1 200\r\n\r\n", status: 200, phrase: ""
  accepts "a phrase of several words", "HTTP/1.1 404 Not  Found here\r\n\r\n", phrase: "Not  Found here"
  accepts "a phrase with a tab and bytes above 127", "HTTP/1.1 200 a\t\xC3\xA9\r\n\r\n", phrase: "a\t\xC3\xA9".b
  accepts "a phrase of 1024 bytes", "HTTP/1.1 200 #{"a" * 1024}\r\n\r\n", phrase: "a" * 1024
  accepts "the version 1.9, as 1.1", head("Content-Length: 1", status: "HTTP/1.9 200 OK"), minor: 1, keep_alive: true
  [200, 299, 304, 451, 599, 600, 999].each do |status|
    accepts "the status #{status}", "HTTP/1.1 #{status} x\r\n\r\n", status:
  end

  refuses "a phrase of 1025 bytes", "HTTP/1.1 200 #{"a" * 1025}\r\n\r\n", 502, /more than 1024/
  refuses "a phrase without end", "HTTP/1.1 200 #{"a" * 3000}", 502, /more than 1024/
  refuses "an empty line before a response", "\r\nHTTP/1.1 200 OK\r\n\r\n", 502, /no HTTP version/
  refuses "a request", "GET / HTTP/1.1\r\n\r\n", 502, /no HTTP version/
  refuses "HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", 502, /other than 1.1 and 1.0/
  refuses "HTTP/0.9 with a version", "HTTP/0.9 200 OK\r\n\r\n", 502, /other than 1.1 and 1.0/
  %w[http/1.1 HTTP/1 HTTP/1,1 HTTP/11.1 HTTP/1.x ICY HTTPS/1.1 XHTTP/1.1].each do |version|
    refuses "the version #{version}", "#{version} 200 OK\r\n\r\n", 502, /no HTTP version/
  end
  refuses "a version of two digits", "HTTP/1.10 200 OK\r\n\r\n", 502, /no space after the HTTP version/
  refuses "a blank before the version", " HTTP/1.1 200 OK\r\n\r\n", 502, /no HTTP version/
  refuses "a tab after the version", "HTTP/1.1\t200 OK\r\n\r\n", 502, /no space after the HTTP version/
  refuses "two spaces after the version", "HTTP/1.1  200 OK\r\n\r\n", 502, /three digits/
  %w[20 2 2x0 +20 -20 0x1 000 099 20.].each do |status|
    refuses "the status #{status}", "HTTP/1.1 #{status} OK\r\n\r\n", 502, /three digits/
  end
  refuses "no status", "HTTP/1.1\r\n\r\n", 502, /no space after the HTTP version/
  refuses "a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n", 502, /no space after the status/
  refuses "a tab after the status", "HTTP/1.1 200\tOK\r\n\r\n", 502, /no space after the status/
  refuses "a line feed after the status line", "HTTP/1.1 200 OK\nA: b\r\n\r\n", 502, /line feed/
  refuses "a carriage return in the phrase", "HTTP/1.1 200 O\rK\r\n\r\n", 502, /carriage return/
  refuses "a NUL in the phrase", "HTTP/1.1 200 O\0K\r\n\r\n", 502, /control character/
  refuses "an alert of TLS", "\x15\x03\x01\x00\x02\x02\x16", 502, /TLS/
  refuses "SSH, with its line", "SSH-2.0-OpenSSH_9.2\r\n", 502, /no HTTP version/

  waits "for the first byte", ""
  waits "for the end of the status line", "HTTP/1.1 200 OK\r"
  waits "for the rest of the version", "HTTP/1."
  waits "for the rest of the status", "HTTP/1.1 20"
  waits "for what follows the status", "HTTP/1.1 200"
  waits "for fields", "HTTP/1.1 200 OK\r\n"
  waits "for the last line feed", "HTTP/1.1 200 OK\r\nA: b\r\n\r"

  # Fields: the rules of requests
  accepts "fields, with names in lower case", head("ETag: \"a\"", "X-A:b", "Content-Type: \t text/plain \t"),
    fields: [["etag", "\"a\""], ["x-a", "b"], ["content-type", "text/plain"]]
  accepts "repeated fields, in order", head("Set-Cookie: a=1", "Set-Cookie: b=2"),
    fields: [["set-cookie", "a=1"], ["set-cookie", "b=2"]]
  accepts "an empty value and one with bytes above 127", head("A:", "B: \xE9"), fields: [["a", ""], ["b", "\xE9".b]]
  accepts "fields that have a meaning only in requests", head("Host: a b", "Host: c", "Expect: x"), status: 200
  accepts "as many fields as allowed", head("A: b", "B: c"), limits: {fields: 2}, status: 200
  accepts "a head as long as allowed", head("A: b"), limits: {head: 25}, status: 200
  refuses "too many fields", head("A: b", "B: c", "C: d"), 502, /too many fields/, limits: {fields: 2}
  refuses "a head that is too long", head("A: bc"), 502, /head is too long/, limits: {head: 25}
  refuses "a status line that is too long", "HTTP/1.1 200 #{"a" * 300}\r\n\r\n", 502, /head is too long/, limits: {head: 256}
  refuses "a folded field", head("A: b", " c"), 502, /folded/
  refuses "a space before the colon", head("Content-Length : 5"), 502, /blank in or after a field name/
  refuses "a blank before the first field", head(" A: b"), 502, /blank before the first field/
  refuses "a line without a colon", head("A"), 502, /without a colon/
  refuses "a field without a name", head(": b"), 502, /without a name/
  refuses "a NUL in a value", head("A: b\0"), 502, /control character/
  refuses "a carriage return in a value", head("A: b\rc"), 502, /carriage return/
  refuses "a line feed in a value", head("A: b\nc"), 502, /line feed/
  refuses "a name with a parenthesis", head("A(b): c"), 502, /no field name can have/
  refuses "a name of 257 bytes", head("#{"a" * 257}: b"), 502, /more than 256/

  # Where it ends: RFC 9112 §6.3
  accepts "Content-Length", head("Content-Length: 5"), delimiter: :length, length: 5, keep_alive: true
  accepts "a length of zero", head("Content-Length: 0"), delimiter: :length, length: 0, keep_alive: true
  accepts "chunks", head("Transfer-Encoding: chunked"), delimiter: :chunked, length: nil, keep_alive: true
  accepts "chunks, in any case", head("transfer-encoding: CHUNKED"), delimiter: :chunked
  accepts "a response until the end of the connection", head("A: b"), delimiter: :close, keep_alive: false
  accepts "one that says keep-alive and has no end", head("Connection: keep-alive"), delimiter: :close, keep_alive: false
  [204, 304].each do |status|
    accepts "#{status} without content", head(status: "HTTP/1.1 #{status} x"), delimiter: :empty, keep_alive: true
  end
  accepts "304 with the length of 200", head("Content-Length: 5", status: "HTTP/1.1 304 x"), delimiter: :empty, length: 5, keep_alive: true
  accepts "304 with chunks", head("Transfer-Encoding: chunked", status: "HTTP/1.1 304 x"), delimiter: :empty, keep_alive: true
  accepts "204 with a length of zero", head("Content-Length: 0", status: "HTTP/1.1 204 x"), delimiter: :empty, keep_alive: true
  accepts "204 with content, which is doubtful", head("Content-Length: 5", status: "HTTP/1.1 204 x"), delimiter: :empty, keep_alive: false
  accepts "204 with chunks, which is doubtful", head("Transfer-Encoding: chunked", status: "HTTP/1.1 204 x"), delimiter: :empty, keep_alive: false
  accepts "205, which has a length like others", head("Content-Length: 0", status: "HTTP/1.1 205 x"), delimiter: :length
  accepts "a response to HEAD", head("Content-Length: 5"), limits: {to_head: true}, delimiter: :empty, length: 5, keep_alive: true
  accepts "a response to HEAD with chunks", head("Transfer-Encoding: chunked"), limits: {to_head: true}, delimiter: :empty, keep_alive: true
  accepts "a response to HEAD without a length", head, limits: {to_head: true}, delimiter: :empty, keep_alive: true
  accepts "100", "HTTP/1.1 100 Continue\r\n\r\n", status: 100, delimiter: :empty
  accepts "103", head("Link: </a>", status: "HTTP/1.1 103 Early Hints"), status: 103, delimiter: :empty
  accepts "101, with an upgrade", head("Connection: Upgrade", "Upgrade: websocket", status: "HTTP/1.1 101 x"),
    status: 101, delimiter: :empty, upgrade: true, keep_alive: false
  accepts "101 whose Connection does not list the upgrade", head("Upgrade: websocket", status: "HTTP/1.1 101 x"), upgrade: false
  accepts "an interim response with the next behind it", "HTTP/1.1 103 x\r\n\r\n", rest: "HTTP/1.1 200 OK\r\n\r\n", status: 103

  refuses "both a length and chunks", head("Content-Length: 5", "Transfer-Encoding: chunked"), 502, /both/
  refuses "both, in the other order", head("Transfer-Encoding: chunked", "Content-Length: 5"), 502, /both/
  refuses "both, also in a response to HEAD", head("Content-Length: 5", "Transfer-Encoding: chunked"), 502, /both/, limits: {to_head: true}
  refuses "two lengths", head("Content-Length: 5", "Content-Length: 6"), 502, /more than one Content-Length/
  refuses "two equal lengths", head("Content-Length: 5", "Content-Length: 5"), 502, /more than one Content-Length/
  refuses "a list of lengths", head("Content-Length: 5, 5"), 502, /not a number/
  ["+5", "-5", "0x5", "5 5", "5.0", "five", "5;"].each do |length|
    refuses "the length #{length}", head("Content-Length: #{length}"), 502, /not a number/
  end
  refuses "an empty length", head("Content-Length:"), 502, /empty Content-Length/
  refuses "a length beyond all limits", head("Content-Length: 9223372036854775808"), 502, /beyond all limits/
  refuses "chunks in HTTP/1.0", head("Transfer-Encoding: chunked", status: "HTTP/1.0 200 OK"), 502, /HTTP\/1.0/
  ["gzip", "gzip, chunked", "identity", "x-chunked", "chunked-x"].each do |coding|
    refuses "the transfer coding #{coding}", head("Transfer-Encoding: #{coding}"), 502, /other than chunked/
  end
  refuses "chunks twice", head("Transfer-Encoding: chunked, chunked"), 502, /chunked twice/
  refuses "chunks in two fields", head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), 502, /chunked twice/
  refuses "a coding after chunks", head("Transfer-Encoding: chunked, gzip"), 502, /after chunked/
  refuses "chunks with a parameter", head("Transfer-Encoding: chunked;a=b"), 502, /parameter/
  refuses "an empty coding", head("Transfer-Encoding:"), 502, /empty transfer coding/
  refuses "a vertical tab before chunked", head("Transfer-Encoding: \vchunked"), 502, /control character/
  refuses "100 with a length", head("Content-Length: 5", status: "HTTP/1.1 100 x"), 502, /interim response with content/
  refuses "103 with chunks", head("Transfer-Encoding: chunked", status: "HTTP/1.1 103 x"), 502, /interim response with content/
  refuses "101 with a length", head("Content-Length: 5", status: "HTTP/1.1 101 x"), 502, /interim response with content/
  refuses "100 of HTTP/1.0", "HTTP/1.0 100 Continue\r\n\r\n", 502, /interim response of HTTP\/1.0/

  # Whether another one may follow
  accepts "Connection: close", head("Content-Length: 5", "Connection: close"), keep_alive: false
  accepts "close in a list", head("Content-Length: 5", "Connection: a, Close"), keep_alive: false
  accepts "close and keep-alive", head("Content-Length: 5", "Connection: keep-alive", "Connection: close"), keep_alive: false
  accepts "HTTP/1.0 with a length", head("Content-Length: 5", status: "HTTP/1.0 200 OK"), delimiter: :length, keep_alive: false
  accepts "HTTP/1.0 that keeps alive", head("Content-Length: 5", "Connection: keep-alive", status: "HTTP/1.0 200 OK"), keep_alive: true

  def test_arguments_that_are_no_numbers_or_bytes_raise
    assert_raises(TypeError) { NeverBlock::ResponseParser.head(nil, 0, false, 1, 1) }
    assert_raises(TypeError) { NeverBlock::ResponseParser.head("", nil, false, 1, 1) }
    assert_raises(RangeError) { NeverBlock::ResponseParser.head("", 1 << 80, false, 1, 1) }
    assert_equal 0, NeverBlock::ResponseParser.head("", 1_000, false, 65_536, 128)
  end
end
