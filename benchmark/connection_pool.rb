# frozen_string_literal: true

# What a pool costs its users, beside the gem connection_pool, as a table:
#
#   ruby -Ilib benchmark/connection_pool.rb
#
# Each row is a load inside of NeverBlock.run, or of threads. The rounds of both pools take turns; the median of the rounds' ratios is told.
require "bundler/setup"
require "connection_pool"
require "neverblock"

module PoolCost
  ROUNDS = 9

  # A load: users, each with so many uses of a pool of some size.
  Load = Data.define(:name, :size, :users, :uses, :work, :threads) do
    def self.of(name, size:, users:, uses:, threads: false, work: -> { NeverBlock.pass }) = new(name:, size:, users:, uses:, work:, threads:)

    # @return [Float] seconds for each use
    def call(pool)
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      use = lambda do
        uses.times { pool.with { work.call } }
      end
      if threads
        Array.new(users) { Thread.new(&use) }.each(&:join)
      else
        NeverBlock.run { |scope| users.times { scope.spawn(&use) } }
      end
      (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began) / (users * uses)
    end
  end

  LOADS = [
    Load.of("1,000 fibers, 10 connections", size: 10, users: 1_000, uses: 5),
    Load.of("100 fibers, 10 connections", size: 10, users: 100, uses: 50),
    Load.of("1,000 fibers, 1,000 connections", size: 1_000, users: 1_000, uses: 20),
    Load.of("one fiber", size: 10, users: 1, uses: 50_000, work: -> {}),
    Load.of("16 threads, 4 connections", size: 4, users: 16, uses: 200, threads: true, work: -> { Thread.pass })
  ].freeze

  module_function

  def table
    puts "| load | connection_pool | NeverBlock::ConnectionPool | ratio |", "| --- | ---: | ---: | ---: |"
    LOADS.each do |load|
      theirs, ours = ConnectionPool.new(size: load.size, timeout: 600) { Object.new }, NeverBlock::ConnectionPool.new(size: load.size, timeout: 600) { Object.new }
      [theirs, ours].each { |pool| load.call(pool) }
      rounds = Array.new(ROUNDS) { |round| round.even? ? [load.call(theirs), load.call(ours)] : [load.call(ours), load.call(theirs)].reverse }
      first, second = rounds.transpose.map { |figures| median(figures) }
      ratio = median(rounds.map { |their, our| our / their })
      puts format("| %s | %.2f µs | %.2f µs | %.2f |", load.name, first * 1e6, second * 1e6, ratio)
    end
  end

  def median(figures) = figures.sort[figures.size / 2]
end

PoolCost.table
