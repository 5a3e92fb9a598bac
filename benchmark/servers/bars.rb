# frozen_string_literal: true

# The bars of NeverBlock's server in each row, and the figures.
#
#   bars = Bench::Servers::Bars.new(results)
#   bars.of(row).map(&:title)      # => ["hello_32: best Ruby server, neverblock epoll", ...]
require_relative "../bench/bar"
require_relative "turns"

module Bench
  class Servers
    class Bars
      TIE = 0.9 # of the best peer's rate, or of its processor time
      CLIENT_BOUND = 0.95 # of the client's core
      OBJECTS = {"hello_1" => 12, "hello_32" => 12, "hello_256" => 12, "hello_4096" => 12, "env_9" => 20}.freeze
      CALLS = {"neverblock epoll" => 2.2, "neverblock uring" => 1.0}.freeze # hello_256
      NGINX = {"hello_32" => 1.4, "hello_256" => 1.4, "hello_4096" => 1.4, "close" => 1.4}.freeze
      # A peer of each row, and the required ratio to its rate.
      PEERS = {"big" => ["falcon", 1.0], "upload" => ["itsi", 1.0], "chunks" => ["iodine", 1.0], "env_1" => ["iodine", 1.0],
               "env_9" => ["iodine", 1.0], "env_14" => ["iodine", 1.0], "sleep_1024" => ["falcon", 2.0]}.freeze
      HELLOS = %w[hello_32 hello_256 hello_4096].freeze
      SLEEP_P99 = 30.0 # ms
      IDLE = 2_048 # bytes
      KEPT = 0.9 # of nginx's rate at 4,096 connections over that at 256
      MIXED = 2.0 # times the p99 alone, or that of kept connections

      # @param results [Array<Result>]
      def initialize(results)
        @results = results
      end

      # @param result [Result]
      # @return [Boolean] whether the client, not the server, was the limit
      def self.client_bound?(result) = (result.median("client_busy") || 0) > CLIENT_BOUND

      # @param row [Row]
      # @return [Array<Bar>] each for every engine in turn
      def of(row)
        @row = row
        [best, nginx, iodine, peer, objects, calls, slope, sleeping, mixed, idle].compact
          .flat_map { |bar| ours.map { |result| bar.call(result) } }
      end

      private

      def ours = of_row.select { |result| result.cell.contestant.library == "neverblock" }

      def of_row(id = @row.id) = @results.select { |result| result.cell.id == id }

      def find(name, id = @row.id) = of_row(id).find { |result| result.cell.contestant.name == name && result.any? }

      def peers = of_row.select { |result| !%w[neverblock nginx].include?(result.cell.contestant.library) && result.any? }

      def title(what, result) = "#{@row.id}: #{what}, #{result.cell.contestant}"

      def at_least(what, limit, unit: " ×")
        lambda do |result|
          figure, beside = result.any? ? yield(result) : nil
          Bar.at_least(title(what, result), figure, limit, unit:, beside: result.failure || beside)
        end
      end

      def at_most(what, limit, unit: " ×")
        lambda do |result|
          figure, beside = result.any? ? yield(result) : nil
          Bar.at_most(title(what, result), figure, limit, unit:, beside: result.failure || beside)
        end
      end

      # In the rows that saturate, a tie in the rate or in processor time is one; where the client is the limit, the
      # rate says nothing. A paced row is decided by how late its answers are.
      def best
        return if peers.empty?
        case @row.measure
        when :saturated then at_least("as good as the best Ruby server", TIE) { |result| against_best(result) }
        when :mixed
          peer = peers.min_by { |result| result.median("p99") }
          at_least("p99 as good as the best Ruby server's", TIE) { |result| [over(peer, result) { |sample| sample["p99"] }, "#{peer.cell.contestant}'s"] }
        when :idle
          peer = peers.min_by { |result| result.median("memory_each") }
          at_least("memory as good as the best Ruby server's", TIE) { |result| [memory_ratio(peer, result), "#{peer.cell.contestant}'s"] }
        end
      end

      def memory_ratio(peer, result) = peer.median("memory_each") / [result.median("memory_each"), 1.0].max

      def against_best(result)
        fastest = peers.max_by { |peer| peer.median("rate") }
        rate = over(result, fastest) { |sample| sample["rate"] }
        cheapest = cheapest_peer
        cpu = over(cheapest, result) { |sample| sample["cpu"].fdiv(sample["operations"]) }
        [Bars.client_bound?(result) ? cpu : [rate, cpu].max,
          format("rate %.2f × %s's, processor time %.2f × %s's", rate, fastest.cell.contestant, 1 / cpu, cheapest.cell.contestant)]
      end

      # Only peers near the best rate count: a server that does hardly anything is cheap as well.
      def cheapest_peer
        most = peers.map { |peer| peer.median("rate") }.max
        peers.select { |peer| peer.median("rate") >= TIE * most || Bars.client_bound?(peer) }.min_by { |peer| peer.per_operation("cpu") }
      end

      # Compared turn by turn, if the servers took turns.
      def over(one, other, &figure)
        return Turns.ratio(one, other, &figure) if @row.turns
        Statistics.median(one.samples.map(&figure)) / Statistics.median(other.samples.map(&figure))
      end

      def nginx
        limit = NGINX[@row.id] or return
        nginx = find("nginx") or return
        at_most("processor time beside nginx's", limit) { |result| result.per_operation("cpu") / nginx.per_operation("cpu") }
      end

      def iodine
        peer = (find("iodine") if HELLOS.include?(@row.id)) or return
        at_most("processor time beside Iodine's", 1.0) { |result| result.per_operation("cpu") / peer.per_operation("cpu") }
      end

      def peer
        name, limit = PEERS[@row.id]
        peer = name && find(name) or return
        at_least("rate beside #{name.capitalize}'s", limit) { |result| advantage(result, peer) }
      end

      def advantage(result, peer)
        rate = result.median("rate") / peer.median("rate")
        cpu = peer.per_operation("cpu") / result.per_operation("cpu")
        return [rate, format("by processor time %.2f ×", cpu)] unless Bars.client_bound?(result)
        [cpu, format("by processor time, since the client is the limit; rate %.2f ×", rate)]
      end

      def objects
        limit = OBJECTS[@row.id] or return
        at_most("objects per request", limit, unit: "") { |result| result.per_operation("objects").round(2) }
      end

      def calls
        return unless @row.id == "hello_256"
        lambda do |result|
          limit = CALLS.fetch(result.cell.contestant.name) { CALLS.values.max }
          calls = result.latest("system_calls")
          Bar.at_most(title("system calls per request", result), calls&.values&.sum&.round(2), limit, unit: "", beside: result.failure)
        end
      end

      # By processor time where a client is the limit, since the rate then is the client's.
      def slope
        return unless @row.id == "hello_4096"
        kept = slope_of("nginx") or return
        at_least("rate over that at 256, beside nginx's", KEPT) do |result|
          mine = slope_of(result.cell.contestant.name)
          [mine && mine / kept, mine && format("%.2f, nginx's %.2f", mine, kept)]
        end
      end

      def slope_of(name)
        few, many = %w[hello_256 hello_4096].map { |id| find(name, id) }
        return unless few && many
        return many.median("rate") / few.median("rate") unless [few, many].any? { |result| Bars.client_bound?(result) }
        few.per_operation("cpu") / many.per_operation("cpu")
      end

      def sleeping
        at_most("p99", SLEEP_P99, unit: " ms") { |result| result.median("p99") * 1e3 } if @row.id == "sleep_1024"
      end

      def mixed
        what, alone = {beside_slow: ["p99 beside that alone", "alone_p99"], beside_busy: ["p99 beside that of kept connections", "kept_p99"]}[@row.measure]
        at_most(what, MIXED) { |result| Statistics.median(result.samples.map { |sample| sample["p99"] / sample[alone] }) } if what
      end

      def idle
        return unless @row.measure == :idle
        at_most("memory for each", IDLE, unit: " B") do |result|
          [result.median("memory_each"), "#{result.median("answered_again").round} of #{result.median("operations").round} answered again"]
        end
      end
    end
  end
end
