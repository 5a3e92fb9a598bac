# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "neverblock/railtie/advice"
require "neverblock/railtie/pool_watch"
require "support/virtual_time"

# The Railtie's messages, without Rails: test/programs/rails_test.rb has a real app.
class RailtieTest < Minitest::Test
  include NeverBlockTest::VirtualTime

  App = Struct.new(:config)
  Config = Struct.new(:allow_concurrency)
  Pool = Struct.new(:db_config, :size, :stat)
  DatabaseConfig = Struct.new(:name, :adapter, :configuration_hash)

  def test_a_valid_app_gets_no_warning
    assert_empty advice
  end

  def test_wrong_settings_are_named_with_the_remedy
    assert_match(/allow_concurrency is false: .*Remove/, advice(concurrency: false).fetch(0))
  end

  def test_gems_that_hold_the_loop_are_named_with_the_remedy
    assert_match(/the gem mysql2 is loaded: .*trilogy/, advice(gems: {"mysql2" => 1}).fetch(0))
    Gem.stub(:loaded_specs, {"mysql2" => 1}) do
      assert_equal Object.const_defined?(:Mysql2), NeverBlock::Railtie::Advice.loaded_gems.key?("mysql2")
    end
    assert_empty advice(gems: {"sqlite3" => 1}, local: true)
    assert_match(/sqlite3.*neverblock_postgresql/, advice(gems: {"sqlite3" => 1}).fetch(0))
  end

  def test_long_waits_for_a_pool_are_logged_once_a_minute
    lines = []
    watch = NeverBlock::Railtie::PoolWatch.new(0.1, processor: idle) { |line| lines << line }
    pool = Pool.new(DatabaseConfig.new("primary", "postgresql"), 5)
    watch.waited(pool, 0.05)
    assert_empty lines
    3.times { watch.waited(pool, 0.5) }
    assert_equal 1, lines.size
    assert_match(/waited 0.50 s for a connection of the pool "primary", which has 5\. .*raise pool: in config\/database.yml/, lines.first)
    clock.advance(59)
    watch.waited(pool, 0.5)
    assert_equal 1, lines.size
    clock.advance(1)
    watch.waited(pool, 1)
    assert_match(/\(4 waited over 0.1 s since the last such line\)/, lines.fetch(1))
    watch.waited(Pool.new(DatabaseConfig.new("queue", "neverblock_postgresql", {connections: 7}), nil, {}), 1)
    assert_match(/"queue", which has 7\. .*raise connections:.* hold one each\z/, lines.fetch(2))
  end

  def test_a_long_wait_for_shared_connections_names_their_holders
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
    lines = []
    holder = {state: "leased", purpose: "INSERT (request)", statement: "INSERT INTO notes", age: 2.04, rests: 1.96, task: "request", spawned_at: nil, at: "app/models/note.rb:7", ended: false}
    pool = Pool.new(DatabaseConfig.new("primary", "neverblock_postgresql", {connections: 7}), nil, {neverblock: {size: 7, holders: [holder]}})
    NeverBlock::Railtie::PoolWatch.new(0.1, processor: idle) { |line| lines << line }.waited(pool, 1)
    assert_match(/hold one each\. Now 1 of 7 are held \(INSERT \(request\), for 2\.0 s, which has been idle for 2\.0 s after INSERT INTO notes, now at app\/models\/note\.rb:7\)\z/, lines.fetch(0))
  end

  def test_a_long_wait_under_a_busy_processor_names_the_processor
    lines = []
    watch = NeverBlock::Railtie::PoolWatch.new(0.1, processor: share_of(0.93)) { |line| lines << line }
    watch.waited(Pool.new(DatabaseConfig.new("primary", "neverblock_postgresql", {connections: 7}), nil, {}), 0.13)
    assert_match(/waited 0\.13 s for .*which has 7\. This process computed for 93 % of that time: the processor is the bottleneck, .* lower max_in_flight/, lines.fetch(0))
    refute_match(/raise connections:/, lines.fetch(0))
  end

  private

  def idle = share_of(0.1)

  # As measured over the last ten seconds.
  def share_of(share)
    computed = 0
    processor = NeverBlock::ProcessorShare.new(computed: -> { computed }).tap(&:note)
    clock.advance(10)
    computed = 10 * share
    processor
  end

  def advice(concurrency: nil, gems: {}, local: false)
    [].tap { |lines| NeverBlock::Railtie::Advice.new(App.new(Config.new(concurrency)), gems:, local:).call { |line| lines << line } }
  end
end
