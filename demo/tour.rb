# frozen_string_literal: true

# The demo from its first line to its last: eight scenes, a table, and a verdict
# on what was claimed.
#
#   Demo::Tour.new(quick: false).run    # => true when every claim held
require "neverblock"
require_relative "back_end"
require_relative "database"
require_relative "everything"
require_relative "open_files"
require_relative "proxied_report"
require_relative "queries"
require_relative "rails_serving"
require_relative "report"
require_relative "requests"
require_relative "screen"
require_relative "serving"

module Demo
  class Tour
    FEW = 20
    MEASURED = 3 # requests made one after another; the rest is arithmetic
    CLIENTS = 500 # of one report
    ALONE = 30 # of these, without the cache; the rest is arithmetic
    PROXIED = 20 # of these, without the proxy's collapsing
    LONGER = [1, 2, 4].freeze # times as long are the waits of a scene, each time when something else may have made answers late
    GAIN = 4 # a scene at NeverBlock's speed must be this much faster; most machines show far more

    # @param quick [Boolean] shorter waits and fewer requests, for tests
    # @param output [IO]
    def initialize(quick: false, output: $stdout)
      @delay = quick ? 0.25 : 1.0
      @report = quick ? 0.5 : 2.0
      @statement = quick ? 0.5 : 1.0
      @many = quick ? 200 : 1_000
      @pause = quick ? 1.0 : 0.3 # fewer sleep, so that it takes longer until a pool is rid of them
      @screen = Screen.new(output)
      @failures = []
    end

    # @return [Boolean] whether every claim held
    def run
      introduce
      room = OpenFiles.make_room(@many) # first of all: the server inherits the limit
      BackEnd.open(delay: @delay) do |back_end|
        few = twenty(Requests.new(back_end))
        many = thousand(Requests.new(back_end), room, back_end)
        summary(few + many)
        serving(room)
        report(room)
        proxied_report(room)
        Database.open do |database|
          rails(database)
          queries(database)
        end
        everything(back_end)
      end
      verdict
    end

    private

    def introduce
      @screen.puts "NeverBlock #{NeverBlock::VERSION}, Ruby #{RUBY_VERSION}#{" with YJIT" if yjit?}"
      @screen.paragraph("engine: #{NeverBlock.engine}", indent: 0)
    end

    def yjit? = defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled?

    def twenty(requests)
      @screen.title "1. #{FEW} requests with stock Net::HTTP to a server that takes #{@delay} s for each"
      alone = requests.one_after_another(MEASURED, bar("one after another", MEASURED))
      @screen.paragraph("Measured on #{MEASURED}, extrapolated: #{FEW} would take #{seconds(alone.extrapolated(FEW))}.")
      threads = requests.with_threads(FEW, bar("a thread for each", FEW))
      ours = requests.under_neverblock(FEW, bar("NeverBlock", FEW))
      [alone, threads, ours].each { |result| claim_right(result) }
      claim_one_thread(ours.threads)
      claim_faster("#{FEW} requests", ours.seconds, alone.extrapolated(FEW))
      @alone = alone
      [alone, threads, ours]
    end

    def thousand(requests, room, back_end)
      count = room.connections
      @screen.title "2. #{number(count)} requests at once"
      @screen.paragraph(room.note) if room.note
      ours = requests.under_neverblock(count, bar("NeverBlock", count))
      @screen.paragraph("The server counted up to #{number(back_end.stats["most_at_once"])} requests at the same time.")
      threads = requests.with_threads(count, bar("a thread for each", count))
      claim_right(ours)
      @screen.paragraph("Threads: #{threads.trouble}") unless threads.all_right?
      claim_one_thread(ours.threads)
      claim_faster("#{count} requests", ours.seconds, @alone.extrapolated(count))
      [threads, ours]
    end

    def summary(results)
      rows = results.map do |result|
        all = (result == @alone) ? FEW : result.asked
        mark = (all == result.asked) ? " " : "*"
        [result.way, number(all), "#{number(result.right)} of #{number(result.asked)}", number(result.threads),
          "#{seconds(result.extrapolated(all))}#{mark}", "#{seconds(result.cpu * all / result.asked)}#{mark}"]
      end
      @screen.puts
      @screen.table([["way", "requests", "right", "threads", "time ", "processor "], *rows])
      @screen.paragraph("* measured on #{MEASURED}, extrapolated")
    end

    def serving(room)
      count = room.connections
      @screen.title "3. A Rack app that sleeps #{@delay} s, asked #{number(count)} times at once, in one process"
      server = File.join(__dir__, "rack_server.rb")
      outcome = BackEnd.open(delay: @delay, program: server) { |back_end| Serving.new(back_end, @screen).run(count) }
      claim_right(outcome.requests)
      claim_one_thread(outcome.threads)
      claim_faster("#{count} requests to one server", outcome.requests.seconds, count * @delay)
    end

    def report(room)
      count = [CLIENTS, room.connections].min
      @screen.title "4. A report that takes #{@report} s, #{Report::CONNECTIONS} at once at most: #{number(count)} clients ask for it"
      compare_reports(Report, count) do |report|
        [report.run("without", clients: ALONE, cache: false), report.run("with the cache", clients: count, cache: true)]
      end
    end

    # The founding program: it is put before an app that can't be changed.
    def proxied_report(room)
      count = [CLIENTS, room.connections].min
      @screen.title "5. The same from an app in Perl, behind `neverblock proxy`: #{number(count)} clients"
      missing = ProxiedReport.missing and return @screen.paragraph("Passed over: #{missing}.")
      compare_reports(ProxiedReport, count) do |report|
        [report.run("--collapse=off", clients: PROXIED), report.run("--collapse=same-url", clients: count, options: %w[--ttl 20])]
      end
    end

    # @param kind [Class] Report, or one of its subclasses
    # @yieldparam report [Report]
    # @yieldreturn [Array<Report::Outcome>] without and with sharing
    def compare_reports(kind, count)
      good = ->(alone, shared) { faster?(shared.last, alone.extrapolated(count)) }
      alone, shared = longer_where_late(good) do |times|
        yield(kind.new(@screen, delay: @report * times)).tap { |outcomes| reported(*outcomes, count) }
      end
      claim_faster("a report for #{number(count)} clients", shared.last, alone.extrapolated(count))
    end

    def reported(alone, shared, count)
      @screen.puts
      @screen.table([["", "clients", "app asked", "right", "first", "median ", "last "], report_alone(alone, count), report_shared(shared)])
      @screen.paragraph("* measured on #{alone.asked}, extrapolated")
      [alone, shared].each { |outcome| claim_right(outcome) }
      claim_asked_once(alone, shared)
    end

    def report_alone(outcome, count)
      [outcome.way, number(count), "#{number(outcome.calls * count / outcome.asked)}*", "#{outcome.right} of #{outcome.asked}",
        seconds(outcome.first), "#{seconds(outcome.extrapolated(count / 2))}*", "#{seconds(outcome.extrapolated(count))}*"]
    end

    def report_shared(outcome)
      [outcome.way, number(outcome.asked), "#{number(outcome.calls)} ", "#{number(outcome.right)} of #{number(outcome.asked)}",
        *[outcome.first, outcome.median, outcome.last].map { |time| seconds(time) }.then { |first, *others| [first, *others.map { |time| "#{time} " }] }]
    end

    def claim_asked_once(alone, shared)
      @failures << "#{shared.way}: the app was asked #{shared.calls} times for one report" unless shared.calls == 1
      @failures << "#{alone.way}: the app was asked #{alone.calls} times by #{alone.asked} clients" unless alone.calls == alone.asked
    end

    def rails(database)
      @screen.title "6. A Rails action with `select pg_sleep(#{@statement})`, asked #{RailsServing::REQUESTS} times at once"
      return unless postgresql?
      serving = RailsServing.new(@screen, database)
      alone = nil
      ours, theirs = longer_where_late(->(outcome, _) { faster?(outcome.requests.seconds, alone) }) do |times|
        alone = RailsServing::REQUESTS * @statement * times
        serving.run(@statement * times).values_at("NeverBlock", "Puma")
      end
      [ours, theirs].each { |outcome| claim_right(outcome.requests) }
      claim_one_thread(ours.threads)
      claim_faster("#{RailsServing::REQUESTS} requests to a Rails app", ours.requests.seconds, alone)
      return if ours.connections > theirs.connections
      @failures << "Rails opened #{ours.connections} connections under NeverBlock, no more than the #{theirs.connections} of Rails' pool"
    rescue RuntimeError => error # with all that PostgreSQL or the app said
      @screen.puts error.message
      @failures << "the Rails app or its PostgreSQL did not run: its message is above"
    ensure
      serving&.close
    end

    # Both adapters send the sleeping queries as fast as their connections allow; the claim is that fast queries don't
    # wait for them.
    def queries(database)
      @screen.title "7. #{number(@many)} Active Record queries at once, each tenth a `select pg_sleep(#{@pause})`"
      return unless postgresql?
      ours, theirs = longer_where_late(->(shared, pool) { shared.fast_after < pool.fast_after }) { |times| ask_queries(database, @pause * times) }
      return if ours.fast_after < theirs.fast_after
      @failures << "the fast queries took #{seconds(ours.fast_after)} on shared connections, #{seconds(theirs.fast_after)} on a pool of as many"
    rescue RuntimeError => error
      @screen.puts error.message
      @failures << "the Active Record program or its PostgreSQL did not run: its message is above"
    end

    # A busy machine adds the same time to long waits as to short ones. What waits one after the other takes longer in
    # the same proportion, and is late each time.
    # @param good [#call] whether the outcomes are as claimed
    # @yieldparam times [Integer] as long are the waits
    # @return [Array] the block's outcomes, the first good ones or the last
    def longer_where_late(good)
      outcomes = nil
      LONGER.each do |times|
        @screen.paragraph("Asked again, with waits #{times} times as long: something else may have kept this machine busy.") if outcomes
        outcomes = yield times
        break if good.call(*outcomes)
      end
      outcomes
    end

    # @return [Array<Queries::Outcome>] of our adapter, and of Rails' own
    def ask_queries(database, pause)
      outcomes = Queries.new(@screen, database, count: @many, pause:).run
      outcomes.each_value { |outcome| claim_right(outcome) }
      ours, theirs = outcomes.values_at("shared", "pool")
      claim_one_thread(ours.threads)
      claim_bounded(ours)
      [ours, theirs]
    end

    # @return [Boolean] whether the requirements of a scene with a database are met; if not, it prints that
    def postgresql?
      missing = RailsApp.missing or return true
      @screen.paragraph("Passed over: #{missing}.")
      false
    end

    def claim_bounded(outcome)
      return if outcome.connections <= Queries::CONNECTIONS
      @failures << "Active Record opened #{outcome.connections} connections under NeverBlock, where #{Queries::CONNECTIONS} were the limit"
    end

    def everything(back_end)
      @screen.title "8. Everything at once, on one thread"
      outcome = Everything.new(back_end, @screen).run
      @screen.paragraph("All of it in #{seconds(outcome.total)}; one after another the waits add up to " \
        "#{seconds(outcome.sum)}. Beside them a task woke every 10 ms, late by #{(outcome.latest * 1000).round} ms at worst.")
      outcome.jobs.reject(&:right?).each { |job| @failures << "#{job.label} had a wrong result" }
      claim_one_thread(outcome.threads)
      # The longest job alone takes a fifth of the sum.
      @failures << "the waits did not overlap" if outcome.total > outcome.sum / 2
    end

    def claim_right(result)
      return if result.all_right?
      @failures << "#{result.way}: #{result.right} of #{result.asked} answers were right; first trouble: #{result.trouble}"
    end

    def claim_one_thread(threads)
      @failures << "NeverBlock used #{threads} threads where one was claimed" unless threads == 1
    end

    def claim_faster(what, ours, alone)
      return if faster?(ours, alone)
      @failures << "#{what} took #{seconds(ours)} under NeverBlock, #{seconds(alone)} one after another"
    end

    def faster?(ours, alone) = ours * GAIN < alone

    def verdict
      @screen.puts
      if @failures.empty?
        @screen.puts "Every answer was right. Next: docs/getting-started.md"
      else
        @screen.puts "What was claimed did NOT hold here:"
        @failures.each { |failure| @screen.paragraph("- #{failure}") }
      end
      @failures.empty?
    end

    def bar(label, total) = @screen.bar(label, total)

    def number(count) = count.to_s.gsub(/(?<=\d)(?=(\d{3})+\z)/, ",")

    def seconds(time) = format("%.2f s", time)
  end
end
