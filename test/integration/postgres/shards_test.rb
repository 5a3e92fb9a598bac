# frozen_string_literal: true

require "test_helper"
require_relative "../../support/shard_databases"
require_relative "../../support/delay_proxy"

# NeverBlock::Shards over pools of three databases, one that is dead, and one that is silent.
class PostgresShardsTest < Minitest::Test
  include NeverBlockTest::ShardDatabases

  DEADLINE = 3 # seconds, in which a slow machine answers too

  def test_each_database_is_asked
    in_loop do
      assert_equal({eu: "nb_eu", us: "nb_us", asia: "nb_asia"}, NB::Shards.map(pools) { |pool| one(pool.exec("select current_database()")) })
    end
  end

  def test_outside_of_a_loop
    pools = self.pools
    assert_equal({eu: "nb_eu", us: "nb_us", asia: "nb_asia"}, NB::Shards.map(pools) { |pool| one(pool.exec("select current_database()")) })
    assert_equal "nb_us", NB::Shards.first(pools) { |pool| pool.exec("select current_database()").getvalue(0, 0).then { |name| name if name == "nb_us" } }
  end

  def test_a_dead_one_costs_one_error
    in_loop do
      all = pools(:eu, :dead, :us)
      values = NB::Shards.map(all, partial: true) { |pool| one(pool.exec("select 1")) }
      assert_equal({eu: "1", us: "1"}, values)
      assert_equal [:dead], values.errors.keys
      assert_kind_of PG::ConnectionBad, values.errors[:dead]
      error = assert_raises(NB::Shards::Incomplete) { NB::Shards.map(all) { |pool| one(pool.exec("select 1")) } }
      assert_match(/\AShards\.map: 1 of 3 shards failed: :dead: .*refused.* \(PG::ConnectionBad\)\./, error.message)
    end
  end

  slow "it waits for a deadline"
  def test_a_silent_one_costs_one_deadline
    in_loop do
      started = now
      values = hush { NB::Shards.map(pools(:eu, :silent, :us, :dead), timeout: DEADLINE, partial: true) { |pool| one(pool.exec("select 1")) } }
      assert_equal({eu: "1", us: "1"}, values)
      assert_equal({dead: PG::ConnectionBad, silent: NeverBlock::TimeoutError}, values.errors.transform_values(&:class).sort.to_h)
      assert_operator now - started, :<, DEADLINE + 10
    end
  end

  slow "it waits for a deadline"
  def test_a_silent_one_keeps_no_loop_of_the_call_s_own
    started = now
    errors = NB::Shards.each(pools(:eu, :silent), timeout: DEADLINE, partial: true) { |pool| pool.exec("select 1") }
    assert_equal [:silent], errors.keys
    assert_operator now - started, :<, DEADLINE + 10
  end

  slow "it waits for a deadline"
  def test_a_network_that_falls_silent_costs_one_deadline
    reason = NeverBlockTest::DelayProxy.missing and skip reason
    NeverBlockTest::DelayProxy.open(to: NeverBlockTest::Database.server.socket) do |proxy|
      in_loop do
        all = {**pools(:eu), us: pool("postgresql://postgres@127.0.0.1:#{proxy.port}/nb_us?application_name=#{application}")}
        ask = proc { |pool| one(pool.exec("select 1")) }
        assert_equal({eu: "1", us: "1"}, NB::Shards.map(all, &ask))
        proxy.silence
        [ask, proc { |pool| pool.exec("insert into orders (name) values ('x')") && "1" }, proc { |pool| pool.transaction { |connection| one(connection.exec("select 1")) } }].each do |work|
          on_shard(:eu, "delete from orders")
          started = now
          values = NB::Shards.map(all, timeout: DEADLINE, partial: true, &work)
          assert_equal({eu: "1"}, values)
          assert_kind_of NeverBlock::TimeoutError, values.errors[:us]
          assert_operator now - started, :<, DEADLINE + 10
        end
        on_shard(:eu, "delete from orders")
        started = now
        assert_equal "1", NB::Shards.first(all, &ask)
        assert_operator now - started, :<, DEADLINE + 10
      ensure
        proxy.resume
      end
    end
  end

  def test_losers_of_first_are_cancelled_in_the_database
    in_loop do
      value = NB::Shards.first(pools) do |pool, name|
        case name
        when :eu then pool.exec("select pg_sleep(60)")
        when :asia then pool.transaction { |connection| connection.exec("insert into orders (name) values ('lost')") && connection.exec("select pg_sleep(60)") }
        else
          pass_until("the losers to run") { running(:eu) == 1 && running(:asia) == 1 }
          "won"
        end
      end
      assert_equal "won", value
      pass_until("the losers' statements to end") { running(:eu).zero? && running(:asia).zero? }
      assert_equal({eu: [], us: [], asia: []}, orders)
    end
  end

  # The loop that the call has started does not end before, though a request to cancel takes some round trips.
  slow "it is on a slow network"
  def test_losers_are_cancelled_in_the_database_outside_of_a_loop_too
    reason = NeverBlockTest::DelayProxy.missing and skip reason
    NeverBlockTest::DelayProxy.open(to: NeverBlockTest::Database.server.socket, delay: 0.1) do |proxy|
      all = {**pools(:us), eu: pool("postgresql://postgres@127.0.0.1:#{proxy.port}/nb_eu?application_name=#{application}")}
      value = NB::Shards.first(all) do |pool, name|
        next pool.exec("select pg_sleep(60)") if name == :eu
        pass_until("the loser to run") { running(:eu) == 1 && on_shard(:eu, "select count(*) from pg_stat_activity where query like 'select pg_sleep%' and state = 'active'") == ["1"] }
        "won"
      end
      assert_equal ["won", 0], [value, running(:eu)]
    end
  end

  slow "it waits for a deadline"
  def test_what_a_deadline_ends_is_cancelled_in_the_database
    in_loop do
      values = NB::Shards.map(pools, timeout: DEADLINE, partial: true) do |pool, name|
        next name if name == :us
        pool.exec("insert into orders (name) select 'late' from pg_sleep(60)")
      end
      assert_equal [{us: :us}, %i[eu asia]], [values, values.errors.keys]
      pass_until("the statements to end") { running(:eu).zero? && running(:asia).zero? }
      assert_equal({eu: [], us: [], asia: []}, orders)
    end
  end

  def test_a_write_is_made_once_and_on_its_own_shard
    on_shard(:us, "insert into orders (name) values ('us')")
    in_loop do
      errors = NB::Shards.each(pools(:eu, :us, :asia, :dead), partial: true) do |pool, name|
        pool.exec("insert into orders (name) values ($1)", [name])
      end
      assert_equal({dead: PG::ConnectionBad, us: PG::UniqueViolation}, errors.transform_values(&:class).sort.to_h)
      assert_equal({eu: ["eu"], us: ["us"], asia: ["asia"]}, orders)
    end
  end
end
