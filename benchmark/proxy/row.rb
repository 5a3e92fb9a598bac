# frozen_string_literal: true

# The rows of bin/bench proxy.
#
#   Bench::Proxy::Row.named("hit").path      # => "/page"
module Bench
  class Proxy
    # id: its name on the command line; measure: :saturated, with wrk; :idle; :stampede, clients that ask at once; path: of the
    # origin; connections: of clients; fields: of the request; answer: the right body; cached: whether the proxy is to keep it;
    # limit: the bar, times nginx's processor time; calls: requests over which system calls are counted; kinds: the libraries
    # of its contestants.
    Row = Data.define(:id, :title, :measure, :path, :connections, :fields, :answer, :cached, :limit, :calls, :kinds, :quick) do
      def initialize(id:, title:, measure: :saturated, path: "/hello", connections: 32, fields: [], answer: App::HELLO, cached: false,
        limit: nil, calls: 2_000, kinds: Proxy::KINDS, quick: false)
        super
      end

      # @param id [String]
      # @return [Row]
      # @raise [KeyError]
      def self.named(id) = Row::ALL.find { |row| row.id == id } || raise(KeyError, "there is no row #{id}")

      # @return [Boolean] whether --quick has it
      def quick? = quick

      # For wrk.
      # @return [String]
      def verb = "GET"

      # @return [Integer] bytes of the request's body
      def sent = 0

      # @return [Boolean] for Servers::Launch
      def waits = false

      # @param path [String]
      # @return [String] the request's bytes
      def raw(path = self.path) = "GET #{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n#{fields.map { |field| "#{field}\r\n" }.join}\r\n"

      # @param body [String]
      # @return [Boolean] whether it is the right answer
      def right?(body) = body == answer

      def to_s = title
    end

    PAGE = ("x" * 999 << "\n").freeze
    KINDS = %w[neverblock nginx haproxy varnish].freeze

    Row::ALL = [
      Row.new(id: "pass", title: "pass-through of 12 bytes", limit: 3.0, quick: true),
      Row.new(id: "pass_9", title: "the same, with the 9 header fields of a browser", fields: Servers::Row.named("env_9").fields, limit: 3.0),
      Row.new(id: "hit", title: "a hit of the cache, 1 kB", path: "/page", answer: PAGE, cached: true, limit: 2.0, quick: true),
      Row.new(id: "idle", title: "10,000 idle connections", measure: :idle, connections: 10_000),
      Row.new(id: "stampede_1000", title: "1,000 clients of one URL that is not stored", measure: :stampede, path: "/report", connections: 1_000, cached: true, quick: true),
      Row.new(id: "stampede_10000", title: "10,000 clients", measure: :stampede, path: "/report", connections: 10_000, cached: true, kinds: %w[neverblock nginx varnish])
    ].freeze
  end
end
