# frozen_string_literal: true

# slow: it waits for limits

require "test_helper"
require "support/virtual_time"
require_relative "../../support/table_locks"

# A statement that runs longer than `query_timeout` is cancelled on the server, without effects on others.
class PostgresQueryTimeoutTest < Minitest::Test
  include NeverBlockTest::Database
  include NeverBlockTest::TableLocks

  LIMIT = 0.5
  GRACE = 10 # for the server to confirm a cancel

  # For states that psql must observe before the limit, on a busy machine.
  LONG = 3
  SLEEP = "select pg_sleep(30)"
  LOCKED = "select n from late.locked"
  FREE = "select n from late.free"

  def setup
    super
    lockable_tables("late")
  end

  def teardown
    ask("drop schema if exists late cascade") if NeverBlockTest::PostgresServer.missing.nil?
    super
  end

  def test_a_statement_alone
    limited do |database|
      in_loop do
        late(SLEEP) { database.exec(SLEEP) }
        assert_equal "1", one(database.exec("select 1"))
        assert_equal 1, database.stats[:timed_out]
      end
      nothing_runs
    end
  end

  # The statements behind it get their rows, without a second connection.
  def test_a_statement_that_shares
    limited(connections: 1, limit: LONG) do |database|
      in_loop do
        learn(database, LOCKED, FREE)
        late_in_front_of_twenty(database)
        assert_equal "1", one(database.exec(LOCKED))
      end
    end
  end

  # The same if they have not been displaced before.
  def test_a_statement_that_is_late_while_it_shares
    limited(connections: 1, limit: LONG) do |database|
      in_loop do
        learn(database, LOCKED, FREE)
        patient(database) # no statement is cancelled in favour of others
        late_in_front_of_twenty(database)
      end
    end
  end

  # The statement ends just before the cancel request arrives, and returns its row. The one behind it is cancelled
  # instead, and sent again.
  def test_a_request_that_meets_with_the_one_behind
    limited(connections: 1, limit: LONG) do |database|
      in_loop do
        ask("create table late.second as select 3 as n")
        learn(database, LOCKED, second = "select n from late.second")
        patient(database) # no statement is cancelled in favour of others
        first, behind = Array.new(2) { PG.connect(url.sub("nb_", "control_")) }
        first.exec("begin; lock table late.locked")
        behind.exec("begin; lock table late.second")
        before_the_request(database) do
          first.exec("rollback")
          pass_until("the wait of the one behind") { ask("select count(*) from pg_locks where not granted and relation = 'late.second'::regclass") == "1" }
        end
        tasks = [LOCKED, second].map { |sql| NB.spawn { one(database.exec(sql)) } }
        pass_until("the other cancellation") { database.stats[:displaced] == 1 }
        behind.exec("rollback")
        assert_equal %w[1 3], tasks.map(&:value)
      ensure
        [first, behind].each { |connection| connection&.close }
      end
    end
  end

  # Each behind others that are late too.
  def test_many_that_share
    limited(connections: 2) do |database|
      in_loop do
        learn(database, LOCKED, FREE)
        locked("late.locked", "access exclusive") do
          slow = Array.new(8) { NB.spawn { database.exec(LOCKED) } }
          free = Array.new(60) { NB.spawn { one(database.exec(FREE)) } }
          assert_equal ["2"] * 60, free.map(&:value)
          slow.each { |task| assert_raises(NeverBlock::Postgres::QueryTimeout) { task.value } }
        end
      end
    end
  end

  def test_a_write_has_not_taken_effect
    limited do |database|
      in_loop do
        write = "insert into late.written select 1 from pg_sleep(30)"
        error = late(write) { database.exec(write) }
        assert_match(/cancelled it: it has not taken effect/, error.message)
      end
    end
    assert_equal "0", ask("select count(*) from late.written")
  end

  # Near the limit, a cancel request may cross the answer, or hit the next statement. Each statement still gets its own
  # answer or a timeout, and what is reported of each write is true.
  def test_outcomes_near_the_limit
    written = Queue.new
    gone = Queue.new
    limit = 0.1
    told = nil
    with_database(connections: 3, timeout: 60, query_timeout: limit) do |database|
      in_loop do
        8.times { database.exec("select $1::text", [1]) }
        NB.concurrently(1..24) do |n|
          10.times do |m|
            id = n * 1_000 + m
            pause = (n % 4 == 0) ? 0 : limit * (0.7 + 0.6 * rand) # on a busy machine, those near the limit are all late
            case m % 5
            when 0 then database.exec("insert into late.written select $1::int from pg_sleep($2::float)", [id, pause])
            when 1 then database.transaction { |connection| connection.exec("insert into late.written select $1::int from pg_sleep($2::float)", [id, pause]) }
            else assert_equal id.to_s, one(database.exec("select $1::text", [id]))
            end
            written << id if m % 5 < 2
          rescue NeverBlock::Postgres::QueryTimeout
            gone << id
          end
        end
      end
      told = database.stats[:timed_out]
    end
    said = Array.new(written.size) { written.pop }
    assert_equal said.sort, ask("select n from late.written order by n").split.map(&:to_i)
    assert_operator gone.size, :>, 0
    assert_equal gone.size, told
    assert_operator said.size, :>, 0
    assert_empty logged
  end

  # It may take effect in part, and the message says so.
  def test_a_statement_that_is_undone_in_part
    limited do |database|
      in_loop do
        halves = "do $$ begin insert into late.written values (1); commit; perform pg_sleep(30); end $$"
        error = late(halves) { database.exec(halves) }
        assert_match(/the changes that it had committed before stay/, error.message)
      end
    end
    assert_equal "1", ask("select count(*) from late.written")
  end

  def test_in_a_transaction
    limited do |database|
      in_loop do
        error = assert_raises(NeverBlock::Postgres::QueryTimeout) do
          database.transaction do |connection|
            connection.exec("insert into late.written values (1)")
            connection.exec(SLEEP)
          end
        end
        assert_kind_of PG::QueryCanceled, error
        assert_equal "57014", error.result.error_field(PG::PG_DIAG_SQLSTATE)
        database.transaction { |connection| connection.exec("insert into late.written values (2)") }
      end
    end
    assert_equal "2", ask("select string_agg(n::text, ',') from late.written")
  end

  # The transaction goes on from the savepoint: the cancel request hits none of its statements.
  def test_a_savepoint_is_gone_back_to
    limited do |database|
      in_loop do
        database.transaction do |connection|
          10.times do |n|
            connection.exec("savepoint before")
            late(SLEEP) { connection.exec(SLEEP) } if n % 5 == 0
            connection.exec("rollback to before")
            connection.exec("insert into late.written values (#{n})")
          end
        end
      end
    end
    assert_equal "10", ask("select count(*) from late.written")
  end

  # The transaction takes longer than the limit, none of its statements does.
  def test_a_transaction_has_no_limit
    limited do |database|
      in_loop do
        database.transaction do |connection|
          5.times { connection.exec("select pg_sleep(#{LIMIT * 0.3})") }
        end
      end
    end
  end

  def test_several_statements_in_one_text
    limited do |database|
      texts = "insert into late.written values (1); #{SLEEP}"
      in_loop { late(texts) { database.connect { |connection| connection.exec(texts) } } }
      late(texts) { database.connect { |connection| connection.exec(texts) } }
      in_loop { database.connect { |connection| assert_equal "2", one(connection.exec("select 1; select 2")) } }
      nothing_runs
    end
    assert_equal "0", ask("select count(*) from late.written")
  end

  def test_outside_of_a_loop
    limited do |database|
      late(SLEEP) { database.exec(SLEEP) }
      thread = Thread.new { late(SLEEP) { database.exec(SLEEP) } }
      assert thread.value
      assert_equal "1", one(database.exec("select 1"))
      nothing_runs
    end
  end

  def test_prepared_statements_go_on
    limited do |database|
      in_loop do
        database.connect do |connection|
          connection.prepare("sleep", "select pg_sleep($1)")
          late("select pg_sleep($1)") { connection.exec_prepared("sleep", [30]) }
          assert_equal "", one(connection.exec_prepared("sleep", [0]))
        end
      end
    end
  end

  # A queued statement doesn't run.
  def test_a_wait_for_a_connection_does_not_count
    limited(connections: 2) do |database|
      in_loop do
        held = Array.new(2) { NB.spawn { database.without_multiplexing { |connection| 6.times { connection.exec("select pg_sleep(#{LIMIT * 0.3})") } } } }
        assert_equal "1", one(database.exec("insert into late.written values (1) returning n"))
        held.each(&:value)
      end
    end
  end

  # The same with an audit behind each statement.
  def test_with_audits
    limited(audit: true) do |database|
      in_loop do
        late(SLEEP) { database.exec(SLEEP) }
        assert_equal "1", one(database.exec("select 1"))
      end
      assert_empty logged
    end
  end

  # The server can't be asked for the outcome either: the error says that it is unknown.
  def test_a_server_that_does_not_answer
    skip "processes are stopped by signals" unless Process.respond_to?(:kill)
    [true, false].each do |loop|
      limited do |database|
        error = frozen(database, loop:) { |write| database.exec(write) }
        assert_kind_of NeverBlock::Postgres::UnconfirmedTimeout, error
        assert_kind_of NeverBlock::Postgres::OutcomeUnknown, error
        assert_includes error.message, "query_timeout: #{LIMIT} s: insert into late"
        assert_match(/whether it was executed is unknown\)\n\z/, error.message)
      end
    end
  end

  def test_a_vouched_statement_is_not_sent_again
    limited do |database|
      in_loop { late(SLEEP) { database.exec(SLEEP, nil, retry: true) } }
      error = frozen(database) { |write| database.exec(write, nil, retry: true) }
      assert_kind_of NeverBlock::Postgres::UnconfirmedTimeout, error
    end
    assert_operator ask("select count(*) from late.written").to_i, :<=, 1
  end

  # Queries of the catalogue have a limit of their own: if they were cut off, nothing could be shared.
  def test_questions_of_ours_are_not_limited
    with_database(query_timeout: 0.0001) do |database|
      in_loop do
        3.times { database.exec("select 1") rescue NeverBlock::Postgres::QueryTimeout } # standard:disable Style/RescueModifier
        refute multiplexer(database).catalogue.wanted?
      end
    end
  end

  def test_values
    [-1, "5", Float::NAN].each { |value| assert_raises(ArgumentError) { NeverBlock::Postgres.new(url, query_timeout: value) } }
    [nil, 0, Float::INFINITY].each do |value|
      with_database(query_timeout: value) { |database| assert_nil multiplexer(database).overtime }
    end
  end

  private

  def limited(connections: 3, limit: LIMIT, **options, &) = with_database(connections:, query_timeout: limit, **options, &)

  # @return [NeverBlock::Postgres::QueryTimeout] checked to name the limit and the statement
  def late(sql, limit = LIMIT)
    began = now
    error = assert_raises(NeverBlock::Postgres::QueryTimeout) { yield }
    assert_kind_of NeverBlock::Error, error
    assert_includes error.message, "query_timeout: #{limit} s: #{sql}"
    assert_operator now - began, :<, 25, "it was not waited for"
    error
  end

  # A statement waits for a lock until its limit. Twenty behind it get their rows meanwhile.
  def late_in_front_of_twenty(database)
    locked("late.locked", "access exclusive") do
      slow = NB.spawn { database.exec(LOCKED) }
      pass_until("its wait for the lock") { waiting == 1 }
      behind = Array.new(20) { NB.spawn { one(database.exec(FREE)) } }
      assert_equal ["2"] * 20, behind.map(&:value)
      late(LOCKED, LONG) { slow.value }
    end
  end

  def nothing_runs
    pass_until("the end of what ran") { active == 0 }
  end

  # Runs the block before the first cancel request.
  def before_the_request(database, &before)
    physical(database).first.pg.define_singleton_method(:cancel) do
      before, first = nil, before
      first&.call
      super()
    end
  end

  # Stops the server's process during a write, as if its machine were gone, until the client gives up.
  # @yieldparam write [String] to be executed
  # @return [Exception]
  def frozen(database, loop: true)
    in_loop { database.exec("select 1") }
    pids = physical(database).map(&:pid)
    pids.each { |pid| Process.kill(:STOP, pid) }
    write = -> { assert_raises(StandardError) { yield "insert into late.written values (1)" } }
    NeverBlockTest::VirtualTime.during do |clock|
      loop ? in_loop { NB.spawn(&write).tap { 2.times { clock.advance(LIMIT + GRACE) } }.value } : in_thread(clock, &write)
    end
  ensure
    pids&.each { |pid| Process.kill(:CONT, pid) }
  end

  def in_thread(clock, &write)
    thread = Thread.new(&write)
    pass_until("its end") { clock.advance(LIMIT) && thread.join(0.1) }
    thread.value
  end
end
