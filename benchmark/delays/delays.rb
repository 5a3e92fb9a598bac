# frozen_string_literal: true

# bin/bench delays: a thousand requests at once by stock Net::HTTP, to a back end
# that waits 0 to 500 ms before each answer; the founding table A2 of 2008.
#
#   Bench::Delays.new(options).run      # => Bench::Delays::Report
require "etc"
require_relative "../bench/benchmark"
require_relative "back_end"
require_relative "limit"
require_relative "report"

module Bench
  class Delays
    include Benchmark

    DELAYS = [0, 10, 50, 100, 500].freeze # milliseconds
    CLIENTS = [1, 2].freeze # processes, which share the requests
    CONTESTANTS = Contestant.of("neverblock", "async", "threads", "blocking").freeze
    REQUESTS = 1000
    QUICK_REQUESTS = 200
    POOLS = [20, 100, 300, 1000].freeze # threads in all
    BLOCKING_SECONDS = 1.0 # so much waiting, the rest is extrapolated

    Row = Data.define(:clients, :delay) do
      def id = "#{delay} ms, #{clients} #{(clients == 1) ? "client" : "clients"}"

      def title = id
    end

    ROWS = CLIENTS.product(DELAYS).map { |clients, delay| Row.new(clients, delay) }.freeze

    private

    def within(&) = BackEnd.open(&)

    # Each pool of threads is measured; the report shows the best.
    def cells(back_end)
      fields.flat_map do |row, contestant|
        pools = (contestant.library == "threads") ? POOLS : [nil]
        requests = (contestant.library == "blocking") ? blocking_requests(row.delay) : all_requests
        pools.map do |pool|
          options = {delay: row.delay, requests: requests / row.clients, pool: pool && pool / row.clients}
          cell(row, contestant, **row.to_h, requests:, pool:) { sample(back_end, row, contestant, **options) }
        end
      end
    end

    def all_requests = @options.quick? ? QUICK_REQUESTS : REQUESTS

    # As many as wait for about BLOCKING_SECONDS; two at least, one for each client.
    def blocking_requests(delay)
      return all_requests if delay.zero?
      [(BLOCKING_SECONDS * 1000 / delay).round, all_requests].min.clamp(2..)
    end

    def sample(back_end, row, contestant, **options)
      children = Array.new(row.clients) { |client| ChildProcess.new("delays/child.rb", contestant, "requests", port: back_end.port, client:, **options) }
      children.each(&:start).each(&:await_ready)
      back_end.watch(children.map(&:pid))
      children.each(&:go)
      figures = children.map(&:result)
      combine(figures, back_end.stats, row.delay / 1000.0)
    ensure
      children&.each(&:stop)
    end

    def combine(figures, stats, delay)
      wall = figures.map { |figure| figure["ended"] }.max - figures.map { |figure| figure["started"] }.min
      sums = %w[operations cpu objects].to_h { |name| [name, figures.sum { |figure| figure[name] }] }
      unless stats["requests"] == sums["operations"]
        raise Failure, "the back end saw #{stats["requests"]} requests where #{sums["operations"]} were made"
      end
      limits = figures.each_with_index.map do |figure, client|
        Limit.seconds(cpu: figure["cpu"], cpu_until_sent: stats["client_cpu"][client] / 1e9 - figure["cpu_before"], delay:)
      end
      shared = Limit.shared(limits.max, cpu: sums["cpu"] + stats["cpu"] / 1e9, processors: Etc.nprocessors)
      sums.merge("wall" => wall, "limit" => limits.max, "rate" => sums["operations"] / wall,
        "achieved" => limits.max / wall, "achieved_sharing" => shared / wall,
        "back_end_busy" => stats["cpu"] / 1e9 / wall, "most_open" => stats["most_open"])
    end
  end
end
