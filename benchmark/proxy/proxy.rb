# frozen_string_literal: true

# bin/bench proxy: `neverblock proxy` beside nginx, HAProxy and Varnish: requests that are passed on, hits of the cache, idle
# connections, and thousands of clients that ask for a URL that is not stored.
#
#   Bench::Proxy.new(options).run      # => Bench::Proxy::Report
require "fileutils"
require_relative "../servers/servers"
require_relative "../cache/cache"
require_relative "row"
require_relative "launch"
require_relative "origin"
require_relative "measurements/turn"
require_relative "measurements/stampede"
require_relative "report"

module Bench
  class Proxy
    include Benchmark

    ROWS = Row::ALL
    CONTESTANTS = [
      *Contestant.of("neverblock").reject { |contestant| contestant.name == "neverblock poll" },
      Contestant.named("nginx"),
      Contestant.new("haproxy", "haproxy", {}, "#2471a3"),
      Contestant.new("varnish", "varnish", {}, "#16a085")
    ].freeze
    TURNS = 8
    QUICK_TURNS = 2
    TURN = 0.25 # of a measurement's time
    SECONDS = 2.0
    QUICK_SECONDS = 1.0
    WARM_UP = 1 # seconds before the first turn: connections to the origin are opened, and YJIT compiles
    FILES = 1_000 # descriptors beside those of the clients

    private

    def missing = Servers::Core.missing || Servers::Wrk.missing || Origin.new.missing

    def contestants(row) = CONTESTANTS.select { |contestant| row.kinds.include?(contestant.library) }

    # The idle row's client is this process.
    def within(&) = Servers::Core::CLIENT.hold { Servers::Running.open(Origin.new, &) }

    def measure(origin)
      progress = Progress.new(fields.size * @options.rounds)
      together, apart = fields.partition { |row, _| row.measure == :saturated }
      results = together.group_by(&:first).flat_map { |row, same| take_turns(row, same.map(&:last), origin, progress) }
      cells = apart.map { |row, contestant| cell(row, contestant) { sample(origin, row, contestant) } }
      results.concat(Rounds.new(cells, rounds: @options.rounds, progress:).call).tap { progress.finish }
    end

    def take_turns(row, contestants, origin, progress)
      measurements = contestants.to_h { |contestant| [Result.new(cell(row, contestant)), Turn.new(row, seconds: @seconds * TURN, origin:)] }
      @options.rounds.times do |round|
        progress.step("round #{round + 1}/#{@options.rounds}: #{row}", of: measurements.size) do
          ready = ->(server) { Servers::Wrk.warm_up(server.port, row, WARM_UP) }
          Servers::Turns.new(measurements.keys.rotate(round), turns: @options.quick? ? QUICK_TURNS : TURNS, ready:) { |result| Launch.new(result.cell.contestant, row, origin.port) }
            .call { |result, server| measurements[result].call(server) }
        end
      end
      measurements.keys
    end

    def sample(origin, row, contestant)
      reason = too_few_files(row)
      raise Failure, reason if reason
      return Servers::Running.open(Launch.new(contestant, row, origin.port)) { |server| Servers::Idle.new(row, seconds: @seconds).call(server) } if row.measure == :idle
      figures = Servers::Running.open(SlowOrigin.new) do |slow|
        Servers::Running.open(Launch.new(contestant, row, slow.port)) { |server| Stampede.new(row, contestant, slow).call(server) }
      end
      return figures if figures["right"] == row.connections
      raise Failure, "#{figures["right"]} of #{row.connections} responses were right#{"; first trouble: #{figures["trouble"]}" if figures["trouble"]}"
    end

    def too_few_files(row)
      limit = Process.getrlimit(:NOFILE).first
      wanted = row.connections + FILES
      "left out, since a process may have #{limit} open files, and #{wanted} are needed (ulimit -n)" if limit < wanted
    end

    def notes(_origin)
      ["All keep their connections to the origin and say Via or X-Forwarded-For; their configurations are in benchmark/proxy/start.",
        "That each response is right is checked beside the measurement. \"Beside nginx\" is the median of the ratios of the same turn.",
        "The page of a stampede takes a second. A client's time begins with the first byte that any of them gets; the clients are one process of Ruby, which shares its core " \
          "with the origin, so of the fastest proxies this is the clients' own time. The proxy has had as many clients before, of another URL. Memory is the most that was resident, " \
          "connections included.",
        "HAProxy does not let requests wait for the response to another one.",
        "#{versions.join(", ")}, wrk #{Servers::Wrk.version}.",
        ("System calls: not counted, since strace is not here or may not trace." unless SystemCalls.available?)].compact
    end

    def versions
      {"nginx" => "-v", "haproxy" => "-v", "varnishd" => "-V"}.map do |name, option|
        path = Launch.program(name)
        "#{name} #{path ? `#{path} #{option} 2>&1`[/\d+\.\d+\.\d+/] : "is not installed"}"
      end
    end
  end
end
