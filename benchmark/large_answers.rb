# frozen_string_literal: true

# What pings wait for while 200 MB come from PostgreSQL beside them, as a table:
#
#   ruby -Ilib benchmark/large_answers.rb       # half a minute, a gigabyte of memory
#
# A ping is `select 'ping'`, one after the other, with 2 ms between them. What the loop was busy with at once is the processor
# time of the longest call of libpq's, which a busy machine disturbs less: reading, parsing, and PG::Result#clear.
require_relative "bench/machine"
require_relative "../test/support/postgres"
require "neverblock/postgres"

module LargeAnswers
  PAUSE = 0.002
  PING = "select 'ping'"
  KINDS = {
    "nothing, for half a second" => "select pg_sleep(0.5)",
    "2,000,000 rows of 100 B" => "select repeat('x', 100) from generate_series(1, 2000000)",
    "200,000 rows of 1 kB" => "select repeat('x', 1000) from generate_series(1, 200000)",
    "200 rows of 1 MB" => "select repeat('x', 1000000) from generate_series(1, 200)",
    "10 rows of 20 MB" => "select repeat('x', 20000000) from generate_series(1, 10)",
    "1 row of 200 MB" => "select repeat('x', 200000000)"
  }.freeze

  # Times the calls of libpq's that read and parse.
  module Timed
    @longest = 0.0

    class << self
      attr_accessor :longest

      def call
        begun = LargeAnswers.used
        yield
      ensure
        taken = LargeAnswers.used - begun
        @longest = taken if taken > @longest
      end
    end

    def consume_input = Timed.call { super }

    def is_busy = Timed.call { super }

    def sync_get_result = Timed.call { super }
  end

  module_function

  def table
    Bench::Machine.describe.except("peers", "open files", "vm.max_map_count").each { |name, value| puts "- #{name}: #{value}" }
    puts "- libpq: #{PG.library_version}", ""
    puts "| beside them | it took | ping p50 | p99 | longest | longest call of libpq's | `clear` |", "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    PG::Connection.prepend(Timed)
    NeverBlockTest::PostgresServer.open do |server|
      with_database(server, 4) { |database| KINDS.each { |name, sql| row(database, name, [sql]) } }
      with_database(server, 2) { |database| surprise(database) }
    end
  end

  def with_database(server, connections)
    database = NeverBlock::Postgres.new(server.url, connections:)
    NeverBlock.run { yield database }
  ensure
    database&.close
  end

  # Of a shape that was never large, so that a ping is behind one of them.
  def surprise(database)
    20.times { database.exec("select repeat('x', 100) from generate_series(1, 1)") }
    row(database, "2,000,000 rows of 100 B, unforeseen, on both connections", [KINDS.values[1]] * 2)
  end

  def row(database, name, texts)
    10.times { database.exec(PING) }
    GC.start
    Timed.longest = 0.0
    pings = []
    large = texts.map { |sql| NeverBlock.spawn { database.exec(sql) } }
    begun = now
    ping(database, pings) while large.any?(&:alive?)
    taken = now - begun
    cleared = used
    large.each { |task| task.value.clear }
    pings.sort!
    puts "| #{name} | #{[taken, pings[pings.size / 2], pings[pings.size * 99 / 100], pings.last, Timed.longest, used - cleared].map { |seconds| format("%.1f ms", seconds * 1_000) }.join(" | ")} |"
  end

  def ping(database, pings)
    begun = now
    database.exec(PING)
    pings << now - begun
    sleep PAUSE
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def used = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
end

LargeAnswers.table
