# frozen_string_literal: true

# The rows of bin/bench cache.
#
#   Bench::Cache::Row.named("hit_1kB").path      # => "/page_1kB"
module Bench
  class Cache
    # id: its name on the command line; measure: :hits, over HTTP; :herd, fibers that call the middleware; :clients, sockets;
    # server: of Servers::Launch; fields: of the request; answer: the right body, nil for a 304; clients: at once;
    # kinds: the libraries of its contestants.
    Row = Data.define(:id, :title, :measure, :server, :path, :fields, :answer, :clients, :kinds, :quick) do
      def initialize(id:, title:, measure: :hits, server: "neverblock", path: "/report", fields: [], answer: Measured::CachedApp::REPORT, clients: 32,
        kinds: Cache::KINDS, quick: false)
        super
      end

      # @param id [String]
      # @return [Row]
      # @raise [KeyError]
      def self.named(id) = Row::ALL.find { |row| row.id == id } || raise(KeyError, "there is no row #{id}")

      # @return [Boolean] whether --quick has it
      def quick? = quick

      # For wrk.
      # @return [Integer]
      def connections = clients

      # @return [String]
      def verb = "GET"

      # @return [Integer] bytes of the request's body
      def sent = 0

      # For Servers::Launch.
      # @return [Boolean]
      def waits = false

      def to_s = title
    end

    KINDS = %w[alone memory file rack_heap rack_file].freeze
    # As a browser asks for a page, without cookies: a cache leaves a request with cookies to the app.
    FIELDS = [
      "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
      "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
      "Accept-Language: en-US,en;q=0.5",
      "Accept-Encoding: gzip, deflate, br, zstd",
      "Connection: keep-alive"
    ].freeze

    pages = {
      "hit_1kB" => ["a hit of 1 kB", {path: "/page_1kB", fields: FIELDS, answer: Measured::CachedApp::PAGES["/page_1kB"], quick: true}],
      "hit_64kB" => ["a hit of 64 kB", {path: "/page_64kB", fields: FIELDS, answer: Measured::CachedApp::PAGES["/page_64kB"]}],
      "not_modified" => ["304 for If-None-Match", {path: "/page_1kB", fields: [*FIELDS, "If-None-Match: #{Measured::CachedApp::TAG}"], answer: nil, quick: true}]
    }
    hits = {"neverblock" => "NeverBlock's server", "puma" => "Puma"}.flat_map do |server, name|
      pages.map { |id, (title, options)| Row.new(id: (server == "puma") ? "puma_#{id}" : id, title: "#{title}, on #{name}", server:, **options) }
    end
    Row::ALL = [
      *hits,
      Row.new(id: "herd_1000", title: "1,000 fibers ask the middleware for a URL that is not stored", measure: :herd, clients: 1_000, kinds: %w[memory file rack_heap], quick: true),
      Row.new(id: "herd_10000", title: "10,000 fibers", measure: :herd, clients: 10_000, kinds: %w[memory file]),
      Row.new(id: "clients_1000", title: "1,000 clients by sockets", measure: :clients, clients: 1_000, kinds: %w[memory file rack_heap], quick: true),
      Row.new(id: "clients_10000", title: "10,000 clients by sockets", measure: :clients, clients: 10_000, kinds: %w[memory file])
    ].freeze
  end
end
