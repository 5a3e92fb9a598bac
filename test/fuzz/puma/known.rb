# frozen_string_literal: true

require_relative "known_heads"

module NeverBlockPumaFuzz
  # The differences from Puma that are known, each with an example and the reason. One that is not here fails the run.
  #
  #   Known.rows(difference)     # => [#<struct Row what="two Cookie fields", …>]
  #
  # A row is kinds and a key of Comparison::Difference, what it is about, why ours is right (a section of an RFC, Rack's
  # SPEC, or "taste"), an example that must show it (KNOWN=1), and a block if more has to be true of ours, Puma's, and
  # the difference.
  module Known
    Row = Struct.new(:kinds, :key, :what, :why, :example, :judge) do
      def explains?(one) = kinds.include?(one.kind) && (key.nil? || key === one.key.to_s) && (judge.nil? || judge.call(one.ours, one.puma, one))
    end

    extend KnownHeads

    ROWS = [] # standard:disable Style/MutableConstant -- filled below

    # @param example [String, Array] parts of a conversation
    def self.known(kinds, key, what, why, example, &judge) = ROWS << Row.new(Array(kinds), key, what, why, Array(example), judge)

    # A response that we refuse and Puma sends, by a word of Apps::Respond.
    def self.known_response(word, what, why)
      known(:refusal, nil, what, why, respond(word)) { |ours, puma, one| puma.nil? && STATUS[ours] == 500 && one.request.match?(/[?&]#{Regexp.escape(word)}(&| HTTP)/) }
    end

    # @return [Array<Row>] those that explain the difference
    def self.rows(difference) = ROWS.select { |row| row.explains?(difference) }

    # A request to Apps::Respond.
    def self.respond(words, method = "GET", version = "1.1") = head(request: "#{method} /respond?#{words} HTTP/#{version}")

    # A request with a body in chunks.
    def self.chunks(body) = head("Transfer-Encoding: chunked", request: "POST / HTTP/1.1") + body.b

    # Heads, in the other table too.
    STATUS = ->(answer) { Array === answer ? answer.first : nil }
    # Whether we alone refuse so; an answer to HEAD has no text.
    OURS_ALONE = ->(status, text, ours, puma) { puma.nil? && [[status, text], [status, ""]].include?(ours) }
    END_OF_CHUNKS = "0\r\n\r\n"
    ALIKE = ["a carriage return without line feed", "an empty line in place of a request line", "an empty line before the request", "what follows the head",
      "the length of a body in chunks"].freeze # when there is more than a head
    KnownHeads::STRICTER.each do |status, reason, example, why|
      next if ALIKE.include?(reason)
      example += END_OF_CHUNKS if example.match?(/: .*chunked/n)
      known(:refusal, nil, reason, why, example) { |ours, puma| OURS_ALONE.call(status, reason, ours, puma) }
    end
    KnownHeads::LOOSER.each do |name, (sign, example, why)|
      next if ALIKE.include?(name)
      known(:refusal, nil, name, why, example) { |ours, puma, one| ours.nil? && [400, 501].include?(STATUS[puma]) && sign.match?("#{one.request}\r\n") }
    end
    KnownHeads::ENV_DIFFERENCES.each do |name, (key, judge, example, why)|
      next if ALIKE.include?(name)
      known(:env, key, name, why, example) { |ours, puma, one| judge.call(ours, puma.to_s, one.key, one.conversation.bytes) }
    end
    known(:env, "REQUEST_PATH", "Puma's REQUEST_PATH", "not in the SPEC of Rack; PATH_INFO is the same", head) { |ours, _| ours.nil? }
    known(:env, "SERVER_SOFTWARE", "the server's name", "each has its own", head)
    known([:env, :missing], /\A(SERVER_PROTOCOL)?\z/, "a higher minor version of HTTP", "RFC 9110 §2.5: it is as the highest that we speak, and Puma closes", head(request: "GET / HTTP/1.2")) { |ours, puma, one| one.conversation.bytes.include?("HTTP/1.2") && (puma.nil? || ours == "HTTP/1.1") }
    known(:env, /\Apuma\./, "Puma's own keys", "not in the SPEC of Rack", head) { |ours, _| ours.nil? }
    known(:env, /\Aneverblock\./, "our own keys", "docs/server.md", head) { |_, puma| puma.nil? }
    known(:env, "rack.after_reply", "Puma's rack.after_reply", "not in the SPEC of Rack, which has rack.response_finished", head) { |ours, _| ours.nil? }
    known(:env, "rack.version", "the version of the SPEC", "Rack 3 has none; 3.1 is what we follow", head)
    known(:env, "rack.protocol", "the protocols that a client offers", "SPEC of Rack 3.1", head("Connection: Upgrade", "Upgrade: a, b")) { |_, puma| puma.nil? }
    known(:env, "frozen", "values that can't be changed in place", "requests share them: taste, docs/from-puma.md has it", head)
    known(:env, "not binary", "texts of Puma with another encoding", "SPEC of Rack: ASCII-8BIT", head) { |ours, _| ours == "" }
    known(:env, "rack.input", "methods of an empty input that SPEC doesn't have", "SPEC of Rack", head) { |ours, _| ours == "an object with each gets read rewind size close" }
    known(:env, /\AHTTP_.*,/, "an underscore in the name of a framing field", "as of X_A above; Puma shows it with a comma", head("Content_Length: 5")) { |ours, _| ours.nil? }
    known(:env, /\A(SERVER_PORT|rack\.url_scheme)\z/, "a client's word on the scheme", "any client may send X-Forwarded-Proto: trusted_proxies names those that count", head("X-Forwarded-Proto: https")) { |ours, puma| [%w[80 443], %w[http https]].include?([ours, puma]) }
    known([:env, :rails], /\A(HTTP_HOST|SERVER_NAME|SERVER_PORT|url|host|port)\z/, "a host in the target alone, in HTTP/1.0", "RFC 9112 §3.2.2: the target's counts", bare("GET http://b/ HTTP/1.0")) { |_, _, one| one.request.match?(%r{\A\S+ https?://.* HTTP/1\.0\z}i) }
    known([:env, :rails], /\A(HTTP_HOST|SERVER_NAME|url|host)\z/, "an empty Host in HTTP/1.0", "RFC 9110 §7.2: it names no host, so there is none", bare("GET /rails HTTP/1.0", "Host:")) { |_, puma, one| puma.to_s.delete('"').match?(%r{\A(http:///.*)?\z}) && one.request.end_with?("1.0") }
    known(:rails, "cookies", "two Cookie fields", "as in the env", head("Cookie: a=1", "Cookie: a=2", request: "GET /rails HTTP/1.1"))

    known(:refusal, nil, "CONNECT to something other than host:port", "RFC 9112 §3.2.3", head(request: "CONNECT / HTTP/1.1")) { |ours, puma| OURS_ALONE.call(400, "CONNECT to something other than host:port", ours, puma) }
    known(:refusal, nil, "over 100 fields", "max_header_count", head(*(1..101).map { |number| "X-#{number}: 1" })) { |ours, puma| OURS_ALONE.call(431, "too many fields", ours, puma) }
    known(:refusal, nil, "a path beyond 8 KiB", "max_uri_length is for the whole target; Puma has limits for its parts", head(request: "GET /#{"x" * 9_000} HTTP/1.1")) { |ours, puma, one| ours.nil? && STATUS[puma] == 400 && one.conversation.bytes.match?(/x{8192}/n) }

    # Bodies.
    {"a blank after a chunk size" => "5 \r\nhello\r\n0\r\n\r\n", "a chunk size with too many digits" => "#{"0" * 30}5\r\nhello\r\n0\r\n\r\n",
     "a character no trailer name can have" => "0\r\na b: c\r\n\r\n", "no chunk size" => " 5\r\nhello\r\n0\r\n\r\n", "a control character in a chunk extension" => "5;a\vb\r\nhello\r\n0\r\n\r\n",
     "no CRLF after the last chunk" => "0\r\n\ra\r\n\r\n", "a trailer line without CRLF" => "0\r\na: b\rc\r\n\r\n",
     "a folded trailer" => "0\r\na: b\r\n c\r\n\r\n", "a control character in a trailer" => "0\r\na: b\vc\r\n\r\n",
     "a trailer without a name" => "0\r\n: c\r\n\r\n"}.each do |reason, body|
      known(:refusal, nil, reason, "RFC 9112 §7.1: who reads it another way sees another end of the request", chunks(body)) { |ours, puma| OURS_ALONE.call(400, reason, ours, puma) }
    end
    known(:refusal, nil, "chunk extensions that are too long", "RFC 9112 §7.1.1 asks for a limit; Puma's is for all of them together", chunks("5;#{"e" * 5_000}\r\nhello\r\n0\r\n\r\n")) { |ours, puma| OURS_ALONE.call(413, "chunk extensions that are too long", ours, puma) }
    known(:interim, "100", "100 Continue when the body has come", "RFC 9110 §10.1.1: it may be left out then", head("Expect: 100-continue", "Content-Length: 1", request: "POST / HTTP/1.1") + "a")

    known(:missing, nil, "a line of a chunk without CRLF", "RFC 9112 §7.1: an error; Puma waits for more, which never comes", chunks("0\n\n")) { |ours, puma| puma.nil? && ours && ours.last != "by the app" }
    known(:refusal, nil, "a pause within the end of chunks", "Puma takes a trailer, or the next request, for a chunk", [chunks("0\r\n"), :pause, "\r\n#{head}"]) do |ours, puma, one|
      ours.nil? && [400, 500].include?(STATUS[puma]) && one.conversation.parts.include?(:pause) && one.conversation.bytes.match?(/chunked/ni)
    end
    known([:missing, :interim], nil, "a client that has closed its direction", "RFC 9112 §9.6: it may wait for answers; Puma takes it for gone", [head, :half_close]) { |_, puma, one| puma.nil? && one.conversation.half_closes? }

    # Connections.
    known(:field, "connection", "Connection: close in HTTP/1.0", "it says what is true anyway: taste", head(request: "GET / HTTP/1.0")) { |ours, puma, one| ours & ["close"] == ["close"] && ours - ["close"] == puma.to_a && one.request.end_with?("1.0") }
    known(:field, "connection", "close in a list, or twice", "RFC 9110 §7.6.1", head("Connection: x, close")) do |ours, puma, one|
      ours & ["close"] == ["close"] && ours - ["close"] == puma.to_a && one.conversation.bytes.match?(/^Connection:.*,.*close|^Connection: close.*,|^Connection:.*^Connection:/mni)
    end
    known([:field, :body], /\A(connection)?\z/, "an end without a length, in HTTP/1.0", "RFC 9112 §6.3: it is the connection's end that ends the body; Puma says keep-alive, and closes", bare("GET /respond?body=each HTTP/1.0", "Connection: keep-alive")) do |ours, puma, one|
      one.request.end_with?("1.0") && ((one.kind == :body) ? puma.start_with?(ours) : [ours, puma] == [["close"], ["keep-alive"]])
    end
    known(:field, "connection", "keep-alive in a list, in HTTP/1.0", "RFC 9110 §7.6.1", bare("GET / HTTP/1.0", "Connection: Keep-Alive, TE")) { |ours, puma, one| ours == ["keep-alive"] && puma.nil? && one.request.end_with?("1.0") }
    known(:field, "connection", "the order of two Connection fields", "RFC 9110 §5.3: it has no meaning", respond("field=connection:upgrade").sub("\r\n\r\n", "\r\nConnection: close\r\n\r\n")) { |ours, puma| ours.to_a.sort == puma.to_a.sort }
    known(:field, "connection", "an app's Connection: keep-alive", "RFC 9110 §7.6.1: it is the server that decides", respond("field=connection:keep-alive")) { |ours, puma, one| puma == ["keep-alive"] && one.request.include?("field=connection:keep-alive") }

    known(:field, "connection", "an app's Connection: close", "Puma sends it twice when it closes anyway", respond("field=connection:close").sub("\r\n\r\n", "\r\nConnection: close\r\n\r\n")) { |ours, puma| ours == ["close"] && puma == %w[close close] }
    known(:field, "connection", "a partial hijack", "SPEC of Rack: the app ends the connection, and the client is told", respond("hijack=partial")) { |ours, puma, one| ours == ["close"] && puma.nil? && one.request.match?(/hijack=p/) }
    known(:missing, nil, "a request line that begins with a wrong byte and doesn't end", KnownHeads::LATER, "{") { |ours, puma| ours.nil? && STATUS[puma] == 400 }

    # Responses: their ends.
    known(:field, "date", "Date", "RFC 9110 §6.6.1: a server with a clock sends it", head) { |_, puma| puma.nil? }
    known([:framing, :field], /\Atransfer-encoding\z|\A\z/, "a body that is called with the stream", "it is sent in chunks (RFC 9112 §7.1), and the connection stays", respond("body=stream")) { |_, puma, one| [:close, nil].include?(puma) && one.request.include?("body=stream") }
    known([:framing, :field], /\A(transfer-encoding|content-length)?\z/, "a file without a path", "an IO may grow, and is read to its end: taste", respond("body=unlinked_file")) { |_, _, one| one.request.include?("body=unlinked_file") }
    known(:field, "content-length", "the length of nothing, to HEAD", "RFC 9110 §8.6: an app leaves the body out, and GET may have one", respond("body=empty", "HEAD")) { |ours, puma, one| ours.nil? && puma == ["0"] && one.request.start_with?("HEAD ") }
    known(:field, "content-length", "the length of an env, to HEAD", "each server has its own keys", head(request: "HEAD / HTTP/1.1")) { |ours, puma, one| ours && puma && one.request.start_with?("HEAD ") && !one.request.include?("respond") }
    known(:field, "content-length", "a length with 304", "RFC 9110 §8.6: it may be left out", respond("status=304")) { |ours, puma, one| ours.nil? && one.request.include?("=304") }
    known([:framing, :body, :complete, :field], /\A(content-length|transfer-encoding)?\z/, "content with 205", "RFC 9110 §15.3.6: there is none", respond("status=205")) { |ours, _, one| one.request.include?("=205") }
    known([:body, :complete, :bytes, :missing, :field], /\A(content-length)?\z/, "a body that isn't as long as its length", "RFC 9112 §6.3: the rest of a body is no answer, and what is missing ends the connection", respond("length=3")) { |_, _, one| one.conversation.bytes.match?(/[?&]length=/n) }
    known([:framing, :field, :body, :complete], /\A(transfer-encoding|content-length)?\z/, "an app's Transfer-Encoding", "RFC 9112 §6.1: the server alone knows how it sends", respond("field=transfer-encoding:identity")) { |_, _, one| one.request.include?("field=transfer-encoding:") }

    # Responses: their fields.
    known_response("body=raising", "a body that raises before anything has been sent", "taste: the client sees an error, where Puma sends the status of a success and breaks off")
    {"field=x-nul:a%00b" => "a NUL", "field=x-lines:a%0Ab" => "a newline", "field=set-cookie:a=1%0Ab=2" => "two cookies in a String", "field=x-cr:a%0D%0Ab" => "CRLF",
     "field=x-control:a%01b" => "a control character", "field=x-delete:a%7Fb" => "DEL"}.each do |word, what|
      known_response(word, "#{what} in a field's value", "SPEC of Rack 3 and RFC 9110 §5.5: an error in the log says it, where Puma drops the field or the rule")
    end
    %w[field=x%20y:1 field=x%0Ay:1 field=:1 field=x(y):1].each { |word| known_response(word, "a name that no field can have, #{word}", "RFC 9110 §5.1: an error in the log says it, where Puma drops or sends the field") }
    %w[hint=link:a%0Db hint=x%20y:1].each { |word| known_response(word, "a bad field among early hints, #{word}", "as for a response") }
    %w[status=99 status=0].each { |word| known_response(word, "a status that no response has, #{word}", "RFC 9110 §15: 100 to 599 have a meaning") }
    known(:refusal, nil, "101 in HTTP/1.0", "RFC 9110 §15.2: it has no 1xx", respond("status=101", "GET", "1.0")) { |ours, puma, one| puma.nil? && STATUS[ours] == 500 && one.request.match?(/=101\b.* HTTP.1.0/) }
    %w[length=x length=].each { |word| known_response(word, "a Content-Length that is not a number, #{word}", "RFC 9110 §8.6; Puma takes it for 0") }
    known(:field, nil, "a field with nothing", "SPEC of Rack: a String, or an Array of them; Puma sends an empty one, or []", respond("none=x-nil")) { |ours, puma| ours.nil? && [[""], ["[]"]].include?(puma) }
    known(:interim, "103", "early hints in HTTP/1.0", "RFC 9110 §15.2: it has no 1xx", respond("hint=x-a:1", "GET", "1.0")) { |ours, puma, one| ours.nil? && one.request.end_with?("1.0") }
    known(:interim, "103", "an empty field among early hints", "RFC 9110 §5.5: a value may be empty", respond("hint=x-a:")) { |ours, puma| ours == [["x-a", ""]] && puma.nil? }
  end
end
