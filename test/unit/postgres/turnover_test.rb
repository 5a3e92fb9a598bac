# frozen_string_literal: true

require "test_helper"
require "minitest/mock"

# Which connections are closed for their age or their rest, and which are asked whether they live, without a server.
class PostgresTurnoverTest < Minitest::Test
  # Its age is what the test says.
  Aged = Struct.new(:share, :since_birth, :since_use, :since_message, :told) do
    def heard(time) = told << [:heard, time]

    def asked(time) = told << [:asked, time]
  end

  Connection = Struct.new(:age, :session_defaults, :idle, :broken, :stale, :heard, :restoring) do
    def restoring? = restoring == true
  end

  # Stands for Pool and its router.
  class Pool
    attr_reader :connections, :draining, :held
    attr_accessor :wanted, :closed
    alias_method :closed?, :closed

    def initialize(connections)
      @connections, @wanted, @draining, @held = connections, :defaults, [], []
    end

    def router = self

    def idle?(connection) = connection.idle

    def hold(connection) = yield && (@held << connection) && true

    def drain(connection) = yield && @draining << connection

    def serving = @connections.count { |one| one.session_defaults == @wanted }
  end

  # Stands for Upkeep.
  class Upkeep
    attr_reader :log

    def initialize(pool)
      @pool, @log = pool, []
    end

    def discard(connection) = @pool.connections.delete(connection) && @log << [:discard, connection]

    def settle(connection) = @log << [:settle, connection]
  end

  WarmStart = Struct.new(:begun, :rested) do
    def begin = self.begun = begun.to_i + 1

    def rest = self.rested = true
  end

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
  end

  def test_an_old_connection_is_closed_when_it_is_idle
    idle, busy, young = connection(born: 101), connection(born: 101, idle: false), connection(born: 99)
    look(idle, busy, young, max_age: 100)
    assert_equal [[[:discard, idle]], [busy], true, nil], [@upkeep.log, @pool.draining, busy.stale, young.stale]
  end

  def test_the_limit_of_one_may_be_shorter
    chosen, other = connection(born: 81, share: 0.8), connection(born: 81, share: 1.0)
    look(chosen, other, max_age: 100)
    assert_equal [[:discard, chosen]], @upkeep.log
  end

  def test_the_longest_idle_ones_are_closed_down_to_the_least_number
    rested, longer, short, busy = connection(used: 61), connection(used: 90), connection(used: 59), connection(used: 70, idle: false)
    look(rested, longer, short, busy, idle_timeout: 60, min_connections: 3)
    assert_equal [[:discard, longer]], @upkeep.log
  end

  # An adapter's first statements have other ones than those that follow.
  def test_session_defaults_out_of_use_do_not_count
    other = connection(used: 61, session_defaults: :others)
    look(other, connection(used: 61), idle_timeout: 60, min_connections: 1)
    assert_equal [[:discard, other]], @upkeep.log
  end

  def test_a_silent_connection_is_asked
    alive, dead, busy, heard = connection(message: 31), connection(message: 31), connection(message: 31, idle: false), connection(message: 29)
    answers = ->(connection, _discard) { Struct.new(:answers?).new(connection.equal?(alive)) }
    NeverBlock::Postgres::SessionReset.stub(:new, answers) { look(alive, dead, busy, heard, keepalive: 30) }
    assert_equal [[:settle, alive], [:discard, dead]], @upkeep.log
    assert_equal [[:heard, 5.0], [:asked, 5.0]], alive.age.told
  end

  def test_what_is_broken_or_being_reset_is_left_alone
    broken, reset = connection(born: 101, broken: true), connection(born: 1, restoring: true)
    look(broken, reset, max_age: 100)
    assert_equal [[], [], []], [@upkeep.log, broken.age.told, reset.age.told]
  end

  def test_it_opens_what_is_missing_and_ends_with_the_pool
    assert look(max_age: 100)
    assert_equal 1, @warm_start.begun
    @pool.closed = true
    refute @turnover.look_around
    assert_equal 25.0, @turnover.every
  end

  def test_a_forked_child_needs_it_no_more
    look(max_age: 100)
    @turnover.end
    refute @turnover.look_around
    assert_equal [1, true], [@warm_start.begun, @warm_start.rested]
  end

  private

  def connection(born: 0, used: 0, message: 0, share: 1.0, session_defaults: :defaults, idle: true, broken: nil, restoring: false)
    Connection.new(Aged.new(share, born, used, message, []), session_defaults, idle, broken, nil, 5.0, restoring)
  end

  def look(*connections, **limits)
    lifespan = NeverBlock::Postgres::Lifespan.new(max_age: nil, idle_timeout: nil, keepalive: nil, min_connections: 0, pool_jitter: 0, **limits)
    @pool = Pool.new(connections)
    @upkeep = Upkeep.new(@pool)
    @warm_start = WarmStart.new
    @turnover = NeverBlock::Postgres::Turnover.new(@pool, @upkeep, lifespan, @warm_start)
    @turnover.look_around
  end
end
