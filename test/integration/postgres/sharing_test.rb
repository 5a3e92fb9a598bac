# frozen_string_literal: true

require "test_helper"
require_relative "../../support/shared_statements"
require_relative "../../support/table_locks"
require_relative "../../support/virtual_time"

# Which statements share a connection, and which are sent together. What happens to a connection whose session has
# changed is in postgres/changed_sessions_test.rb.
class PostgresSharingTest < Minitest::Test
  include NeverBlockTest::SharedStatements
  include NeverBlockTest::TableLocks

  # Though it is known as fast: it may wait for a lock.
  slow "many fibers"
  def test_a_write_is_alone_on_its_connection
    with_database(connections: 2) do |database|
      in_loop do
        open_both(database)
        learn(database, INSERT)
        multiplexer(database).timings.record(fingerprint(database, INSERT), 0.0001) # durations of writes are not recorded
        deepest = watch_depth(database)
        writers = locked("sharing.items", "exclusive") do
          Array.new(8) { NB.spawn { database.exec(INSERT) } }.tap do
            pass_until("two of them, and a queue") { database.stats.values_at(:in_flight, :queued) == [2, 6] }
            pass_until("two that wait for the lock") { waiting == 2 }
          end
        end
        assert_equal [1], writers.map { |task| task.value.cmd_tuples }.uniq
        assert_equal [1], deepest.values.uniq
      end
    end
    assert_equal "9", ask("select count(*) from sharing.items")
  end

  def test_no_read_is_behind_a_write
    with_database(connections: 2) do |database|
      in_loop do
        open_both(database)
        learn(database, INSERT, "select 1 as n")
        locked("sharing.items", "exclusive") do
          NB.spawn { database.exec(INSERT) }
          pass_until("the writer") { waiting == 1 }
          assert_equal 20.times.map(&:to_s), NB.timeout(5) { NB.concurrently(20.times.to_a, limit: 20) { |n| one(database.exec("select #{n} as n")) } }
          assert_equal 1, waiting
        end
      end
    end
  end

  # The same eight: none waits for a connection.
  # Six of the readers wait forever, and would occupy all four connections.
  def test_no_write_is_behind_reads_that_are_known_to_be_slow
    sleep_long = "select pg_sleep(600)"
    with_database(connections: 4) do |database|
      in_loop do
        multiplexer(database).timings.record(fingerprint(database, sleep_long), 600.0)
        database.exec(INSERT)
        readers = Array.new(6) { NB.spawn { database.exec(sleep_long) } }
        pass_until("their place, or their wait") { database.stats.values_at(:in_flight, :queued).sum == 6 }
        3.times { assert_equal 1, database.exec(INSERT).cmd_tuples }
        assert_operator database.stats[:in_flight], :>=, 1
        readers.each(&:cancel)
      end
    end
  end

  def test_writes_share_where_all_does
    with_database(connections: 2, multiplex: :all) do |database|
      in_loop do
        open_both(database)
        learn(database, INSERT)
        eight_at_once(database, INSERT)
      end
    end
    assert_equal "9", ask("select count(*) from sharing.items")
  end

  # Its duration is unknown.
  def test_a_write_of_unknown_duration_is_alone_where_all_share
    with_database(connections: 2, multiplex: :all) do |database|
      in_loop do
        open_both(database)
        locked("sharing.items", "exclusive") do
          Array.new(4) { NB.spawn { database.exec(INSERT) } }
          pass_until("two of them, and a queue") { database.stats.values_at(:in_flight, :queued) == [2, 2] }
        end
      end
    end
  end

  # The SQL shows a function call, but not what state the function leaves.
  def test_a_write_that_calls_a_function_is_not_shared
    with_database(connections: 1, multiplex: :all) do |database|
      in_loop do
        database.exec("select 1")
        probe = "select pg_backend_pid() || ' ' || coalesce(nullif(current_setting('app.tenant', true), ''), 'none')"
        before = one(database.exec(probe))
        assert_match(/ none\z/, before)
        database.connect do |connection|
          connection.exec(INSERT)
          assert_nil connection.leased_for
          connection.exec(sql = "insert into sharing.items select 2 where sharing.keeps('seven') is not null")
          assert_equal sql, connection.leased_for
          assert_equal before.sub("none", "seven"), one(connection.exec(probe))
        end
        assert_equal before, one(database.exec(probe)), "the same connection, as new"
        assert_equal 1, logged.grep(/held until check-in.*sharing\.keeps/).size
      end
    end
  end

  def test_a_write_that_calls_a_function_that_is_named_is_shared
    sql = "insert into sharing.items select sharing.price(2)"
    with_database(connections: 2, multiplex: :all, shareable_functions: ["sharing.price"]) do |database|
      in_loop do
        open_both(database)
        learn(database, sql)
        database.connect { |connection| connection.exec(sql) && assert_nil(connection.leased_for) }
        eight_at_once(database, sql)
      end
    end
    assert_empty logged
  end

  [1, 2].each do |connections|
    define_method(:"test_what_is_asked_in_one_turn_is_sent_at_once_on_#{connections}") do
      skip "libpq before 17 sends each by itself" unless NeverBlock::Postgres::Wire::COALESCES
      with_database(connections:) do |database|
        in_loop do
          open_both(database) if connections == 2
          learn(database, "select 1 as n")
          pass_until("the statement to be known as fast") { database.exec("select 1 as n") && fast?(database, "select 1 as n") }
          flushes = count_flushes(database)
          tasks = in_one_turn(50.times) { |n| one(database.exec("select #{n} as n")) }
          assert_equal 50.times.map(&:to_s), tasks.map(&:value)
          assert_includes 1..(10 * connections), flushes.sum # not 50; a busy machine may split the turn's batch
        end
      end
    end
  end

  # Regression: an idle connection counted as slow if its last use was long ago, so all but one of the simultaneous
  # requests were queued.
  [1, 2].each do |connections|
    define_method(:"test_what_is_asked_at_once_after_a_rest_on_#{connections}") do
      NeverBlockTest::VirtualTime.during do |clock|
        with_database(connections:) do |database|
          in_loop do
            open_both(database) if connections == 2
            pass_until("how long it takes") { database.exec("select 1 as n") && fast?(database, "select 1 as n") }
            clock.advance(1) # longer than any fast statement takes
            gate = Thread::Queue.new
            tasks = Array.new(50) { |n| NB.spawn { gate.pop && one(database.exec("select #{n} as n")) } }
            pass_until("the tasks") { gate.num_waiting == 50 }
            tasks.size.times { gate << true }
            NB.pass
            assert_equal 0, database.stats[:queued]
            assert_equal 50.times.map(&:to_s), tasks.map(&:value)
          end
        end
      end
    end
  end

  # Queued statements go to the connection that is free first.
  def test_no_more_than_so_many_are_on_a_connection
    multiplexer = NeverBlock::Postgres::Multiplexer.new(-> { PG.connect(url) }, connections: 1, depth: 4, timeout: 60, log: logged.method(:<<))
    count = -> { one(multiplexer.run(NeverBlock::Postgres::Statement.new("select count(*) from sharing.items", session_defaults: NeverBlock::Postgres::SessionDefaults::EMPTY))) }
    in_loop do
      patient(multiplexer)
      count.call
      deepest = watch_depth(multiplexer)
      readers = locked("sharing.items", "access exclusive") do
        Array.new(20) { NB.spawn { count.call } }.tap do
          pass_until("four of them, and a queue") { multiplexer.stats.values_at(:in_flight, :queued) == [4, 16] }
          pass_until("one that waits for the lock") { waiting == 1 }
        end
      end
      assert_equal ["0"] * 20, readers.map(&:value)
      assert_equal [4], deepest.values
      assert_equal [0, 0], multiplexer.stats.values_at(:in_flight, :queued)
    end
  ensure
    multiplexer&.close
  end

  private

  def open_both(database)
    database.transaction { |connection| connection.exec("select 1") && database.exec("select 1") }
    assert_equal 2, physical(database).size
  end

  # @return [Hash{NeverBlock::Postgres::PipelinedConnection=>Integer}] the maximum number of statements on each, from
  #   now on
  def watch_depth(database)
    physical(database).to_h { |real| [real, 0] }.compare_by_identity.tap do |deepest|
      deepest.each_key do |real|
        real.define_singleton_method(:push) { |statement| super(statement).tap { deepest[self] = [deepest[self], depth].max } }
      end
    end
  end

  # @return [Array<Integer>] gets a 1 for each flush of a connection
  def count_flushes(database)
    [].tap do |flushes|
      physical(database).each { |real| real.pg.define_singleton_method(:sync_flush) { super().tap { flushes << 1 } } }
    end
  end

  def eight_at_once(database, sql)
    tasks = locked("sharing.items", "exclusive") do
      Array.new(8) { NB.spawn { database.exec(sql) } }.tap do
        pass_until("all of them") { database.stats.values_at(:connections, :in_flight, :queued) == [2, 8, 0] }
        pass_until("two that wait for the lock") { waiting == 2 }
      end
    end
    assert_equal [1], tasks.map { |task| task.value.cmd_tuples }.uniq
  end
end
