# frozen_string_literal: true

module NeverBlockPumaFuzz
  # The words that requests are made of. A word that is there twice is chosen twice as often.
  module Vocabulary
    METHODS = %w[GET GET GET POST POST POST PUT PATCH DELETE HEAD HEAD OPTIONS TRACE PROPFIND get BREW CONNECT G@T].freeze

    TARGETS = %W[/ /lint /a/b?c=d /a/b?c=d&e /rails /rails/a?b=1&c[]=2&c[]=3 /rails?a[b][c]=1 /rails/a%20b?q=%E2%82%AC /rails/%zz?a=%ff /lint?a=b
      * http://a/x?y http://a http://b/rails https://a:8443/x HTTP://A/x //x/y /../x /a/./b /a%2Fb /a%00 /a;b=c /?q="<>{}|^` /a|b /? /?? /a?b#c /#a
      /\xFF /?\xC3\xA9 a a:80 ftp://a/ http://u@a/ http:///x /:80].map(&:b).push("/a b", "", "/#{"x" * 3_000}", "/?#{"q=1&" * 2_000}").freeze

    VERSIONS = ["HTTP/1.1"] * 16 + ["HTTP/1.0"] * 3 + ["HTTP/0.9", "HTTP/2.0", "HTTP/1.2", "HTTP/1.11", "http/1.1", "HTTP/1.1 ", ""]

    HOSTS = ["Host: a"] * 24 + ["Host: a.example:3000", "host:a", "HOST: A.Example", "Host: [::1]:80", "Host: [::1]", "Host: 10.0.0.1", "Host: a:", "Host: a:080",
      "Host: a:99999", "Host: a/b", "Host: a b", "Host: ", "Host: a\r\nHost: b", "Host: a\r\nHost: a", "Host: a,b", "X-No: host", "Host: _a_b", "Host: \xC3\xA9".b]

    CONTENT_TYPES = ["application/json", "application/json; charset=utf-8", "application/x-www-form-urlencoded", "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=b", "text/plain", "application/octet-stream", "", "text", "application/x-www-form-urlencoded; charset=iso-8859-1",
      "multipart/form-data", "application/vnd.api+json", "text/xml"].freeze

    # Further field lines; most requests have a few.
    FIELDS = ["Accept: */*", "Accept: application/json", "Accept: text/html, */*;q=0.1", "Accept-Encoding: gzip, deflate, br", "Accept-Language: de, en;q=0.5",
      "User-Agent: x/1.0 (y; z)", "Cookie: a=1; b=2", "Cookie: c=3", "Cookie: d=\"4, 5\"", "Referer: http://a/", "Origin: http://b", "Authorization: Basic YTpi",
      "Authorization: Token token=x", "X-Requested-With: XMLHttpRequest", "X-HTTP-Method-Override: DELETE", "X-Forwarded-For: 1.2.3.4", "X-Forwarded-For: 1.2.3.4, 10.0.0.1",
      "X-Forwarded-For: x", "X-Forwarded-Proto: https", "X-Forwarded-Proto: http, https", "X-Forwarded-Ssl: on", "X-Forwarded-Scheme: https", "X-Forwarded-Host: c:81",
      "X-Forwarded-Port: 444", "Forwarded: for=5.6.7.8;proto=https;host=d", "Client-Ip: 9.9.9.9", "X-Real-Ip: 8.8.8.8", "Proxy: http://evil", "Version: 9", "Https: on",
      "X_A: 1", "X-A: 1", "X-A: 2", "X-a: 3", "X-Empty:", "X-Empty: ", "X-Blanks: \t a b \t", "X-Long: #{"v" * 2_000}", "X-#{"n" * 200}: 1", "X-Utf8: \xC3\xA9".b, "X-Latin1: \xE9".b,
      "X-Quoted: \"a\\\"b\"", "X-Tab: a\tb", "X-Control: a\x01b", "X-Delete: a\x7Fb", "X-Nul: a\0b", "X-Lf: a\nb", "X-Cr: a\rb", "X-Folded: a\r\n b", "X Blank: 1", "X-Before : 1", ": none", "nothing",
      "X(A): 1", "X!#$%&'*+.^`|~9: 1", "Connection: close", "Connection: keep-alive", "Connection: Keep-Alive, TE", "Connection: close, x", "Connection: x, close", "Connection: CLOSE", "Keep-Alive: timeout=5",
      "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
      "Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c, echo\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA", "Expect: 100-continue", "Expect: 100-Continue", "Expect: tea", "Expect:",
      "TE: trailers", "Trailer: X-T", "Content-Encoding: gzip", "Content-Language: de", "Content-Md5: x", "Range: bytes=0-3", "If-None-Match: \"a\"", "If-Modified-Since: Sat, 28 Nov 2026 00:00:00 GMT",
      "Date: Sat, 28 Nov 2026 00:00:00 GMT", "Max-Forwards: 3", "Via: 1.1 p", "X-Request-Id: abc", "X-Request-Start: t=1700000000.123", "Sec-Fetch-Site: cross-site", "Dnt: 1", "Remote-User: x",
      "Script-Name: /x", "Path-Info: /y", "Server-Name: z", "Rack.input: x", "X-Method: HEAD", "Status: 1"].map(&:b).freeze

    # Lines that say where a body ends, in place of right ones.
    FRAMING = ["Content-Length: 5, 5", "Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5\r\nContent-Length: 6", "Content-Length: +5", "Content-Length: -5", "Content-Length: 0x5",
      "Content-Length: 5_0", "Content-Length: ", "Content-Length: 005", "Content-Length: 99999999999999999999", "Content-Length: 5 5", "Content_Length: 5", "Transfer_Encoding: chunked",
      "Transfer-Encoding: Chunked", "Transfer-Encoding: chunked ", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: gzip", "Transfer-Encoding: identity",
      "Transfer-Encoding: x, chunked", "Transfer-Encoding: chunked, gzip", "Transfer-Encoding: \"chunked\"", "Transfer-Encoding: chunked;a=b", "Transfer-Encoding: ,chunked", "Transfer-Encoding:",
      "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5", "Content-Length: 0\r\nTransfer-Encoding: chunked",
      "Transfer-Encoding: \vchunked", "Transfer-Encoding : chunked"].freeze

    CONTENTS = ["", "a", "hello", "{\"a\":{\"b\":[1,2]}}", "{\"a\":", "[1,2]", "a=1&b[c]=2&d[]=3&d[]=4", "a=%E2%82%AC&_method=delete", "a=%zz&&=", "a[=1&a=2", "\x00\xFF\r\n\r\n\n", "line 1\nline 2\n",
      "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.txt\"\r\nContent-Type: text/plain\r\n\r\nfile\r\n--b\r\nContent-Disposition: form-data; name=\"v\"\r\n\r\n1\r\n--b--\r\n",
      "--b\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\nno end", "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", "0\r\n\r\n", "x" * 5_000, "y\n" * 100_000].map(&:b).freeze

    # Faults in a body that is sent in chunks: what is replaced, and by what.
    CHUNK_FAULTS = [[/\A\h+/n, "0x5"], [/\A\h+/n, "g"], [/\A\h+/n, ""], [/\A\h+/n, " 5"], [/\A\h+/n, "+5"], [/\A\h+/n, "ffffffffffffffff"], [/\A\h+/n, "00000000000000000005"], [/\A\h+/n, "-1"], [/\A\h+\r\n/n, "5\n"],
      [/\A(\h+)/n, "\\1 "], [/\A(\h+)/n, "\\1;a=b"], [/\A(\h+)/n, "\\1;a=\"b c\""], [/\A(\h+)/n, "\\1;a\nb"], [/\A(\h+)/n, "\\1;#{"e" * 5_000}"], [/\A(\h+)/n, "00\\1"], [/0\r\n\r\n\z/n, ""], [/0\r\n\r\n\z/n, "0\r\n"],
      [/0\r\n\r\n\z/n, "0\r\nX-T: 1\r\n\r\n"], [/0\r\n\r\n\z/n, "0\r\nContent-Length: 5\r\n\r\n"], [/0\r\n\r\n\z/n, "0\r\nX-T\r\n\r\n"], [/0\r\n\r\n\z/n, "000;x\r\n\r\n"], [/0\r\n\r\n\z/n, "0\n\n"], [/\r\n0\r\n/n, "0\r\n"],
      [/\r\n0\r\n/n, "xx\r\n0\r\n"], [/\r\n0\r\n/n, "\n0\r\n"], [/0\r\n\r\n\z/n, "0\r\nX-T: 1\r\nX-U: 2\r\n\r\n"]].freeze

    # What faults are made of.
    BITS = ["\0", "\t", "\n", "\r", "\r\n", " ", "!", "\"", "#", "%", "'", "(", ",", "-", ".", "/", "0", "1", ":", ";", "<", "?", "@", "A", "[", "\\",
      "]", "_", "a", "{", "|", "~", "\x7f", "\x80", "\xff", "\v", ", ", "chunked", "HTTP/1.1", "Host: b\r\n", "Content-Length: 3\r\n",
      "Transfer-Encoding: chunked\r\n"].map(&:b).freeze

    # Targets of the Rails app's other actions.
    RAILS_RESPONSES = ["/rails/live", *%w[file data enumerator redirect nothing cookies hints fresh old error missing json proxy partial length].map { |kind| "/rails/respond/#{kind}" }].freeze

    # Words for Apps::Respond; those with a % are encoded already.
    STATUSES = [200, 200, 200, 201, 202, 204, 205, 206, 301, 304, 404, 418, 422, 426, 500, 503, 599, 799, 999, 99, 0].freeze
    RESPONSE_FIELDS = %w[field=x-a:1 field=X-A:b field=x-empty: field=x-lines:a%0Ab field=x-cr:a%0D%0Ab field=x-nul:a%00b field=x-high:%C3%A9 field=x-blanks:%20a%20 field=x-tab:a%09b
      list=x-list:a,b list=set-cookie:a=1,b=2 field=set-cookie:a=1%0Ab=2 list=x-none: none=x-nil number=x-number:5 field=status:200 field=Status:404%20Not%20Found field=rack.session:x
      field=date:Sat,%2028%20Nov%202026%2000:00:00%20GMT field=server:x field=content-type:text/html field=connection:close field=connection:keep-alive field=connection:upgrade
      field=transfer-encoding:chunked field=transfer-encoding:identity field=etag:%22a%22 field=location:/x field=x%20y:1 field=x%0Ay:1 field=:1 field=x(y):1 field=trailer:x-t field=content-encoding:gzip
      field=x-a_b:1 field=keep-alive:timeout=5 field=upgrade:x field=vary:a,%20b field=x-delete:a%7Fb field=x-control:a%01b].freeze
    HINTS = %w[hint=link:%3C/a.css%3E hint=link:%3C/a.css%3E%0A%3C/b.js%3E hint=x-a: hint=x-a:1 hint=link:a%0Db hint=x%20y:1].freeze
    LENGTHS = %w[length=6 length=6 length=0 length=3 length=600 length=x length=].freeze
  end
end
