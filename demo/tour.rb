# frozen_string_literal: true

# The demo from its first line to its last: six scenes, a table, and a verdict
# on what was claimed.
#
#   Demo::Tour.new(quick: false).run    # => true when every claim held
require "neverblock"
require_relative "back_end"
require_relative "database"
require_relative "everything"
require_relative "open_files"
require_relative "queries"
require_relative "rails_serving"
require_relative "requests"
require_relative "screen"
require_relative "serving"

module Demo
  class Tour
    FEW = 20
    MEASURED = 3 # requests made one after another; the rest is arithmetic
    GAIN = 4 # a scene at NeverBlock's speed must be this much faster; most machines show far more

    # @param quick [Boolean] shorter waits and fewer requests, for tests
    # @param output [IO]
    def initialize(quick: false, output: $stdout)
      @delay = quick ? 0.25 : 1.0
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

    def rails(database)
      @screen.title "4. A Rails action with `select pg_sleep(#{@statement})`, asked #{RailsServing::REQUESTS} times at once"
      return unless postgresql?
      ours, theirs = RailsServing.new(@screen, database, delay: @statement).run.values_at("NeverBlock", "Puma")
      [ours, theirs].each { |outcome| claim_right(outcome.requests) }
      claim_one_thread(ours.threads)
      claim_faster("#{RailsServing::REQUESTS} requests to a Rails app", ours.requests.seconds, RailsServing::REQUESTS * @statement)
      return if ours.connections > theirs.connections
      @failures << "Rails opened #{ours.connections} connections under NeverBlock, no more than the #{theirs.connections} of Rails' pool"
    rescue RuntimeError => error # with all that PostgreSQL or the app said
      @screen.puts error.message
      @failures << "the Rails app or its PostgreSQL did not run: its message is above"
    end

    # Both adapters send the sleeping queries as fast as their connections allow; the claim is that fast queries don't
    # wait for them.
    def queries(database)
      @screen.title "5. #{number(@many)} Active Record queries at once, each tenth a `select pg_sleep(#{@pause})`"
      return unless postgresql?
      ours, theirs = ask_queries(database)
      unless ours.fast_after < theirs.fast_after
        @screen.paragraph("Asked again: on a machine that is busy with something else, the fast ones may be late for that alone.")
        ours, theirs = ask_queries(database)
      end
      return if ours.fast_after < theirs.fast_after
      @failures << "the fast queries took #{seconds(ours.fast_after)} on shared connections, #{seconds(theirs.fast_after)} on a pool of as many"
    rescue RuntimeError => error
      @screen.puts error.message
      @failures << "the Active Record program or its PostgreSQL did not run: its message is above"
    end

    # @return [Array<Queries::Outcome>] of our adapter, and of Rails' own
    def ask_queries(database)
      outcomes = Queries.new(@screen, database, count: @many, pause: @pause).run
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
      @screen.title "6. Everything at once, on one thread"
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
      return if ours * GAIN < alone
      @failures << "#{what} took #{seconds(ours)} under NeverBlock, #{seconds(alone)} one after another"
    end

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
