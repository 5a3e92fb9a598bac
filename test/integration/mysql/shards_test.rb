# frozen_string_literal: true

require "test_helper"
require_relative "../../support/mysql_shards"
require_relative "../../support/sharded_records"

# NeverBlock::Shards over pools of three databases of MariaDB, one that is dead, and one that is silent.
class MySQLShardsTest < Minitest::Test
  include NeverBlockTest::MySQLShards

  DEADLINE = 3 # seconds, in which a slow machine answers too

  def test_each_database_is_asked
    all = pools
    asked = -> { NB::Shards.map(all) { |pool| one(pool.query("select database()")) } }
    assert_equal [{eu: "nb_eu", us: "nb_us", asia: "nb_asia"}] * 2, [in_loop { asked.call }, asked.call]
    assert_equal "nb_us", in_loop { NB::Shards.first(all) { |pool| one(pool.query("select database()")).then { |name| name if name == "nb_us" } } }
  end

  slow "it waits for a deadline"
  def test_a_dead_and_a_silent_one_cost_an_error_each
    in_loop do
      all = pools(:eu, :dead, :silent, :us)
      started = now
      values = NB::Shards.map(all, timeout: DEADLINE, partial: true) { |pool| one(pool.query("select database()")) }
      assert_equal({eu: "nb_eu", us: "nb_us"}, values)
      assert_equal %i[dead silent], values.errors.keys.sort
      assert_kind_of SystemCallError, values.errors[:dead]
      assert_kind_of NeverBlock::TimeoutError, values.errors[:silent]
      assert_operator now - started, :<, DEADLINE + 10
      error = assert_raises(NB::Shards::Incomplete) { NB::Shards.map(all, only: %i[us dead]) { |pool| pool.query("select 1") } }
      assert_match(/\AShards\.map: 1 of 2 shards failed: :dead: /, error.message)
    end
  end

  def test_losers_of_first_are_ended_in_the_database
    in_loop do
      won = NB::Shards.first(pools) do |pool, name|
        if name == :us
          pass_until("the losers to run") { running(:eu) == 1 && running(:asia) == 1 }
          next one(pool.query("select database()"))
        end
        pool.transaction do |connection|
          connection.query("insert into orders (name) values ('lost')")
          connection.query("select sleep(60)")
        end
      end
      assert_equal "nb_us", won
      pass_until("the losers' statements to end") { running(:eu).zero? && running(:asia).zero? }
      assert_equal({eu: [], us: [], asia: []}, orders)
    end
  end

  def test_a_write_is_made_once_and_on_its_own_shard
    on_shard(:us, "insert into orders (name) values ('here')")
    in_loop do
      errors = NB::Shards.each(pools(:eu, :us, :asia, :dead), partial: true) { |pool| pool.query("insert into orders (name) values ('here')") }
      assert_equal %i[dead us], errors.keys.sort
      assert_equal 1062, errors[:us].error_code
      assert_equal({eu: ["here"], us: ["here"], asia: ["here"]}, orders)
    end
  end
end

# The same over the shards of `connects_to`.
class MySQLActiveRecordShardsTest < Minitest::Test
  include NeverBlockTest::MySQLShards
  include NeverBlockTest::ShardedRecords

  def setup
    super
    @base.connects_to(shards: NAMES.to_h { |name| [name, {writing: configuration(name), reading: configuration(name)}] })
  end

  def teardown
    ActiveRecord::Base.connection_handler.clear_all_connections!(:all) if @base
    super
  end

  def test_each_shard_is_asked_and_child_fibers_keep_theirs
    in_loop do
      NB::Shards.each(@base) { |shard| @items.create!(name: "of #{shard}") }
      assert_equal({eu: ["of eu"], us: ["of us"], asia: ["of asia"]}, NB::Shards.map(@base) { @items.pluck(:name) })
      @base.connected_to(shard: :us) do
        assert_equal [["of us"]] * 3, NB.concurrently(1..3) { @items.pluck(:name) }
        NB.spawn { @items.create!(name: "child's") }.value
      end
      assert_equal({eu: ["of eu"], us: ["of us", "child's"], asia: ["of asia"]}, orders)
    end
  end

  def test_what_is_refused
    in_loop do
      assert_raises(NeverBlock::ConfigurationError) { NB::Shards.map(@base, only: :mars) { flunk } }
      @base.prohibit_shard_swapping { assert_raises(ArgumentError) { NB::Shards.map(@base) { flunk } } }
      errors = NB::Shards.each(@base, role: :reading, partial: true) { @items.create!(name: "no") }
      assert_equal [ActiveRecord::ReadOnlyError], errors.values.map(&:class).uniq
      assert_equal({eu: [], us: [], asia: []}, orders)
    end
  end

  def test_losers_of_first_are_ended_in_the_database
    in_loop do
      won = NB::Shards.first(@base) do |shard|
        if shard == :us
          pass_until("the losers to run") { running(:eu) == 1 && running(:asia) == 1 }
          next "us"
        end
        @items.transaction { @items.create!(name: "lost") && @items.with_connection { |connection| connection.select_value("select sleep(60)") } }
      end
      assert_equal "us", won
      pass_until("the losers' statements to end") { running(:eu).zero? && running(:asia).zero? }
      assert_equal({eu: [], us: [], asia: []}, orders)
    end
  end

  private

  def configuration(name) = {adapter: "neverblock_mysql", connections: 3, checkout_timeout: 60, **target(name)}
end
