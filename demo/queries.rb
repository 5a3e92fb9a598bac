# frozen_string_literal: true

# Many queries of one Active Record program at once, of which each tenth sleeps in the database: with Rails' own adapter on a pool of
# connections, then with `adapter: neverblock_postgresql` on as many. Both in fibers on one thread.
#
#   outcomes = Demo::Queries.new(screen, database, count: 1_000, pause: 0.3).run
#   outcomes["shared"].fast_after     # => 0.6, seconds until those that do not sleep were answered
#   outcomes["pool"].fast_after       # => 2.5
require "json"
require_relative "bar"
require_relative "rails_app"

module Demo
  class Queries
    PROGRAM = File.join(__dir__, "active_record_app.rb")
    ADAPTERS = {"pool" => "postgresql", "shared" => "neverblock_postgresql"}.freeze
    CONNECTIONS = 12 # of either
    EACH = 10 # one in so many sleeps
    PATIENCE = 30 # seconds for the next line of a program

    # right: answers that were right, of those asked for; fast_after, seconds: until those that don't sleep, and all, were
    # answered; threads: Ruby threads that ran queries; connections: to the database; trouble: the first thing that went wrong
    Outcome = Struct.new(:way, :asked, :right, :fast_after, :seconds, :threads, :connections, :trouble) do
      # @return [Boolean] whether each answer was the right one
      def all_right? = right == asked
    end

    # @param screen [Screen]
    # @param database [Database]
    # @param count [Integer] queries
    # @param pause [Float] seconds that each tenth sleeps
    def initialize(screen, database, count:, pause:)
      @screen = screen
      @database = database
      @count = count
      @slow = count / EACH
      @pause = pause
      @figures = {}
      @programs = {}
    end

    # @return [Hash{String=>Outcome}] by the name of the way
    # @raise [RuntimeError] if a program does not run
    def run
      start
      outcomes = ADAPTERS.keys.to_h { |way| [way, ask(way)] }
      @screen.live? ? @screen.picture_done : lines.each { |line| @screen.puts(line) }
      table(outcomes.values)
      outcomes
    ensure
      @programs.each_value(&:close)
    end

    private

    # Both at the same time; one waits while the other is asked.
    def start
      bar = @screen.bar("two programs", ADAPTERS.size)
      @database.server.query("drop table if exists pages; create table pages as select number as id, 'page ' || number as title from generate_series(1, #{@count}) as number; " \
        "alter table pages add primary key (id)")
      ADAPTERS.each { |way, adapter| @programs[way] = IO.popen(command(way, adapter), "r+") }
      @programs.each_key { |way| (line(way) == "ready\n") ? bar.advance : raise("the program for \"#{way}\" did not start: its message is above") }
    ensure
      bar.finish
    end

    def command(way, adapter)
      RailsApp.command(@database.environment(way), PROGRAM, adapter, CONNECTIONS.to_s, @count.to_s, @pause.to_s)
    end

    def ask(way)
      @programs[way].puts("go")
      figures = look(way) until figures&.key?("threads")
      Outcome.new(way, @count, figures["fast"] + figures["slow"], *figures.values_at("fast_after", "seconds", "threads"),
        @database.connections(way), figures["trouble"])
    end

    def look(way)
      @figures[way] = JSON.parse(line(way) || raise("the program for \"#{way}\" ended: its message is above"))
      @screen.picture(lines) if @screen.live?
      @figures[way]
    end

    def line(way)
      @programs[way].wait_readable(PATIENCE) or raise "the program for \"#{way}\" said nothing for #{PATIENCE} s"
      @programs[way].gets
    end

    def lines
      @figures.flat_map do |way, figures|
        fast, slow = figures.values_at("fast", "slow")
        all = @count - @slow
        [Bar.line("#{way}: fast ones", fast, all, (fast == all) ? figures["fast_after"] : figures["seconds"]),
          Bar.line("#{way}: that sleep", slow, @slow, figures["seconds"])]
      end
    end

    def table(outcomes)
      rows = outcomes.map do |outcome|
        [ADAPTERS.fetch(outcome.way), "#{outcome.right} of #{outcome.asked}", outcome.threads.to_s, outcome.connections.to_s,
          format("%.2f s", outcome.fast_after), format("%.2f s", outcome.seconds)]
      end
      @screen.puts
      @screen.table([["adapter", "right", "threads", "connections", "fast ones", "all "], *rows])
    end
  end
end
