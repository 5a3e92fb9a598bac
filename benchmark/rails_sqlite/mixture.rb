# frozen_string_literal: true

# Twenty clients, each with one kind of request, which it sends as soon as the last was answered.
#
#   Bench::RailsSqlite::Mixture.new(row, seconds: 3).call(server)   # => {"rate" => 640.0, "p99" => 0.07, "write_p99" => 0.08, ...}
module Bench
  class RailsSqlite < Rails
    class Mixture
      READERS = {"/posts" => 8, "/posts.json" => 4, "/text" => 4}.freeze
      WRITERS = {"/comments" => 2, "/count" => 2}.freeze
      WAITING = {"/held" => 4}.freeze

      # @return [Array<String>] all that is asked
      def self.paths = [*READERS, *WRITERS, *WAITING].map(&:first)

      # @param row [Servers::Row]
      # @param seconds [Numeric]
      # @param waiting [Boolean] whether there are other clients with transactions that wait for something else
      def initialize(row, seconds:, waiting: false)
        @seconds = seconds
        posting = row.with(sent: 1)
        @loads = READERS.map { |path, clients| Servers::Load.closed(clients, row.raw(path)) } +
          WRITERS.map { |path, clients| Servers::Load.closed(clients, posting.raw(path)) }
        @waiting = waiting ? WAITING.map { |path, clients| Servers::Load.closed(clients, posting.raw(path)) } : []
      end

      # @param server [Servers::Running]
      # @param seconds [Numeric]
      # @return [void]
      def warm(server, seconds) = Servers::Load.run(server.port, @loads + @waiting, seconds:)

      # @param server [Servers::Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        server.watch(objects: false) do
          figures = Servers::Load.run(server.port, @loads + @waiting, seconds: @seconds)
          combine(figures, figures["loads"].first, figures["loads"][READERS.size], figures["loads"])
        end
      end

      private

      def combine(figures, page, comment, all)
        answers = all.sum { |load| load["answers"] }
        {"operations" => answers, "wall" => figures["seconds"], "rate" => answers / figures["seconds"], **page.slice("p50", "p99"),
         "write_p50" => comment["p50"], "write_p99" => comment["p99"], "errors" => all.sum { |load| load["errors"] }}
      end
    end
  end
end
