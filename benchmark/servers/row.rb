# frozen_string_literal: true

# The rows of bin/bench servers: what is asked, over how many connections, and by which
# kind of measurement.
#
#   Bench::Servers::Row.named("upload").raw      # => "POST /upload HTTP/1.1\r\nHost: ..."
module Bench
  class Servers
    # id: its name on the command line; measure: :saturated, :mixed, :beside_slow,
    # :beside_busy or :idle; fields: of the request, beside Host; sent: bytes of its body;
    # answer: the body, a part of it (Regexp), or its size in bytes; waits: whether threads help;
    # floor: whether nginx takes part; calls: requests over which system calls are counted; turns: whether all servers run
    # at once and are asked in turns, since what is compared is smaller than what the machine's pace changes by meanwhile.
    Row = Data.define(:id, :title, :measure, :path, :connections, :fields, :sent, :answer, :waits, :floor, :calls, :turns) do
      def initialize(id:, title:, measure: :saturated, path: "/hello", connections: 32, fields: [], sent: 0, answer: App::HELLO,
        waits: false, floor: false, calls: 4_000, turns: false)
        super
      end

      # @param id [String]
      # @return [Row]
      # @raise [KeyError]
      def self.named(id) = Row::ALL.find { |row| row.id == id } || raise(KeyError, "there is no row #{id}")

      # @return [String] the request's method
      def verb = sent.zero? ? "GET" : "POST"

      # @param path [String]
      # @return [String] the request's bytes
      def raw(path = self.path)
        length = "Content-Length: #{sent}\r\n" unless sent.zero?
        "#{verb} #{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n#{fields.map { |field| "#{field}\r\n" }.join}#{length}\r\n#{"x" * sent}"
      end

      # @param body [String]
      # @return [Boolean] whether it is the right answer
      def right?(body) = (Integer === answer) ? body.bytesize == answer : answer === body

      def to_s = title
    end

    # The fields that Firefox sends with a fetch from a page, and with a click on a link: 9 and 14 with Host.
    fetch = [
      "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
      "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
      "Accept-Language: en-US,en;q=0.5",
      "Accept-Encoding: gzip, deflate, br, zstd",
      "Referer: https://shop.example/catalogue/shoes?page=2",
      "Cookie: session=5f0c2b9d8e7a4f6b91c3; theme=dark; seen=1731942000",
      "Connection: keep-alive",
      "Priority: u=0, i"
    ].freeze
    click = [*fetch, "Upgrade-Insecure-Requests: 1", "Sec-Fetch-Dest: document", "Sec-Fetch-Mode: navigate",
      "Sec-Fetch-Site: same-origin", "Sec-Fetch-User: ?1"].freeze

    Row::ALL = [
      Row.new(id: "hello_1", title: "hello, 1 connection", connections: 1, floor: true),
      Row.new(id: "hello_32", title: "hello, 32 connections", floor: true),
      Row.new(id: "hello_256", title: "hello, 256 connections", connections: 256, floor: true),
      Row.new(id: "hello_4096", title: "hello, 4,096 connections", connections: 4_096, floor: true, calls: 12_000),
      Row.new(id: "env_1", title: "1 header field, all of env read", path: "/env", floor: true),
      Row.new(id: "env_9", title: "9 header fields, all of env read", path: "/env", fields: fetch, floor: true),
      Row.new(id: "env_14", title: "14 header fields, all of env read", path: "/env", fields: click, floor: true),
      Row.new(id: "chunks", title: "1.2 KB in 10 chunks", path: "/chunks", answer: App::CHUNK * App::CHUNKS),
      Row.new(id: "big", title: "120 KB", path: "/big", answer: App::BIG, calls: 1_000),
      Row.new(id: "upload", title: "upload of 16 KB", path: "/upload", sent: 16_384, answer: "16384", calls: 1_000),
      Row.new(id: "sleep_32", title: "10 ms of sleep, 32 connections", path: "/sleep", waits: true, calls: 1_000),
      Row.new(id: "sleep_1024", title: "10 ms of sleep, 1,024 connections", path: "/sleep", connections: 1_024, waits: true),
      Row.new(id: "cpu", title: "1 ms of CPU", path: "/cpu", answer: App.new.work.to_s, calls: 200, turns: true),
      Row.new(id: "stream", title: "stream of 10 chunks over 90 ms, 256 connections", path: "/stream", connections: 256,
        answer: App::CHUNK * App::CHUNKS, waits: true, calls: 1_000),
      Row.new(id: "close", title: "a connection per request", fields: ["Connection: close"].freeze, floor: true, calls: 1_000),
      Row.new(id: "mixed", title: "5,000 requests/s, a tenth of them with 10 ms of sleep", measure: :mixed, connections: 64, waits: true, turns: true),
      Row.new(id: "beside_slow", title: "30 % of the peak, beside 500 sleeps of a second", measure: :beside_slow, waits: true),
      Row.new(id: "beside_busy", title: "new connections beside 32 that saturate", measure: :beside_busy, floor: true, turns: true),
      Row.new(id: "idle", title: "10,000 idle connections", measure: :idle, connections: 10_000, floor: true)
    ].freeze
  end
end
