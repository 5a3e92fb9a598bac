# frozen_string_literal: true

# The table of differences from Puma. A row: what, why, kinds and key of Comparison::Difference, an example, and what else
# must be true. Heads that only one of the two takes are in known_heads.rb. Loaded by known.rb.
module NeverBlockPumaFuzz
  module Known
    include KnownHeads # its constants
    extend KnownHeads

    # ---- heads ----
    # These are no differences where there is more than a head.
    alike = ["a carriage return without line feed", "an empty line in place of a request line", "an empty line before the request",
      "what follows the head", "the length of a body in chunks"]
    STRICTER.each do |status, text, example, why|
      refused(status, text, why, example.match?(/: .*chunked/n) ? "#{example}0\r\n\r\n" : example) unless alike.include?(text)
    end
    LOOSER.except(*alike).each do |what, (sign, example, why)|
      row(what, why, :refusal, nil, example) { |one| one.ours.nil? && [400, 501].include?(one.puma.first) && sign.match?("#{one.request}\r\n") }
    end
    ENV_DIFFERENCES.except(*alike).each do |what, (key, judge, example, why)|
      row(what, why, :env, key, example) { |one| judge.call(one.ours, one.puma.to_s, one.key, one.conversation.bytes) }
    end
    refused 400, "CONNECT to something other than host:port", "RFC 9112 §3.2.3", head(request: "CONNECT / HTTP/1.1")
    refused 501, "CONNECT", "RFC 9110 §9.3.6: it asks for a tunnel, which no app opens", head(request: "CONNECT a:80 HTTP/1.1")
    refused 431, "too many fields", "max_header_count is 100", head(*Array.new(101) { |number| "X-#{number}: 1" })
    row "a path beyond 8 KiB", "max_uri_length is for the whole target; Puma has limits for its parts",
      :refusal, nil, head(request: "GET /#{"x" * 9_000} HTTP/1.1") do |one|
      one.ours.nil? && one.puma.first == 400 && one.sent?(/x{8192}/n)
    end
    row "an empty line before the request", "RFC 9112 §2.2: a server should skip one", :refusal, nil, "\r\n#{head}" do |one|
      one.ours.nil? && one.puma.first == 400 && one.sent?(/(?:\A|\n\r\n|[^\n])\r\n[A-Z]+ [^\r\n]* HTTP/n)
    end
    row "a request line that begins with a wrong byte and doesn't end", LATER, :missing, nil, "{" do |one|
      one.ours.nil? && [400, 501].include?(one.puma.first)
    end

    # ---- the env ----
    row "Puma's REQUEST_PATH", "not in the SPEC of Rack; it is PATH_INFO",
      :env, "REQUEST_PATH", head do |one|
      one.ours.nil?
    end
    row "Puma's own keys", "not in the SPEC of Rack",
      :env, /\A(puma\.|rack\.after_reply\z)/, head do |one|
      one.ours.nil?
    end
    row("our own keys", "docs/server.md", :env, /\Aneverblock\./, head) { |one| one.puma.nil? }
    row "the server's name", "each has its own", :env, "SERVER_SOFTWARE", head
    row "the version of the SPEC", "ours is Rack 3.1's", :env, "rack.version", head
    row "the protocols that a client offers", "SPEC of Rack 3.1",
      :env, "rack.protocol", head("Connection: Upgrade", "Upgrade: a, b") do |one|
      one.puma.nil?
    end
    row "values that can't be changed in place", "taste: requests share them", :env, "frozen", head
    row "Strings of another encoding", "Puma has some; SPEC of Rack: ASCII-8BIT",
      :env, "not binary", head do |one|
      one.ours == ""
    end
    row "further methods of an empty input", "not in the SPEC of Rack", :env, "rack.input", head do |one|
      one.ours == "an object with each gets read rewind size close"
    end
    row "an underscore in the name of a framing field", "as of X_A; Puma shows it with a comma",
      :env, /\AHTTP_.*,/, head("Content_Length: 5") do |one|
      one.ours.nil?
    end
    row "a client's word on the scheme", "any client can send X-Forwarded-Proto: trusted_proxies says whose word counts",
      :env, /\A(SERVER_PORT|rack\.url_scheme)\z/, head("X-Forwarded-Proto: https") do |one|
      [%w[80 443], %w[http https]].include?([one.ours, one.puma])
    end
    row "such a word, where there is no Host", "as above", :rails, /\A(url|port)\z/, bare("GET /rails HTTP/1.0", "X-Forwarded-Proto: https") do |one|
      one.http10? && one.sent?(/^X-Forwarded-/ni) && one.ours.match?(/\b80\b/)
    end
    row "a host in the target, and no other, in HTTP/1.0", "RFC 9112 §3.2.2: it counts",
      %i[env rails], /\A(HTTP_HOST|SERVER_NAME|SERVER_PORT|url|host|port)\z/, bare("GET http://b/ HTTP/1.0") do |one|
      one.http10? && one.request.match?(%r{\A\S+ https?://}i)
    end
    row "an empty Host in HTTP/1.0", "RFC 9110 §7.2: it names none", %i[env rails], /\A(HTTP_HOST|SERVER_NAME|url|host)\z/,
      bare("GET /rails HTTP/1.0", "Host:") do |one|
      one.http10? && one.puma.to_s.delete('"').match?(%r{\A(http:///.*)?\z})
    end
    row "a higher minor version of HTTP", "RFC 9110 §2.5: it is taken for the highest that we speak; Puma closes", %i[env missing field framing],
      /\A(SERVER_PROTOCOL|connection|transfer-encoding)?\z/, head(request: "GET / HTTP/1.2") do |one|
      one.sent?(/HTTP\/1\.[2-9]/n) && (one.ours == "HTTP/1.1" || [nil, :close, ["keep-alive"]].include?(one.puma))
    end
    row "an env that Rack::Lint refuses", "SPEC of Rack", :refusal, nil, head(request: "GET /lint HTTP/1.1").sub("a\r", "a:\r") do |one|
      one.ours.nil? && one.puma.first == 500 && one.asks?("/lint")
    end
    row "two Cookie fields", "as in the env", :rails, "cookies", head("Cookie: a=1", "Cookie: a=2", request: "GET /rails HTTP/1.1")

    # ---- bodies ----
    {
      "a blank after a chunk size" => "5 \r\nhello\r\n0\r\n\r\n",
      "a chunk size with too many digits" => "#{"0" * 30}5\r\nhello\r\n0\r\n\r\n",
      "a control character in a chunk extension" => "5;a\vb\r\nhello\r\n0\r\n\r\n",
      "a chunk size line without CRLF" => "5\r\r\nhello\r\n0\r\n\r\n",
      "no chunk size" => " 5\r\nhello\r\n0\r\n\r\n",
      "no CRLF after the last chunk" => "0\r\n\ra\r\n\r\n",
      "a character no trailer name can have" => "0\r\na b: c\r\n\r\n",
      "a control character in a trailer" => "0\r\na: b\vc\r\n\r\n",
      "a folded trailer" => "0\r\na: b\r\n c\r\n\r\n",
      "a trailer line without CRLF" => "0\r\na: b\rc\r\n\r\n",
      "a trailer without a name" => "0\r\n: c\r\n\r\n"
    }.each { |text, body| refused 400, text, "RFC 9112 §7.1: another reading finds another end of the request", chunks(body) }
    refused 413, "chunk extensions that are too long", "RFC 9112 §7.1.1 asks for a limit, and Puma's is larger", chunks("5;#{"e" * 5_000}\r\nhello\r\n0\r\n\r\n")
    row "a line of a chunk without CRLF", "RFC 9112 §7.1: an error; Puma waits for more", :missing, nil, chunks("0\n\n") do |one|
      one.puma.nil? && one.ours && one.ours.last != "by the app"
    end
    row "a pause within the end of chunks", "Puma takes a trailer, or the next request, for a chunk",
      :refusal, nil, [chunks("0\r\n"), :pause, "\r\n#{head}"] do |one|
      one.ours.nil? && [400, 500].include?(one.puma.first) && one.conversation.parts.include?(:pause) && one.sent?(/chunked/ni)
    end
    row "100 Continue when the content has arrived", "RFC 9110 §10.1.1: it may be left out then",
      :interim, "100", head("Expect: 100-continue", "Content-Length: 1", request: "POST / HTTP/1.1") + "a"

    # ---- connections ----
    row "a client that has closed its direction", "RFC 9112 §9.6: it may wait for answers; Puma takes it for gone",
      %i[missing interim], nil, [head, :half_close] do |one|
      one.puma.nil? && one.conversation.half_closes?
    end
    row "Connection: close in HTTP/1.0", "taste: it says what is true anyway",
      :field, "connection", head(request: "GET / HTTP/1.0") do |one|
      one.http10? && one.adds?("close")
    end
    row "close in a list, or twice", "RFC 9110 §7.6.1: it counts",
      :field, "connection", head("Connection: x, close") do |one|
      one.adds?("close") && one.lists?("close")
    end
    row "keep-alive in a list, in HTTP/1.0", "RFC 9110 §7.6.1",
      :field, "connection", bare("GET / HTTP/1.0", "Connection: Keep-Alive, TE") do |one|
      one.http10? && one.adds?("keep-alive") && one.lists?("keep-alive")
    end
    row "an end without a length, in HTTP/1.0", "RFC 9112 §6.3: the connection's end is the body's; Puma says keep-alive",
      %i[field body], /\A(connection)?\z/, bare("GET /respond?body=each HTTP/1.0", "Connection: keep-alive") do |one|
      one.http10? && ((one.kind == :body) ? one.puma.start_with?(one.ours) : [one.ours, one.puma] == [["close"], ["keep-alive"]])
    end
    row "the order of two Connection fields", "RFC 9110 §5.3: it has no meaning",
      :field, "connection", respond("field=connection:upgrade", "Connection: close") do |one|
      one.ours.to_a.sort == one.puma.to_a.sort
    end
    row "an app's Connection: keep-alive", "RFC 9110 §7.6.1: the server decides",
      :field, "connection", respond("field=connection:keep-alive") do |one|
      one.puma.to_a.include?("keep-alive") && one.asks?("field=connection:keep-alive")
    end
    row "an app's Connection: close", "Puma sends it twice when it closes anyway",
      :field, "connection", respond("field=connection:close", "Connection: close") do |one|
      [one.ours, one.puma] == [["close"], %w[close close]]
    end
    row "a partial hijack", "the app ends the connection, and the client is told",
      :field, "connection", respond("hijack=partial") do |one|
      one.adds?("close") && one.asks?("hijack=p")
    end

    # ---- the framing of responses ----
    framing = /\A(transfer-encoding|content-length)?\z/
    row "a body that is called with the stream", "RFC 9112 §7.1: it is sent in chunks, and the connection goes on",
      %i[framing field], framing, respond("body=stream") do |one|
      [:close, nil].include?(one.puma) && one.asks?("body=stream")
    end
    row "a file without a path", "taste: an IO may grow, and is read to its end",
      %i[framing field], framing, respond("body=unlinked_file") do |one|
      one.asks?("body=unlinked_file")
    end
    row "content with 205", "RFC 9110 §15.3.6: there is none",
      %i[framing field body complete], framing, respond("status=205") do |one|
      one.asks?("=205")
    end
    row "an app's Transfer-Encoding", "RFC 9112 §6.1: the server alone knows how it sends",
      %i[framing field body complete], framing, respond("field=transfer-encoding:identity") do |one|
      one.asks?("field=transfer-encoding:")
    end
    row "a body that isn't as long as its length", "RFC 9112 §6.3: the rest is no answer, and what lacks ends the connection",
      %i[body complete bytes missing field], /\A(content-length)?\z/, respond("length=3") do |one|
      one.sent?(/[?&]length=/n)
    end
    row "the length of nothing, to HEAD", "RFC 9110 §8.6: GET may have content",
      :field, "content-length", respond("body=empty", method: "HEAD") do |one|
      one.head? && one.ours.nil? && one.puma == ["0"]
    end
    row "the length of an env, to HEAD", "each server has its own keys",
      :field, "content-length", head(request: "HEAD / HTTP/1.1") do |one|
      one.head? && one.ours && one.puma && !one.asks?("respond")
    end
    row "a length with 304", "RFC 9110 §8.6: it may be left out",
      :field, "content-length", respond("status=304") do |one|
      one.ours.nil? && one.request.match?(%r{=304|/rails/respond/(old|fresh)})
    end

    # ---- the fields of responses ----
    row("Date", "RFC 9110 §6.6.1: a server with a clock sends it", :field, "date", head) { |one| one.puma.nil? }
    row "a field with nothing", "SPEC of Rack: a String, or an Array of some; Puma sends \"\" or []", :field, nil, respond("none=x-nil") do |one|
      one.ours.nil? && [[""], ["[]"]].include?(one.puma)
    end
    %w[field=x-nul:a%00b field=x-lines:a%0Ab field=set-cookie:a=1%0Ab=2 field=x-cr:a%0D%0Ab field=x-control:a%01b field=x-delete:a%7Fb].each do |word|
      not_sent word, "a control character", "RFC 9110 §5.5, SPEC of Rack 3: an error in the log, where Puma drops or divides the field"
    end
    %w[field=x%20y:1 field=x%0Ay:1 field=:1 field=x(y):1].each do |word|
      not_sent word, "a name that no field can have", "RFC 9110 §5.1: an error in the log, where Puma drops or sends the field"
    end
    %w[hint=link:a%0Db hint=x%20y:1].each { |word| not_sent word, "such a field among early hints", "as of responses" }
    %w[length=x length=].each { |word| not_sent word, "a Content-Length that is not a number", "RFC 9110 §8.6; Puma sends 0" }
    %w[status=99 status=0].each { |word| not_sent word, "a status that no response has", "RFC 9110 §15" }
    not_sent "body=raising", "a body that raises before anything was sent", "taste: a 500, where Puma sends a 200 and breaks off"
    row "101 in HTTP/1.0", "RFC 9110 §15.2: it has no 1xx", :refusal, nil, respond("status=101", version: "1.0") do |one|
      one.http10? && one.puma.nil? && one.ours.first == 500 && one.asks?("=101")
    end
    row "early hints in HTTP/1.0", "RFC 9110 §15.2: it has no 1xx",
      :interim, "103", respond("hint=x-a:1", version: "1.0") do |one|
      one.http10? && one.ours.nil?
    end
    row "an empty field among early hints", "RFC 9110 §5.5: a value may be empty",
      :interim, "103", respond("hint=x-a:") do |one|
      one.puma.nil? && one.ours == [["x-a", ""]]
    end
  end
end
