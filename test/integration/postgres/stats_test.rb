# frozen_string_literal: true

require "test_helper"
require_relative "../../support/database"

# A pool's statistics, under the conditions that they are for: Postgres#stats, and the messages made from it.
class PostgresStatsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Database

  ZERO = {
    connections: 0, busy: 0, idle: 0, opening: 0, held: 0, in_flight: 0, queued: 0, queued_oldest: 0.0, held_oldest: 0.0,
    states: {idle: 0, shared: 0, alone: 0, leased: 0, restoring: 0, opening: 0}, statements: {shared: 0, alone: 0, leased: 0},
    waits: {count: 0, seconds: 0.0, timeouts: 0, refused: 0}, retries: {unknown: 0, renamed: 0, moved: 0},
    displaced: 0, timed_out: 0, leaks: 0, audits: 0, restored: 0, opened: 0, lost: 0, holders: []
  }.freeze

  def test_one_that_is_new
    with_database(connections: 7) do |database|
      assert_equal({size: 7, **ZERO}, database.stats.slice(:size, *ZERO.keys))
      assert_equal({count: 0, shapes: []}, database.stats[:slow].slice(:count, :shapes))
      assert_match(/\A#<NeverBlock::Postgres connections 0, opening 0, idle 0, held 0, in_flight 0, queued 0, displaced 0>\z/, database.inspect)
    end
  end

  slow "it learns"
  def test_connections_by_state_and_what_holds_them
    with_database(connections: 4) do |database|
      in_loop do
        learn(database, "select 1")
        gate = Thread::Queue.new
        NB.spawn(name: "checkout") { database.transaction { |connection| connection.exec("select 7 as n") && gate.pop } }
        place = "#{__FILE__}:#{__LINE__ - 1}"
        pass_until("the transaction") { database.stats[:states][:leased] == 1 && database.stats[:holders].first[:rests] }
        sleeper = NB.spawn { database.exec("select pg_sleep(60)") }
        pass_until("the sleeper") { database.stats[:in_flight] == 1 }
        stats = database.stats
        assert_equal({leased: 1, alone: 1, restoring: 0, shared: 0, opening: 0}, stats[:states].except(:idle))
        assert_equal [2, 2, stats[:connections] - 2], stats.values_at(:busy, :held, :idle)
        lease, alone = stats[:holders]
        assert_equal({state: "leased", purpose: "a transaction that began with read (checkout)", statement: "select 7 as n", task: "checkout", spawned_at: place, at: place, ended: false}, lease.except(:age, :rests))
        assert_equal ["alone", "select pg_sleep(60)", nil], alone.values_at(:state, :statement, :rests)
        assert_operator lease[:age], :>=, lease[:rests]
        assert_equal lease[:age], stats[:held_oldest]
        gate << true
        sleeper.cancel
        pass_until("the end of both") { database.stats.values_at(:held, :busy) == [0, 0] }
        assert_empty database.stats[:holders]
      end
    end
  end

  slow "it waits for a pool in vain"
  def test_those_that_wait
    with_database(connections: 2, timeout: 2, max_waiting: 3) do |database|
      in_loop do
        hold(database) do
          waiting = Array.new(3) { NB.spawn { database.transaction { |connection| connection.exec("select 1") } } }
          pass_until("the queue") { database.stats[:queued] == 3 && database.stats[:queued_oldest] > 0.05 }
          assert_raises(NeverBlock::Postgres::BacklogFull) { database.transaction { |connection| connection.exec("select 1") } }
          errors = waiting.map { |task| outcome(task) }
          assert_equal [NeverBlock::Postgres::PoolTimeout], errors.map(&:class).uniq
          errors.each { |error| assert_match(/1 of 2 are held \(.* \(holder\), for \d.*, spawned at #{Regexp.escape(__FILE__)}:\d+, now at .*:\d+\)/, error.message) }
        end
        stats = database.stats
        assert_equal({count: 3, timeouts: 3, refused: 1}, stats[:waits].except(:seconds))
        assert_operator stats[:waits][:seconds], :>=, 5.99
        assert_equal [0, 0.0], stats.values_at(:queued, :queued_oldest)
      end
    end
  end

  slow "it learns"
  def test_statements_by_what_they_had
    with_database(connections: 3) do |database|
      in_loop do
        learn(database, "select 1")
        assert_difference(database, shared: 5) { 5.times { database.exec("select 1") } }
        ask("drop table if exists counted; create table counted (n int)")
        2.times { |n| database.exec("insert into counted values (#{n})") } # its triggers and the like are known by now
        assert_difference(database, alone: 2) { 2.times { database.exec("insert into counted values (1)") } }
        assert_difference(database, leased: 3) do # BEGIN is sent with the first
          database.transaction do |connection|
            connection.exec("select 1")
            connection.exec("select 1; select 2")
          end
        end
      end
    end
  ensure
    ask("drop table if exists counted")
  end

  slow "it has a statement sleep"
  # It waits at its first attempt alone.
  def test_retried_statements
    ask("drop table if exists waiting; create table waiting as select 60 as seconds")
    with_database(connections: 2) do |database|
      in_loop do
        asked = NB.spawn { database.exec("select pg_sleep(seconds) from waiting", retry: true) }
        pass_until("it is under way") { ask("select count(*) from pg_stat_activity where query like 'select pg_sleep(seconds)%' and wait_event = 'PgSleep'") == "1" }
        ask("delete from waiting")
        terminate
        asked.value
        assert_equal({unknown: 1, renamed: 0}, database.stats[:retries].except(:moved))
        assert_operator database.stats[:lost], :>=, 1
      end
    end
  end

  def test_statements_sent_to_another_connection
    with_database(connections: 2) do |database|
      in_loop do
        learn(database, "select 1")
        physical(database).each(&:probe_next)
        terminate
        pass_until("their end") { backends == 0 }
        assert_equal "1", one(database.exec("select 1"))
        assert_operator database.stats[:retries][:moved], :>=, 1
        assert_equal 0, database.stats[:retries][:unknown]
      end
    end
  end

  def test_names_that_mean_nothing_any_more
    ask("drop table if exists renamed; create table renamed as select 1 as n")
    with_database(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          connection.prepare("all", "select * from renamed")
          20.times { connection.exec_prepared("all") }
          ask("alter table renamed add column more int")
          assert_equal %w[n more], connection.exec_prepared("all").fields
        end
        assert_equal 1, database.stats[:retries][:renamed]
      end
    end
  ensure
    ask("drop table if exists renamed")
  end

  def test_leaks_and_audits
    with_database(connections: 2, shareable_functions: ["sly"], audit: true, audit_settings: ["app.tenant"]) do |database|
      in_loop do
        database.exec("create or replace function sly(what text) returns text language sql as $$ select set_config('app.tenant', what, false) $$")
        before = database.stats
        database.exec("select sly('acme')")
        after = database.stats
        assert_equal [1, 1], %i[leaks lost].map { |key| after[key] - before[key] }
        assert_operator after[:audits], :>, before[:audits]
      end
    end
  ensure
    ask("drop function if exists sly(text)")
  end

  def test_resets_are_counted
    with_database(connections: 2) do |database|
      in_loop do
        before = database.stats[:restored]
        database.connect { |connection| connection.exec("set statement_timeout to 1234") }
        pass_until("the cleaning") { database.stats[:restored] == before + 1 && database.stats[:held] == 0 }
      end
    end
  end

  slow "it has statements sleep"
  def test_slow_shapes
    with_database(connections: 3) do |database|
      in_loop do
        3.times { |n| database.exec("select pg_sleep(0.1), #{n}") }
        slow = database.stats[:slow]
        sleeping = slow[:shapes].find { |shape| shape[:statement] == "select pg_sleep ( ? ) , ?" } # on a busy machine others are slow too
        assert_operator slow[:count], :>=, 1
        assert_operator sleeping[:average], :>=, 0.1
        assert_operator slow[:threshold], :<, 0.1
      end
    end
  end

  # Under load: reading the statistics in another thread neither disturbs nor breaks the loop.
  slow "eight hundred statements"
  def test_it_may_be_asked_from_any_thread
    with_database(connections: 4) do |database|
      over = false
      asking = Thread.new { database.stats && NeverBlock.stats[:postgres] && Thread.pass until over }
      asking.report_on_exception = false
      in_loop do
        work = Array.new(40) do |n|
          NB.spawn { 20.times { |m| (m % 5 == 0) ? database.transaction { |connection| connection.exec("select #{n} as n#{m}") } : database.exec("select #{m} as m#{n}, $1::int", [n]) } }
        end
        work.each(&:value)
      end
      over = true
      assert asking.join(10), "it still asks"
      assert_operator database.stats[:statements].values.sum, :>=, 800
    end
  end

  # A lease that outlives the loop it was taken in, because the program keeps it.
  def test_a_holder_whose_loop_has_ended
    with_database(connections: 2) do |database|
      connection = database.connection
      in_loop { connection.exec("set statement_timeout to 1234") }
      holder = database.stats[:holders].first
      assert_equal ["leased", "set statement_timeout to 1234", true, nil], holder.values_at(:state, :statement, :ended, :spawned_at)
      connection.finish
      wait_until("its end") { database.stats[:holders].empty? }
    end
  end

  def test_a_forked_child_begins_anew
    with_database(connections: 2) do |database|
      in_loop { 2.times { database.exec("select 1") } }
      reader, writer = IO.pipe
      pid = fork do
        own = database.stats
        registered = NeverBlock.stats[:postgres].key?(database.name)
        in_loop { database.exec("select 1") }
        writer.write(Marshal.dump([own.slice(*ZERO.keys), registered, database.stats[:statements].values.sum]))
        writer.close
        exit!(0)
      end
      writer.close
      own, registered, answered = Marshal.load(reader.read)
      assert_equal 0, Process.wait2(pid).last.exitstatus
      assert_equal [ZERO, true], [own, registered]
      assert_operator answered, :>=, 1
      assert_operator database.stats[:statements].values.sum, :>=, 2
    end
  end

  def test_connections_for_what_needs_a_session_are_a_pool_of_their_own
    with_database(connections: 2, name: "pooled", pgbouncer: :transaction, session_url: url) do |database|
      assert_equal [0, 0], [database.stats[:sessions], NeverBlock.stats[:postgres].fetch("pooled (sessions)")[:connections]]
      assert_equal 2, NeverBlock.stats[:postgres].fetch("pooled (sessions)")[:size]
    end
  end

  private

  # Makes them known as fast.
  def learn(database, *texts)
    patient(database)
    texts.each { |sql| pass_until("#{sql} is known") { database.exec(sql) && difference(database) { database.exec(sql) }[:shared] == 1 } }
  end

  def difference(database)
    before = database.stats[:statements]
    yield
    database.stats[:statements].to_h { |kind, count| [kind, count - before[kind]] }
  end

  def assert_difference(database, **expected, &)
    assert_equal({shared: 0, alone: 0, leased: 0, **expected}, difference(database, &))
  end

  def hold(database)
    gate = Thread::Queue.new
    begun = Thread::Queue.new
    task = NB.spawn(name: "holder") { database.transaction { |connection| connection.exec("select 1") && (begun << true) && gate.pop } }
    begun.pop
    yield
  ensure
    gate << true
    task.value
  end
end
