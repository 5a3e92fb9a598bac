# frozen_string_literal: true

# engines: one - it looks at texts and settings

require "test_helper"
require "neverblock/railtie/advice"
require "neverblock/railtie/pool_watch"

# What the Railtie tells, without a Rails: test/programs/rails_test.rb has one.
class RailtieTest < Minitest::Test
  App = Struct.new(:config)
  Config = Struct.new(:allow_concurrency)
  Pool = Struct.new(:db_config, :size)
  DatabaseConfig = Struct.new(:name, :adapter, :configuration_hash)

  def test_an_app_that_is_right_hears_nothing
    assert_empty advice
  end

  def test_settings_that_are_wrong_are_named_with_the_remedy
    assert_match(/isolation_level is :thread.*set it to :fiber/, advice(isolation: :thread).fetch(0))
    assert_match(/allow_concurrency is false: .*Remove/, advice(concurrency: false).fetch(0))
  end

  def test_gems_that_hold_the_loop_are_named_with_the_remedy
    assert_match(/the gem mysql2 is loaded: .*trilogy/, advice(gems: {"mysql2" => 1}).fetch(0))
    assert_empty advice(gems: {"sqlite3" => 1}, local: true)
    assert_match(/sqlite3.*neverblock_postgresql/, advice(gems: {"sqlite3" => 1}).fetch(0))
  end

  def test_long_waits_for_a_pool_are_told_once_a_minute
    lines, now = [], 0
    watch = NeverBlock::Railtie::PoolWatch.new(0.1, clock: -> { now }) { |line| lines << line }
    pool = Pool.new(DatabaseConfig.new("primary", "postgresql"), 5)
    watch.waited(pool, 0.05)
    assert_empty lines
    3.times { watch.waited(pool, 0.5) }
    assert_equal 1, lines.size
    assert_match(/waited 0.50 s for a connection of the pool "primary", which has 5\. .*raise pool: in config\/database.yml/, lines.first)
    now = 61
    watch.waited(pool, 1)
    assert_match(/\(3 waited over 0.1 s since the last such line\)/, lines.fetch(1))
    watch.waited(Pool.new(DatabaseConfig.new("queue", "neverblock_postgresql", {connections: 7}), nil), 1)
    assert_match(/"queue", which has 7\. .*raise connections:/, lines.fetch(2))
  end

  private

  def advice(isolation: :fiber, concurrency: nil, gems: {}, local: false)
    [].tap { |lines| NeverBlock::Railtie::Advice.new(App.new(Config.new(concurrency)), gems:, isolation:, local:).call { |line| lines << line } }
  end
end
