# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "support/http_cases"

# The end of a message (RFC 9112 §6) and of the connection (§9.3, RFC 9110 §7.6.1, §7.8, §10.1.1).
class HttpFramingTest < Minitest::Test
  extend NeverBlockTest::HttpCases

  def self.post(*lines) = head(*lines, request: "POST / HTTP/1.1")

  def self.old(*lines) = bare("POST / HTTP/1.0", *lines)

  # Content-Length: digits, once (RFC 9112 §6.3)
  accepts "no body", post, content_length: nil, chunked: false
  accepts "a length", post("Content-Length: 5"), content_length: 5, chunked: false
  accepts "a length of nothing", post("Content-Length: 0"), content_length: 0
  accepts "a length with zeros in front", post("Content-Length: 0005"), content_length: 5
  accepts "a length with many zeros in front", post("Content-Length: #{"0" * 40}7"), content_length: 7
  accepts "blanks around a length", post("Content-Length:\t 5 \t"), content_length: 5
  accepts "a length in lower case letters", post("content-length: 5"), content_length: 5
  accepts "a length with GET", head("Content-Length: 5"), content_length: 5
  accepts "the greatest length", post("Content-Length: 9223372036854775807"), content_length: 9223372036854775807
  accepts "a length in HTTP/1.0", old("Content-Length: 5"), content_length: 5
  refuses "a length over the greatest", post("Content-Length: 9223372036854775808"), 413, /beyond all limits/
  refuses "a length of 2**64 + 5", post("Content-Length: 18446744073709551621"), 413, /beyond all limits/
  refuses "a length of a hundred digits", post("Content-Length: #{"9" * 100}"), 413, /beyond all limits/
  refuses "an empty length (puma CVE-2023-40175)", post("Content-Length:"), 400, /empty Content-Length/
  refuses "a blank length", post("Content-Length: \t "), 400, /empty Content-Length/
  ["+5", "-5", "0x5", "5_0", "5 5", "5,5", "5, 5", "5.0", "5e1", "5;", "\"5\"", "five", "5a", "a5", ",5", "5,", "\u0665",
    "5\t5", "0 5", "#5", "5\u00a0"].each do |length|
    refuses "a length of #{length.inspect} (protocol-http1 CVE-2023-38697)",
      post("Content-Length: #{length}"), 400, /not a number/
  end
  refuses "two lengths", post("Content-Length: 5", "Content-Length: 6"), 400, /more than one Content-Length/
  refuses "the same length twice", post("Content-Length: 5", "content-length: 5"), 400, /more than one Content-Length/
  refuses "two lengths of nothing", post("Content-Length: 0", "Content-Length: 0"), 400, /more than one Content-Length/
  refuses "two lengths in HTTP/1.0", old("Content-Length: 5", "Content-Length: 5"), 400, /more than one Content-Length/
  accepts "a length under another name", post("Content_Length: 5", "X-Content-Length: 6"), content_length: nil

  # Transfer-Encoding: one chunked, alone (RFC 9112 §6.1)
  accepts "chunked", post("Transfer-Encoding: chunked"), chunked: true, content_length: nil
  accepts "chunked in other letters", post("transfer-encoding: ChunKED"), chunked: true
  accepts "blanks around chunked", post("Transfer-Encoding: \t chunked \t"), chunked: true
  accepts "chunked under another name",
    post("Transfer_Encoding: chunked", "X-Transfer-Encoding: chunked"), chunked: false
  accepts "chunked with GET", head("Transfer-Encoding: chunked"), chunked: true
  refuses "chunked and a length (puma CVE-2020-11076)",
    post("Transfer-Encoding: chunked", "Content-Length: 5"), 400, /both/
  refuses "a length and chunked (puma CVE-2020-11077)",
    post("Content-Length: 5", "Transfer-Encoding: chunked"), 400, /both/
  refuses "chunked and a length of nothing", post("Transfer-Encoding: chunked", "Content-Length: 0"), 400, /both/
  refuses "another coding and a length", post("Transfer-Encoding: gzip", "Content-Length: 5"), 400, /both/
  refuses "chunked twice", post("Transfer-Encoding: chunked, chunked"), 400, /chunked twice/
  refuses "chunked in two fields",
    post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), 400, /chunked twice/
  refuses "chunked three times in two fields",
    post("Transfer-Encoding: chunked,chunked", "Transfer-Encoding: chunked"), 400, /twice/
  refuses "chunked before another coding (puma CVE-2022-24790)",
    post("Transfer-Encoding: chunked, gzip"), 400, /after chunked/
  refuses "chunked before identity (node CVE-2022-32213)",
    post("Transfer-Encoding: chunked, identity"), 400, /after chunked/
  refuses "chunked before another field's coding",
    post("Transfer-Encoding: chunked", "Transfer-Encoding: x"), 400, /after chunked/
  %w[gzip identity deflate compress xchunked chunkedx chunke chunked-x x].each do |coding|
    refuses "the coding #{coding}", post("Transfer-Encoding: #{coding}"), 501, /other than chunked/
  end
  refuses "another coding before chunked", post("Transfer-Encoding: gzip, chunked"), 501, /other than chunked/
  refuses "another field's coding before chunked",
    post("Transfer-Encoding: gzip", "Transfer-Encoding: chunked"), 501, /other than/
  refuses "another coding with a parameter", post("Transfer-Encoding: gzip;q=1, chunked"), 501, /other than chunked/
  refuses "another coding with blanks before its parameter",
    post("Transfer-Encoding: gzip ; q=1, chunked"), 501, /other than/
  refuses "an empty coding", post("Transfer-Encoding:"), 400, /empty transfer coding/
  refuses "a blank coding", post("Transfer-Encoding: \t"), 400, /empty transfer coding/
  refuses "a comma before chunked", post("Transfer-Encoding: , chunked"), 400, /empty transfer coding/
  refuses "a comma after chunked", post("Transfer-Encoding: chunked,"), 400, /empty transfer coding/
  refuses "an empty coding in a second field",
    post("Transfer-Encoding: chunked", "Transfer-Encoding:"), 400, /empty transfer coding/
  refuses "a comma alone", post("Transfer-Encoding: ,"), 400, /empty transfer coding/
  refuses "chunked with a parameter (§7.1)", post("Transfer-Encoding: chunked;a=b"), 400, /parameter/
  refuses "chunked with a semicolon", post("Transfer-Encoding: chunked;"), 400, /parameter/
  refuses "chunked and a word", post("Transfer-Encoding: chunked gzip"), 400, /parameter/
  refuses "chunked in quotes", post("Transfer-Encoding: \"chunked\""), 400, /empty transfer coding/
  refuses "a coding with a byte above 127", post("Transfer-Encoding: chunked\u00a0"), 400, /parameter/
  refuses "a coding with a slash", post("Transfer-Encoding: gzip/x, chunked"), 400, /malformed/
  refuses "a coding in a comment", post("Transfer-Encoding: (chunked)"), 400, /empty transfer coding/
  refuses "chunked in HTTP/1.0", old("Transfer-Encoding: chunked"), 400, /HTTP\/1.0/
  refuses "another coding in HTTP/1.0", old("Transfer-Encoding: gzip"), 400, /HTTP\/1.0/
  refuses "an empty coding in HTTP/1.0", old("Transfer-Encoding:"), 400, /HTTP\/1.0/
  refuses "chunked and a length in HTTP/1.0", old("Content-Length: 5", "Transfer-Encoding: chunked"), 400, /HTTP\/1.0/

  # Connection: §9.3
  accepts "HTTP/1.1 kept", head, keep_alive: true
  accepts "HTTP/1.1 closed", head("Connection: close"), keep_alive: false
  accepts "HTTP/1.1 closed, in other letters", head("cOnnection: CLOSE"), keep_alive: false
  accepts "HTTP/1.1 closed, within a list", head("Connection: TE , close,Keep-Alive"), keep_alive: false
  accepts "HTTP/1.1 closed, in the second field", head("Connection: keep-alive", "Connection: close"), keep_alive: false
  accepts "HTTP/1.1 closed, in the first field", head("Connection: close", "Connection: keep-alive"), keep_alive: false
  accepts "HTTP/1.1 with empty options", head("Connection: ,, ,close,"), keep_alive: false
  accepts "HTTP/1.1 with no options", head("Connection:"), keep_alive: true
  accepts "HTTP/1.1 with other options",
    head("Connection: closed, xclose, clos, \"close\", close;q=1, x close"), keep_alive: true
  accepts "HTTP/1.0 closed", old, keep_alive: false
  accepts "HTTP/1.0 kept", old("Connection: Keep-Alive"), keep_alive: true
  accepts "HTTP/1.0 kept, within a list", old("Connection: x, keep-alive"), keep_alive: true
  accepts "HTTP/1.0 closed in spite of keep-alive", old("Connection: keep-alive, close"), keep_alive: false
  accepts "HTTP/1.0 with Keep-Alive alone", old("Keep-Alive: timeout=5"), keep_alive: false

  # Upgrade: RFC 9110 §7.8
  accepts "an upgrade", head("Connection: Upgrade", "Upgrade: websocket"), upgrade: true, keep_alive: true
  accepts "an upgrade within a list", head("Upgrade: websocket", "Connection: keep-alive, upgrade"), upgrade: true
  accepts "an Upgrade that Connection does not list", head("Upgrade: websocket"), upgrade: false
  accepts "a Connection that lists an upgrade there is not", head("Connection: upgrade"), upgrade: false
  accepts "an upgrade in HTTP/1.0", old("Connection: upgrade", "Upgrade: websocket"), upgrade: false
  accepts "an upgrade that is not spelt so", head("Connection: upgrades", "Upgrade: websocket"), upgrade: false

  # Expect: RFC 9110 §10.1.1
  accepts "100-continue", post("Content-Length: 5", "Expect: 100-continue"), expect_continue: true
  accepts "100-continue, chunked", post("Expect: 100-Continue", "Transfer-Encoding: chunked"), expect_continue: true
  accepts "100-continue twice", post("Content-Length: 5", "Expect: 100-continue, 100-continue"), expect_continue: true
  accepts "100-continue without a body", head("Expect: 100-continue"), expect_continue: false
  accepts "100-continue with a body of nothing",
    post("Expect: 100-continue", "Content-Length: 0"), expect_continue: false
  accepts "100-continue in HTTP/1.0", old("Content-Length: 5", "Expect: 100-continue"), expect_continue: false
  accepts "another expectation in HTTP/1.0", old("Expect: x"), expect_continue: false
  accepts "an empty expectation", post("Content-Length: 5", "Expect:"), expect_continue: false
  ["x", "100", "100-continued", "100-continue, x", "x=y", "\"100-continue\"", "100-continue;a=b", "200-ok"].each do |value|
    refuses "the expectation #{value}", post("Content-Length: 5", "Expect: #{value}"), 417, /other than 100-continue/
  end
  refuses "another expectation in a second field",
    post("Content-Length: 5", "Expect: 100-continue", "Expect: x"), 417, /other/

  # Of two faults, the one that allows smuggling is reported.
  refuses "another coding and another expectation", post("Expect: x", "Transfer-Encoding: gzip"), 501, /coding/
  refuses "both framings and another expectation",
    post("Expect: x", "Transfer-Encoding: chunked", "Content-Length: 1"), 400, /both/
  refuses "both framings and no Host",
    bare("POST / HTTP/1.1", "Transfer-Encoding: chunked", "Content-Length: 1"), 400, /no Host/
end
