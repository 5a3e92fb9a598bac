# frozen_string_literal: true

require "test_helper"

# The lifespan of connections, without any connection.
class PostgresLifespanTest < Minitest::Test
  Age = Struct.new(:since_birth, :since_use, :since_message, :share)

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
  end

  def test_each_limit
    lifespan = lifespan(max_age: 100, idle_timeout: 10, keepalive: 5)
    assert_equal [[false, true], [false, true], [false, true]], [
      [99, 100].map { |seconds| lifespan.old?(age(since_birth: seconds)) },
      [9, 10].map { |seconds| lifespan.idle?(age(since_use: seconds)) },
      [4, 5].map { |seconds| lifespan.quiet?(age(since_message: seconds)) }
    ]
  end

  # As in Active Record, idle_timeout has no jitter.
  def test_a_part_is_by_chance
    lifespan = lifespan(max_age: 100, idle_timeout: 100, keepalive: 100)
    assert lifespan.old?(age(since_birth: 80, share: 0.8))
    assert lifespan.quiet?(age(since_message: 80, share: 0.8))
    refute lifespan.idle?(age(since_use: 80, share: 0.8))
    shares = Array.new(1_000) { lifespan.begin.share }
    assert_operator shares.min, :>=, 0.8
    assert_operator shares.max, :<=, 1
    assert_operator shares.max - shares.min, :>, 0.1, "they end at once"
    assert_equal [1.0], Array.new(10) { lifespan(pool_jitter: 0).begin.share }.uniq
  end

  def test_nothing_is_without_an_end_unless_it_is_said
    [{}, {max_age: 0, idle_timeout: nil, keepalive: Float::INFINITY}].each do |options|
      lifespan = lifespan(**options)
      refute lifespan.any?
      eternal = age(since_birth: 1e9, since_use: 1e9, since_message: 1e9)
      assert_equal [false] * 3, [lifespan.old?(eternal), lifespan.idle?(eternal), lifespan.quiet?(eternal)]
    end
  end

  def test_an_adapter_s_defaults_are_for_what_was_not_said
    lifespan = lifespan(idle_timeout: Float::INFINITY)
    lifespan.default({idle_timeout: 10, keepalive: 10})
    refute lifespan.idle?(age(since_use: 20))
    assert lifespan.quiet?(age(since_message: 20))
    lifespan.default({keepalive: 30})
    assert lifespan.quiet?(age(since_message: 20))
  end

  def test_how_often_it_is_looked
    assert_equal 60, lifespan(max_age: 3600).every
    assert_equal 5, lifespan(min_connections: 1).every
    assert_in_delta 0.5, lifespan(max_age: 3600, keepalive: 2).every
    assert_operator lifespan(max_age: 1e-9).every, :>, 0.001
  end

  def test_audits_and_keepalives_are_no_use
    age = NeverBlock::Postgres::Age.new(0.0)
    born = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    age.heard(0.0) # without any statistics
    assert_operator age.since_use, :<, 5
    age.asked(born + 100)
    age.heard(born + 100)
    assert_operator age.since_message, :<, -50
    assert_operator age.since_use, :>=, 0
    age.heard(born + 200)
    assert_operator age.since_use, :<, -50
  end

  private

  def lifespan(**options) = NeverBlock::Postgres::Lifespan.new(**NeverBlock::Postgres::Options.complete(options))

  def age(since_birth: 0, since_use: 0, since_message: 0, share: 1) = Age.new(since_birth, since_use, since_message, share)
end
