# frozen_string_literal: true

# engines: one - rules of the client, whose waits postgres_pipeline_test.rb tests on each

require "test_helper"
require_relative "../support/table_locks"

# Which statements share a connection, what happens to a connection whose session has changed, and which statements are
# sent together.
class PostgresSharingTest < Minitest::Test
  include NeverBlockTest::Database
  include NeverBlockTest::TableLocks

  SCHEMA = <<~SQL
    drop schema if exists sharing cascade;
    create schema sharing;
    create table sharing.items (n int);
    create table sharing.flag as select false as shifts;
    create function sharing.keeps(what text) returns text language sql as $$ select set_config('app.tenant', what, false) $$;
    create function sharing.price(n int) returns int language plpgsql as $$ begin return n * 2; end $$;
    create function sharing.shift() returns int language plpgsql as
      $$ begin if (select shifts from sharing.flag) then perform set_config('TimeZone', 'Asia/Tokyo', false); end if; return 1; end $$;
    create view sharing.sly as select sharing.shift() as n;
    create function sharing.lock() returns trigger language plpgsql as $$ begin perform pg_advisory_lock(4714); return new; end $$;
    create procedure sharing.procedure() language sql as $$ select 1 $$;
    create table sharing.locking (n int);
    create trigger locks before insert on sharing.locking for each row execute function sharing.lock();
  SQL

  INSERT = "insert into sharing.items values (1)"

  # Tags of statements that leave session state, or begin a transaction.
  TELLING = {
    "SET work_mem TO '7MB'" => "SET", "RESET work_mem" => "RESET", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY" => "SET",
    "BEGIN" => "BEGIN", "START TRANSACTION" => "START TRANSACTION", "LISTEN sharing" => "LISTEN", "PREPARE sharing AS SELECT 1" => "PREPARE",
    "DECLARE sharing CURSOR WITH HOLD FOR SELECT 1" => "DECLARE CURSOR", "UNLISTEN *" => "UNLISTEN", "DEALLOCATE ALL" => "DEALLOCATE ALL",
    "DISCARD ALL" => "DISCARD ALL", "LOAD 'plpgsql'" => "LOAD", "DO $$ begin end $$" => "DO", "CALL sharing.procedure()" => "CALL"
  }.freeze

  def setup
    super
    ask(SCHEMA)
  end

  # Drops views and functions that would make other tests' statements of the same names unshareable.
  def teardown = (ask("drop schema if exists sharing cascade") unless skipped?)

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

  # While its duration was learnt, the function changed nothing.
  def test_results_behind_the_change_of_a_reported_setting_are_not_delivered
    with_database(connections: 1, shareable_functions: ["sharing.shift"]) do |database|
      in_loop do
        learn(database, leak = "select n from sharing.sly", read = "select 2 as behind")
        pid = physical(database).first.pid
        ask("update sharing.flag set shifts = true")
        send_together(database, 6)
        leaking, *behind = in_one_turn([leak, *[read] * 5]) { |sql| one(database.exec(sql)) }
        assert_equal "1", leaking.value
        assert_equal [NeverBlock::Postgres::OutcomeUnknown] * 5, behind.map { |task| outcome(task).class }
        ended(pid)
        assert_match(/\Aa shared statement has changed its session: TimeZone was "[^"]+" and is "Asia\/Tokyo"\. The connection is closed\./, logged.first)
        assert_includes logged.first, leak.inspect
        assert_equal 1, logged.size
        refute_equal "Asia/Tokyo", one(database.exec("show timezone"))
      end
    end
  end

  TELLING.each do |sql, tag|
    %i[read write].each do |kind|
      define_method(:"test_the_tag_of_#{sql[/\A\w+( SESSION)?/].downcase.tr(" ", "_")}_as_a_#{kind}") { closed_for(sql, tag, kind:) }
    end
  end

  # Would detect a classifier that takes a write for a read.
  def test_the_tag_of_a_write_that_was_taken_for_a_read = closed_for(INSERT, "INSERT 0 1", kind: :read)

  def test_tags_of_writes_close_nothing
    with_database(connections: 1, multiplex: :all) do |database|
      in_loop do
        database.exec("select 1")
        pid = physical(database).first.pid
        [
          INSERT, "update sharing.items set n = n + 1", "delete from sharing.items", "create table sharing.made (n int)", "create index on sharing.made (n)",
          "alter table sharing.made add s text", "comment on table sharing.made is 'made'", "truncate sharing.made", "analyze sharing.made",
          "create table sharing.copied as select 1 as n", "with gone as (delete from sharing.items returning n) select * from gone",
          "select n from sharing.items for update", "grant select on sharing.made to public", "drop table sharing.made", "refresh materialized view sharing.made",
          "merge into sharing.items i using (select 1 as n) s on i.n = s.n when not matched then insert values (s.n)"
        ].each do |sql|
          run_shared(database, sql, kind: :write)
        rescue PG::SyntaxError, PG::UndefinedTable
          nil # MERGE needs PostgreSQL 15, and the view doesn't exist
        end
        assert_equal [pid], physical(database).map(&:pid)
        assert_empty logged
      end
    end
  end

  # The library can't know what the user did with it.
  def test_a_connection_that_user_s_code_had_in_its_hands_is_closed
    with_database(connections: 1) do |database|
      in_loop do
        [
          ->(connection) { connection.socket_io },
          ->(connection) { connection.send_query("select 1") },
          ->(connection) { connection.send_query("select 1") && connection.get_last_result },
          ->(connection) { connection.transaction { connection.socket_io } }
        ].each do |touch|
          database.exec("select 1")
          pid = physical(database).first.pid
          database.connect do |connection|
            touch.call(connection)
            assert_equal pid, physical(database).first.pid
            assert_equal "2", one(connection.exec("select 2"))
            assert_equal pid, physical(database).first.pid, "it has it until check-in"
          end
          ended(pid)
          assert_equal "3", one(database.exec("select 3"))
          refute_equal pid, physical(database).first.pid
        end
      end
    end
  end

  # It is reset, which costs less.
  def test_a_connection_that_was_only_leased_is_kept
    with_database(connections: 1) do |database|
      in_loop do
        database.exec("select 1")
        pid = physical(database).first.pid
        [
          ->(connection) { connection.exec("SET statement_timeout TO 12345") },
          ->(connection) { connection.transaction { connection.exec("select 1") } },
          ->(connection) { connection.exec("create temporary table mine (n int)") },
          ->(connection) { connection.exec("select sharing.keeps('seven')") },
          ->(connection) { connection.copy_data("copy sharing.items to stdout") { nil while connection.get_copy_data } }
        ].each do |lease|
          database.connect { |connection| lease.call(connection) }
          assert_equal "0", one(database.exec("show statement_timeout"))
          assert_equal [pid], physical(database).map(&:pid)
        end
      end
    end
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
      with_database(connections:) do |database|
        in_loop do
          open_both(database) if connections == 2
          pass_until("how long it takes") { database.exec("select 1 as n") && fast?(database, "select 1 as n") }
          sleep 3 * multiplexer(database).timings.threshold # longer than any fast statement takes
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

  # A rollback keeps session locks. The next statement in the queue must not be blamed for them.
  def test_the_audit_finds_what_a_rolled_back_transaction_has_left
    with_database(connections: 1, audit: true, shareable_functions: ["sharing.lock"]) do |database|
      in_loop do
        learn(database, read = "select 2 as after")
        pid = physical(database).first.pid
        readers = nil
        error = assert_raises(RuntimeError) do
          database.transaction do |connection|
            connection.exec("insert into sharing.locking values (1)")
            assert_equal 1, session_locks
            readers = Array.new(3) { NB.spawn { one(database.exec(read)) } }
            pass_until("a queue") { database.stats[:queued] == 3 }
            raise "no"
          end
        end
        assert_equal "no", error.message
        assert_equal ["2"] * 3, readers.map { |task| outcome(task) }
        ended(pid)
        assert_equal 0, session_locks
        assert_match(/session state was left on a shared connection, which is closed: advisory lock \S*4714: nil, then "ExclusiveLock"/, logged.first)
        refute_includes logged.first, read
        assert_equal 1, logged.size
      end
    end
  end

  # It isn't closed either if nothing was left.
  def test_a_transaction_that_was_rolled_back_leaves_its_connection_in_place
    with_database(connections: 1, audit: true) do |database|
      in_loop do
        database.exec("select 1")
        pid = physical(database).first.pid
        assert_raises(RuntimeError) { database.transaction { |connection| connection.exec(INSERT) && raise("no") } }
        assert_equal "0", one(database.exec("select count(*) from sharing.items"))
        assert_equal [pid], physical(database).map(&:pid)
        assert_empty logged
      end
    end
  end

  private

  # Makes them known as fast, for statements whose duration is learnt.
  def learn(database, *texts)
    patient(database)
    texts.each { |sql| database.exec(sql) }
  end

  # Begins a task for each value: so many new tasks would take several turns.
  # @return [Array<NeverBlock::Task>] that are running the block with their value
  def in_one_turn(values)
    gate = Thread::Queue.new
    tasks = values.map { |value| NB.spawn { gate.pop && yield(value) } }
    pass_until("the tasks") { gate.num_waiting == tasks.size }
    tasks.size.times { gate << true }
    tasks
  end

  # The only connection sends nothing before it has so many statements, however many turns of the loop that takes.
  def send_together(database, count)
    complete = false
    physical(database).first.define_singleton_method(:flush) do
      NB.pass until complete ||= depth == count
      super()
    end
  end

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

  def session_locks = ask("select count(*) from pg_locks where locktype = 'advisory' and objid = 4714").to_i

  def ended(pid) = pass_until("the end of #{pid}") { ask("select count(*) from pg_stat_activity where pid = #{pid}") == "0" }

  # Runs it as if it had been classified as shareable.
  def run_shared(database, sql, kind:)
    multiplexer(database).run(NeverBlock::Postgres::Statement.new(sql, session_defaults: NeverBlock::Postgres::SessionDefaults::EMPTY, kind:))
  end

  def closed_for(sql, tag, kind:)
    with_database(connections: 1) do |database|
      in_loop do
        database.exec("select 1")
        pid = physical(database).first.pid
        assert_equal tag, run_shared(database, sql, kind:).cmd_status
        assert_equal "4MB", one(database.exec("show work_mem"))
        refute_equal pid, physical(database).first.pid
        ended(pid)
        assert_equal 1, logged.size
        assert_includes logged.first, "#{sql.inspect} answered #{tag}. The connection is closed"
      end
    end
  end
end
