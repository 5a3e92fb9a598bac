# frozen_string_literal: true

# One measurement of the large_answers benchmark, in a process of its own:
#
#   ruby child.rb neverblock rows_1kB '{"connections":4,"sql":"select ...","many":1,"small":0,"place":{...}}'
#
# A ping is `select 'ping'`, one after the other, with 2 ms between them. What the loop was busy with at once is the processor
# time of the longest call of libpq's, which a busy machine disturbs less: reading, parsing, and PG::Result#clear.
require "json"
require_relative "../database/child/clock"
require_relative "../database/child/raw"

PAUSE = 0.002
PING = "select 'ping'"
SMALL = "select repeat('x', 100) from generate_series(1, 1)"

# Times the calls of libpq's that read and parse.
module Timed
  @longest = 0.0

  class << self
    attr_accessor :longest

    # @return [Float] seconds of processor time so far, of this thread
    def used = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)

    def call
      begun = used
      yield
    ensure
      @longest = [@longest, used - begun].max
    end
  end

  %i[consume_input is_busy sync_get_result].each { |name| define_method(name) { Timed.call { super() } } }
end

options = JSON.parse(ARGV.last, symbolize_names: true)
database = Measured::Raw.ours(options.fetch(:place), **options.slice(:connections))
PG::Connection.prepend(Timed)

ping = lambda do
  begun = Measured::Clock.now
  database.exec(PING)
  Measured::Clock.now - begun
end

NeverBlock.run do
  options.fetch(:small).times { database.exec(SMALL) }
  10.times { ping.call }
  GC.start
  Timed.longest = 0.0
  pings = []
  begun = Measured::Clock.now
  large = Array.new(options.fetch(:many)) { NeverBlock.spawn { database.exec(options.fetch(:sql)) } }
  while large.any?(&:alive?)
    pings << ping.call
    sleep PAUSE
  end
  wall = Measured::Clock.now - begun
  longest_call = Timed.longest
  used = Timed.used
  large.each { |task| task.value.clear }
  puts JSON.generate({operations: pings.size, wall:, longest: pings.max, longest_call:, clear: Timed.used - used, libpq: PG.library_version, **Measured::Clock.spread(pings)})
end
database.close
