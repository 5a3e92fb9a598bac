# frozen_string_literal: true

# bin/bench crowded: what a server gets of the processors among other processes that compute: two loops without an end for each
# processor. The kernel divides by threads, and a loop is one; the threads of Puma take turns, each with a share of its own.
#
#   Bench::Crowded.new(options).run      # => Bench::Report
require_relative "../bench/benchmark"
require_relative "../servers/servers"
require_relative "group"
require_relative "launch"
require_relative "row"

module Bench
  class Crowded
    include Benchmark

    SECONDS = 3
    QUICK_SECONDS = 1
    CONNECTIONS = 10
    LOOPS = 2 * Etc.nprocessors
    REQUEST = "GET /page HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

    ROWS = [
      Row.new(id: "process", title: "one process"),
      Row.new(id: "workers_2", title: "2 workers", workers: 2),
      Row.new(id: "workers_4", title: "4 workers", workers: 4),
      Row.new(id: "nice", title: "one process, `nice -n -5`", nice: -5),
      Row.new(id: "group", title: "one process, a control group of its own", own_group: true),
      Row.new(id: "group_workers", title: "2 workers, a control group of their own", workers: 2, own_group: true)
    ].freeze
    CONTESTANTS = [Contestant.named("neverblock epoll"), Contestant.named("puma")].freeze
    TABLES = {
      "Share of the processor time that the server and the loops had" => ->(result) { format("%.0f %%", result.median("share") * 100) },
      "Requests a second" => Figures.number("rate"), "p50" => Figures.time("p50")
    }.freeze

    private

    def missing = Servers::Core.missing

    def sample(_place, row, contestant)
      raise Failure, row.missing if row.missing
      Servers::Running.open(Launch.new(contestant, row)) do |server|
        load = Servers::Load.closed(CONNECTIONS, REQUEST)
        Servers::Load.run(server.port, [load], seconds: @seconds / 3.0)
        among_loops(row, server) { |loops| measure_shares(server, loops) { Servers::Load.run(server.port, [load], seconds: @seconds) } }
      end
    end

    def among_loops(row, server)
      loops = Array.new(LOOPS) { Process.spawn(RbConfig.ruby, "--disable-gems", "-e", "loop {}") }
      return yield(loops) unless row.own_group
      Group.open("loops") do |others|
        Group.open("server") do |group|
          others.enter(*loops)
          group.enter(*server.tree.pids)
          yield loops
        ensure
          server.stop
          end_all(loops)
        end
      end
    ensure
      end_all(loops) if loops
    end

    def end_all(loops)
      loops.each { |pid| Process.kill(:KILL, pid) }
      loops.each { |pid| Process.wait(pid) }
      loops.clear
    end

    def measure_shares(server, loops)
      trees = [server.tree, *loops.map { |pid| Servers::ProcessTree.new(pid) }]
      before = trees.map(&:cpu)
      figures = yield
      ours, *others = trees.zip(before).map { |tree, cpu| tree.cpu - cpu }
      load = figures["loads"].first
      raise Failure, "nothing was answered in #{@seconds} s: take longer, by --seconds" unless load["answers"] > 0
      {"operations" => load["answers"], "rate" => load["answers"] / figures["seconds"], "share" => ours / (ours + others.sum), "cpu" => ours, **load.slice("p50")}
    end

    def notes(_place)
      ["A page computes for a millisecond and waits for a millisecond, four times. #{CONNECTIONS} connections request it without a pause. #{LOOPS} loops compute next to the server.",
        "Puma has #{Servers::Launch::THREADS} threads in each process. With control groups the loops have one too, of the same weight."]
    end
  end
end
