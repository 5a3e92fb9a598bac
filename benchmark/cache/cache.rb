# frozen_string_literal: true

# bin/bench cache: hits of NeverBlock::Cache beside rack-cache, on the same server, and thousands of clients that ask for a
# URL that is not stored.
#
#   Bench::Cache.new(options).run      # => Bench::Cache::Report
require "fileutils"
require_relative "../servers/servers"
require_relative "app"
require_relative "row"
require_relative "launch"
require_relative "measurements/hits"
require_relative "measurements/clients"
require_relative "report"

module Bench
  class Cache
    include Benchmark

    ROWS = Row::ALL
    CONTESTANTS = [
      Contestant.new("the app alone", "alone", {}, "#34495e"),
      Contestant.new("memory", "memory", {}, "#c0392b"),
      Contestant.new("file", "file", {}, "#e67e22"),
      Contestant.new("rack-cache heap", "rack_heap", {}, "#2471a3"),
      Contestant.new("rack-cache file", "rack_file", {}, "#5dade2")
    ].freeze
    TURNS = 8
    QUICK_TURNS = 2
    TURN = 0.25 # of a measurement's time
    SECONDS = 2.0
    QUICK_SECONDS = 0.5
    FILES = 1_000 # descriptors beside those of the clients

    # @param contestant [Contestant]
    # @return [String, nil] why it cannot be measured
    def self.without_rack_cache(contestant)
      return unless contestant.library.start_with?("rack")
      "rack-cache is not installed: .neverblock/log/bench-bundle.log says why" if LoadPath.peers(:cache).empty?
    end

    private

    def missing = Servers::Core.missing || Servers::Wrk.missing

    def contestants(row) = CONTESTANTS.select { |contestant| row.kinds.include?(contestant.library) }

    def measure(place)
      hits, crowds = fields.partition { |row, _| row.measure == :hits }
      progress = Progress.new(fields.size * @options.rounds)
      results = hits.group_by(&:first).flat_map { |row, same| take_turns(row, same.map(&:last), progress) }
      cells = crowds.map { |row, contestant| cell(row, contestant) { sample(place, row, contestant) } }
      results.concat(Rounds.new(cells, rounds: @options.rounds, progress:).call).tap { progress.finish }
    end

    # All servers of a row at once: what is compared is smaller than what the machine's pace changes by meanwhile.
    def take_turns(row, contestants, progress)
      hits = Hits.new(row, seconds: @seconds * TURN)
      results = contestants.map { |contestant| Result.new(cell(row, contestant)) }
      @options.rounds.times do |round|
        progress.step("round #{round + 1}/#{@options.rounds}: #{row}", of: results.size) do
          Servers::Turns.new(results.rotate(round), turns: @options.quick? ? QUICK_TURNS : TURNS, ready: hits.method(:prepare)) { |result| Launch.new(result.cell.contestant, row) }
            .call { |_, server| hits.call(server) }
        end
      end
      results
    end

    def sample(_place, row, contestant)
      reason = Cache.without_rack_cache(contestant) || too_few_files(row)
      raise Failure, reason if reason
      figures = (row.measure == :herd) ? herd(row, contestant) : Servers::Running.open(Launch.new(contestant, row)) { |server| Clients.new(row, contestant).call(server) }
      return figures if figures["right"] == row.clients
      raise Failure, "#{figures["right"]} of #{row.clients} answers were right#{"; first trouble: #{figures["trouble"]}" if figures["trouble"]}"
    end

    def herd(row, contestant)
      folder = File.join(Servers::Launch::STATE, "cache", "#{contestant.library}-#{row.id}")
      FileUtils.rm_rf(folder)
      FileUtils.mkdir_p(folder)
      ChildProcess.new("cache/herd.rb", contestant, row.path, wrapper: Servers::Core::SERVER.tie, groups: %i[default rack cache], clients: row.clients, folder:).measure
    end

    def too_few_files(row)
      limit = Process.getrlimit(:NOFILE).first
      wanted = row.clients + FILES
      "left out, since a process may have #{limit} open files, and #{wanted} are needed (ulimit -n)" if row.measure == :clients && limit < wanted
    end

    def notes(_place)
      ["\"memory\" and \"file\" are NeverBlock::Cache with these stores; \"the app alone\" is the same server without a cache: the page is ready, and the app compares the ETag.",
        "Requests have the fields of a browser's, without cookies. That each body is right, and that the app was not asked during a turn, is checked.",
        "A hit's own share is what the server takes beyond that of the app alone.",
        "The app takes a second for the URL that is not stored. Times of clients begin when its response began. The longest hold is processor time of the loop's " \
          "thread between two turns of a fiber that is due each millisecond; the bars take the worst of all rounds. The process has had as many clients before, of another URL: Ruby allocates the stacks of fibers in blocks of up to 1,024, and each allocation is one hold, the more so the first time. Memory for each is the most that was resident, fibers and connections included.",
        "rack-cache #{LoadPath.versions["rack-cache"] || "is not installed"}, wrk #{Servers::Wrk.version}."]
    end
  end
end
