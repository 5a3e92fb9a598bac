# frozen_string_literal: true

# bin/bench servers: NeverBlock's server on every engine beside the other Ruby servers,
# with nginx answering by itself as the floor. One worker process on one core, the client
# on another, a fresh process for every measurement.
#
#   Bench::Servers.new(options).run      # => Bench::Servers::Report
require_relative "../bench/cell"
require_relative "../bench/contestant"
require_relative "../bench/failure"
require_relative "../bench/machine"
require_relative "../bench/progress"
require_relative "../bench/rounds"
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
    LIBRARIES = %w[neverblock falcon puma iodine agoo itsi nginx].freeze
    MEASUREMENTS = {saturated: Saturated, mixed: Mixed, beside_slow: BesideSlow, beside_busy: BesideBusy, idle: Idle}.freeze
    TURNS = 8
    QUICK_TURNS = 2
    TURN = 0.25 # of a measurement's time: many short ones, so that few meet another pace than those beside them
    SECONDS = 2.0
    QUICK_SECONDS = 0.5

    # @param seconds [Numeric] of a measurement
    # @return [Numeric] seconds before it, in which YJIT and the allocator come to rest
    def self.warm_up(seconds) = seconds.clamp(0.3, 1.0)

    # @param options [Options]
    def initialize(options)
      @options = options
      @seconds = options.seconds || (options.quick? ? QUICK_SECONDS : SECONDS)
      @turns = options.quick? ? QUICK_TURNS : TURNS
    end

    # @return [Report]
    # @raise [Failure] where nothing can be measured here
    def run
      missing = Core.missing || ("wrk is not installed: apt-get install -y wrk" unless Wrk.version)
      raise Failure, "bin/bench servers cannot run here: #{missing}." if missing
      Machine.raise_open_files
      raise Failure, "No row with a contestant is left. Contestants: #{all.join(", ")}." unless rows.any? { |row| contestants(row).any? }
      Report.new(rows:, results: on_the_clients_core { measure }, rounds: @options.rounds, seconds: @seconds, notes:)
    end

    private

    def rows = @rows ||= @options.choose(Row::ALL)

    def all = Contestant.of(*LIBRARIES)

    def contestants(row)
      all.select { |contestant| @options.wants_contestant?(contestant.name) && (row.floor || contestant.library != "nginx") }
    end

    def measure
      progress = Progress.new(rows.sum { |row| contestants(row).size } * @options.rounds)
      together, apart = rows.partition(&:turns)
      results = Rounds.new(apart.flat_map { |row| cells(row) }, rounds: @options.rounds, progress:).call
      together.each { |row| results.concat(take_turns(row, progress)) }
      results.tap { progress.finish }
    end

    def cells(row)
      contestants(row).map do |contestant|
        measurement = measurement(row, @seconds)
        Cell.new(row.title, contestant, id: row.id) { Running.open(Launch.new(contestant, row)) { |server| measurement.call(server) } }
      end
    end

    def take_turns(row, progress)
      measurements = cells(row).to_h { |cell| [Result.new(cell), measurement(row, @seconds * TURN)] }
      @options.rounds.times do |round|
        progress.step("round #{round + 1}/#{@options.rounds}: #{row}", of: measurements.size) do
          Turns.new(measurements.keys.rotate(round), turns: @turns) { |result| Launch.new(result.cell.contestant, row) }
            .call { |result, server| measurements[result].call(server) }
        end
      end
      measurements.keys
    end

    def measurement(row, seconds) = MEASUREMENTS.fetch(row.measure).new(row, seconds:)

    # The idle row's client is this process.
    def on_the_clients_core
      Core::CLIENT.hold(Process.pid)
      yield
    ensure
      Core.release(Process.pid)
    end

    def notes
      ["wrk #{Wrk.version}, nginx #{nginx_version || "not installed"}.",
        ("System calls: not counted, since strace is not here or may not trace." unless SystemCalls.available?)].compact
    end

    def nginx_version
      path = Launch::NGINX.find { |candidate| File.executable?(candidate) }
      `#{path} -v 2>&1`[%r{nginx/(\S+)}, 1] if path
    end
  end
end
