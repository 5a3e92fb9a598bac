# frozen_string_literal: true

# bin/bench servers: NeverBlock's server on every engine beside the other Ruby servers,
# with nginx answering by itself as the floor. One worker process on one core, the client
# on another, a fresh process for every measurement.
#
#   Bench::Servers.new(options).run      # => Bench::Servers::Report
require_relative "../bench/benchmark"
require_relative "../bench/progress"
require_relative "../bench/system_calls"
require_relative "app"
require_relative "row"
require_relative "core"
require_relative "launch"
require_relative "running"
require_relative "wrk"
require_relative "load"
require_relative "traced_calls"
require_relative "measurements/saturated"
require_relative "measurements/mixed"
require_relative "measurements/beside_slow"
require_relative "measurements/beside_busy"
require_relative "measurements/idle"
require_relative "turns"
require_relative "report"

module Bench
  class Servers
    include Benchmark

    ROWS = Row::ALL
    CONTESTANTS = Contestant.of("neverblock", "falcon", "puma", "iodine", "agoo", "itsi", "nginx").freeze
    MEASUREMENTS = {saturated: Saturated, mixed: Mixed, beside_slow: BesideSlow, beside_busy: BesideBusy, idle: Idle}.freeze
    TURNS = 8
    QUICK_TURNS = 2
    TURN = 0.25 # of a measurement's time: many short ones, so that few meet another pace than those beside them
    SECONDS = 2.0
    QUICK_SECONDS = 0.5

    # @param seconds [Numeric] of a measurement
    # @return [Numeric] seconds before it, in which YJIT and the allocator come to rest
    def self.warm_up(seconds) = seconds.clamp(0.3, 1.0)

    private

    def missing = Core.missing || Wrk.missing

    def contestants(row)
      all = row.floor ? CONTESTANTS : CONTESTANTS.reject { |contestant| contestant.library == "nginx" }
      [*all, *(Contestant.before(@options.before) if @options.before)]
    end

    # The idle row's client is this process.
    def within(&) = Core::CLIENT.hold(&)

    def measure(_place)
      progress = Progress.new(fields.size * @options.rounds)
      together, apart = fields.partition { |row, _| row.turns }
      cells = apart.map do |row, contestant|
        measurement = measurement(row, @seconds)
        cell(row, contestant) { Running.open(Launch.new(contestant, row)) { |server| measurement.call(server) } }
      end
      results = Rounds.new(cells, rounds: @options.rounds, progress:).call
      together.group_by(&:first).each { |row, same| results.concat(take_turns(row, same.map(&:last), progress)) }
      results.tap { progress.finish }
    end

    def take_turns(row, contestants, progress)
      measurements = contestants.to_h { |contestant| [Result.new(cell(row, contestant)), measurement(row, @seconds * TURN)] }
      @options.rounds.times do |round|
        progress.step("round #{round + 1}/#{@options.rounds}: #{row}", of: measurements.size) do
          Turns.new(measurements.keys.rotate(round), turns: @options.quick? ? QUICK_TURNS : TURNS) { |result| Launch.new(result.cell.contestant, row) }
            .call { |result, server| measurements[result].call(server) }
        end
      end
      measurements.keys
    end

    def measurement(row, seconds) = MEASUREMENTS.fetch(row.measure).new(row, seconds:)

    def notes(_place)
      ["\"Client-bound\": the client used over #{(Bars::CLIENT_BOUND * 100).round} % of its core; processor time per request decides there.",
        "\"Not streamed\": the whole body was collected before its beginning was sent.",
        "\"Disturbed\": other processes took over #{(Report::DISTURBED * 100).round} % of the server's core.",
        "In rows with waiting, Puma, Iodine and Agoo have #{Launch::WAITING_THREADS} threads and Itsi its fibers; else Puma has #{Launch::THREADS} threads, the others one. " \
          "NeverBlock has one configuration for all.",
        "Memory is the server's proportional set size, when the row was done.",
        "wrk #{Wrk.version}, nginx #{nginx_version || "not installed"}.",
        ("System calls: not counted, since strace is not here or may not trace." unless SystemCalls.available?)].compact
    end

    def nginx_version
      path = Launch::NGINX.find { |candidate| File.executable?(candidate) }
      `#{path} -v 2>&1`[%r{nginx/(\S+)}, 1] if path
    end
  end
end
