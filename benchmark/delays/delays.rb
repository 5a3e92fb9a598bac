# frozen_string_literal: true

# bin/bench delays: a thousand requests at once by stock Net::HTTP, to a back end
# that waits 0 to 500 ms before each answer; the founding table A2 of 2008.
#
#   Bench::Delays.new(options).run      # => Bench::DelaysReport
require "etc"
require_relative "../bench/cell"
require_relative "../bench/child_process"
require_relative "../bench/contestant"
require_relative "../bench/machine"
require_relative "../bench/rounds"
require_relative "back_end"
require_relative "delays_report"
require_relative "limit"

module Bench
  class Delays
    SCRIPT = "delays/child.rb"
    DELAYS = [0, 10, 50, 100, 500].freeze # milliseconds
    CLIENTS = [1, 2].freeze # processes, which share the requests
    LIBRARIES = %w[neverblock async threads blocking].freeze
    REQUESTS = 1000
    QUICK_REQUESTS = 200
    POOLS = [20, 100, 300, 1000].freeze # threads in all
    BLOCKING_SECONDS = 1.0 # so much waiting, the rest is extrapolated

    # @param options [Options]
    def initialize(options)
      @options = options
      @requests = options.quick? ? QUICK_REQUESTS : REQUESTS
    end

    # @return [DelaysReport]
    def run
      Machine.raise_open_files
      BackEnd.open do |back_end|
        cells = rows.flat_map { |clients, delay| row(back_end, clients, delay) }
        results = Rounds.measure(cells, rounds: @options.rounds)
        DelaysReport.new(results:, requests: @requests, rounds: @options.rounds)
      end
    end

    private

    def rows = CLIENTS.product(DELAYS).select { |clients, delay| @options.wants?(title(clients, delay)) }

    def title(clients, delay) = "#{delay} ms, #{clients} #{(clients == 1) ? "client" : "clients"}"

    def row(back_end, clients, delay)
      chosen = Contestant.of(*LIBRARIES).select { |contestant| @options.wants_contestant?(contestant.name) }
      chosen.flat_map do |contestant|
        pools = (contestant.library == "threads") ? POOLS : [nil]
        pools.map { |pool| cell(back_end, contestant, clients, delay, pool) }
      end
    end

    def cell(back_end, contestant, clients, delay, pool)
      requests = (contestant.library == "blocking") ? blocking_requests(delay) : @requests
      Cell.new(title(clients, delay), contestant, clients:, delay:, requests:, pool:) do
        measure(back_end, contestant, clients, delay:, requests: requests / clients, pool: pool && pool / clients)
      end
    end

    # As many as wait for about BLOCKING_SECONDS; two at least, one for each client.
    def blocking_requests(delay)
      return @requests if delay.zero?
      [(BLOCKING_SECONDS * 1000 / delay).round, @requests].min.clamp(2..)
    end

    def measure(back_end, contestant, clients, **options)
      children = Array.new(clients) { |client| ChildProcess.new(SCRIPT, contestant, "requests", port: back_end.port, client:, **options) }
      children.each(&:start).each(&:await_ready)
      back_end.watch(children.map(&:pid))
      children.each(&:go)
      figures = children.map(&:result)
      combine(figures, back_end.stats, options.fetch(:delay) / 1000.0)
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
