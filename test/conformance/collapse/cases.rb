# frozen_string_literal: true

module Conformance
  module Collapse
    # What eight clients ask for at once, and what the origin server says. `own`: no client may have the response that
    # was made for another one. `warm`: the first response of all, which is stored and stale when the clients ask.
    # `leave`: clients that close their connections before the response. `verb`: their method, if it is not GET.
    Case = Struct.new(:name, :verb, :request, :response, :own, :warm, :leave, keyword_init: true) do # standard:disable Style/RedundantStructKeywordInit
      # @return [Boolean]
      def own? = own == true
    end

    # Clients of each case.
    CLIENTS = 8
    LANGUAGES = %w[de en fr].freeze

    # @api private
    module Words
      module_function

      # @return [String] a response whose text names the call
      def ok(call, *fields, status: "200 OK", text: "call #{call}")
        ["HTTP/1.1 #{status}", *fields, "Content-Type: text/plain", "Content-Length: #{text.bytesize}", "Connection: close", "", text].join("\r\n")
      end

      def always(*fields, **options) = ->(call, _) { ok(call, *fields, **options) }

      # The first response is another one.
      def first(one, others) = ->(call, head) { ((call == 1) ? one : others).call(call, head) }

      def cut = ->(_, _) { "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\nConnection: close\r\n\r\npart" }
    end

    FRESH = "Cache-Control: max-age=60"
    own = {own: true}.freeze

    # The names are those of the table in docs/cache.md, where it has the same case.
    CASES = [
      {name: "it may be shared", response: Words.always(FRESH)},
      {name: "the first client leaves", response: Words.always(FRESH), leave: 1},
      {name: "all clients leave", response: Words.always(FRESH), leave: CLIENTS},
      {name: "HEAD", verb: "HEAD", response: Words.always(FRESH)},
      {name: "ranges, each another one", request: ->(n) { ["Range: bytes=#{n}-#{n + 1}"] }, response: Words.always(FRESH, text: "0123456789")},
      {name: "the origin server is silent once", response: Words.first(->(_, _) { :silence }, Words.always(FRESH))},
      {name: "the origin server closes once", response: Words.first(->(_, _) {}, Words.always(FRESH))},
      {name: "its status is 503 once", response: Words.first(Words.always(status: "503 Service Unavailable"), Words.always(FRESH))},
      {name: "its status is 503 again", response: Words.always(status: "503 Service Unavailable")},
      {name: "an error, and `stale-if-error`", warm: Words.always("Cache-Control: max-age=1, stale-if-error=60"), response: Words.always(status: "503 Service Unavailable")},
      {name: "`stale-while-revalidate`", warm: Words.always("Cache-Control: max-age=1, stale-while-revalidate=60"), response: Words.always(FRESH)},
      {name: "`Set-Cookie`", response: Words.always(FRESH, "Set-Cookie: id=1"), **own},
      {name: "`private`", response: Words.always("Cache-Control: private, max-age=60"), **own},
      {name: "`no-store`", response: Words.always("Cache-Control: no-store"), **own},
      {name: "no lifetime", response: Words.always, **own},
      {name: "`Vary: *`", response: Words.always(FRESH, "Vary: *"), **own},
      {name: "`Vary: Accept-Language`", request: ->(n) { ["Accept-Language: #{LANGUAGES[n % 3]}"] },
       response: ->(_, head) { Words.ok(0, FRESH, "Vary: Accept-Language", text: head[/^accept-language: (\S+)/i, 1].to_s) }},
      {name: "requests with `Authorization`", request: ->(n) { ["Authorization: Basic #{n}"] }, response: Words.always(FRESH), **own},
      {name: "requests with `Cookie`", request: ->(n) { ["Cookie: session=#{n}"] }, response: Words.always(FRESH), **own},
      {name: "a body that is cut off", response: Words.cut}
    ].map { |fields| Case.new(**fields) }.freeze
  end
end
