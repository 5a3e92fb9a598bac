# frozen_string_literal: true

# bin/bench proxied: nginx in front of the server, reaching it by TCP and by a unix socket;
# a comparison promised in 2008. nginx and the server share one core, the client has another.
#
#   Bench::Proxied.new(options).run      # => Bench::ProxiedReport
require_relative "../bench/cell"
require_relative "../bench/contestant"
require_relative "../bench/failure"
require_relative "../bench/machine"
require_relative "../bench/rounds"
require_relative "../servers/servers"
require_relative "proxied_report"
require_relative "stack"

module Bench
  class Proxied
    SECONDS = 2.0
    QUICK_SECONDS = 0.5
    CONTESTANTS = [
      Contestant.new("tcp", "neverblock", {"NEVERBLOCK_ENGINE" => "epoll"}, "#7f8c8d"),
      Contestant.new("unix", "neverblock", {"NEVERBLOCK_ENGINE" => "epoll"}, "#c0392b")
    ].freeze

    # Titles, what is asked for, and whether nginx keeps its connections to the server.
    ROWS = [
      ["hello", "hello_32", true],
      ["hello, a connection per request to the server", "hello_32", false],
      ["120 KB", "big", true],
      ["upload of 16 KB", "upload", true]
    ].freeze

    # @param options [Options]
    def initialize(options)
      @options = options
      @seconds = options.seconds || (options.quick? ? QUICK_SECONDS : SECONDS)
    end

    # @return [ProxiedReport]
    # @raise [Failure] where nothing can be measured here
    def run
      missing = Servers::Core.missing || Stack.missing || ("wrk is not installed: apt-get install -y wrk" unless Servers::Wrk.version)
      raise Failure, "bin/bench proxied cannot run here: #{missing}." if missing
      cells = ROWS.select { |title, _| @options.wants?(title) }.flat_map { |row| CONTESTANTS.map { |contestant| cell(contestant, *row) } }
      results = Rounds.measure(cells, rounds: @options.rounds)
      ProxiedReport.new(results:, rounds: @options.rounds, seconds: @seconds)
    end

    private

    def cell(contestant, title, row, keep)
      row = Servers::Row.named(row)
      Cell.new(title, contestant) do
        Stack.open(contestant, keep:) do |stack|
          stack.expect(row)
          Servers::Wrk.warm_up(stack.port, row, Servers.warm_up(@seconds))
          stack.watch { Servers::Wrk.run(stack.port, row, @seconds) }
        end
      end
    end
  end
end
