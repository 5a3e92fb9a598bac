# frozen_string_literal: true

require "test_helper"

# Connections that are opened in advance, without a server.
class PostgresWarmStartTest < Minitest::Test
  # Stands for Pool: opens one connection for each call.
  class Pool
    attr_reader :serving, :calls
    attr_accessor :failure, :closed
    alias_method :closed?, :closed

    def initialize = @serving = @calls = 0

    def open_extra(least)
      @calls += 1
      raise failure if failure
      return false unless yield && @serving < least
      @serving += 1
      true
    end

    def lose = @serving -= 1
  end

  Lifespan = Struct.new(:min_connections)
  Journal = Struct.new(:said) do
    def say(line) = said << line
  end

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
    @pool, @journal, @pauses = Pool.new, Journal.new([]), pauses = []
    @warm_start = NeverBlock::Postgres::WarmStart.new(@pool, Lifespan.new(3), @journal)
    @warm_start.define_singleton_method(:sleep) { |seconds| pauses << seconds }
  end

  def test_nothing_is_opened_before_it_is_active
    assert_empty threads_of { @warm_start.begin }
  end

  def test_as_many_as_asked_for_are_opened_with_pauses
    fill { @warm_start.activate }
    assert_equal [3, 3], [@pool.serving, @pool.calls]
    assert_includes 0.0..0.5, @pauses.first, "so that the processes of an app do not begin all at once"
    assert_equal 4, @pauses.size
    assert_empty @pauses.drop(1).reject { |pause| pause >= 0.05 }
    @warm_start.begin
    assert_equal 3, @pool.calls, "none is missing"
  end

  def test_those_that_were_lost_are_opened_again
    fill { @warm_start.activate }
    @pool.lose
    fill { @warm_start.begin }
    assert_equal [3, 4], [@pool.serving, @pool.calls]
  end

  # Later calls, which come every few seconds, are not told of it each time.
  def test_a_failure_is_told_once
    @pool.failure = PG::ConnectionBad.new("refused")
    fill { @warm_start.activate }
    fill { @warm_start.begin }
    assert_equal [["min_connections: 3 are not reached, because one could not be opened: refused"], 2], [@journal.said, @pool.calls]
    @pool.failure = nil
    fill { @warm_start.begin }
    @pool.failure = PG::ConnectionBad.new("refused again")
    @pool.lose
    fill { @warm_start.begin }
    assert_equal 2, @journal.said.size
  end

  def test_it_rests
    @warm_start.rest
    fill { @warm_start.activate }
    @warm_start.rest
    @pool.lose
    calls = @pool.calls
    @warm_start.begin
    assert_equal calls, @pool.calls
  end

  def test_a_pool_that_is_closed_opens_none_and_says_nothing
    @pool.closed = true
    assert_empty threads_of { @warm_start.activate }
  end

  private

  # @return [Array<Thread>] that the block starts
  def threads_of
    before = Thread.list
    yield
    Thread.list - before
  end

  # Runs the block, and waits for the thread that it starts.
  def fill(&) = threads_of(&).each { |thread| assert thread.join(10), "it is still at it" }
end
