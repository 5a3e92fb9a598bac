# frozen_string_literal: true

require "test_helper"
require_relative "../../support/table_locks"

# No statement is stuck behind one that waits for a lock, and no transaction waits forever for a statement that another
# fiber runs for it.
class PostgresReliefTest < Minitest::Test
  include NeverBlockTest::Database
  include NeverBlockTest::TableLocks

  LOCKED = "select n from relief.locked"
  FREE = "select n from relief.free"

  def setup
    super
    lockable_tables("relief")
  end

  # A deadlock that the server can't see: a transaction holds the lock that the first statement on a connection waits
  # for, and waits itself for the second one.
  def test_a_transaction_gets_its_child_fiber_s_read_from_behind_a_lock
    beside_a_lease(LOCKED, FREE) do |database|
      reader = nil
      read = holding_the_lock(database) do
        reader = NB.spawn { one(database.exec(LOCKED)) }
        child(database, FREE)
      end
      assert_equal ["2", "1"], [read, reader.value]
      assert_operator database.stats[:displaced], :>=, 1
    end
  end

  # The cancelled statement waits for the lock on the last connection, alone: the transaction's next reads have none.
  def test_a_transaction_gets_one_read_after_the_other
    beside_a_lease(LOCKED, FREE) do |database|
      reader = nil
      reads = holding_the_lock(database) do
        reader = NB.spawn { one(database.exec(LOCKED)) }
        pass_until("the reader's wait for the lock") { waiting == 1 }
        Array.new(4) { child(database, FREE).tap { pass_until("the reader's next wait") { waiting == 1 } } }
      end
      assert_equal [["2"] * 4, "1"], [reads, reader.value]
    end
  end

  # Sixty statements wait for the lock, in front of the read and behind it.
  slow "sixty that wait for a lock"
  def test_a_transaction_gets_its_read_from_among_sixty
    with_database(connections: 4) do |database|
      in_loop do
        learn(database, LOCKED, FREE)
        readers = nil
        read = holding_the_lock(database) do
          readers = Array.new(60) { NB.spawn { one(database.exec(LOCKED)) } }
          pass_until("a wait for the lock") { waiting > 0 }
          child(database, FREE)
        end
        assert_equal "2", read
        assert_equal ["1"] * 60, readers.map(&:value)
      end
    end
  end

  # A write occupies the last connection, and waits for the transaction's lock: it is undone, and applied once later.
  def test_a_write_makes_room_for_a_read_that_a_transaction_waits_for
    beside_a_lease(FREE) do |database|
      write = nil
      read = holding_the_lock(database) do
        write = NB.spawn { database.exec("with read as (select n from relief.locked) insert into relief.written select n from read").cmd_tuples }
        pass_until("the write's wait for the lock") { waiting == 1 }
        [child(database, FREE), child(database, "select 'never seen before'")]
      end
      assert_equal [["2", "never seen before"], 1], [read, write.value]
    end
    assert_equal "1", ask("select count(*) from relief.written")
  end

  # Its partial effect would stay; for an index built concurrently, an invalid index would block the next attempt.
  def test_statements_with_partial_effects_are_not_cancelled
    beside_a_lease(FREE, timeout: 0.5) do |database, other|
      vacuum = nil
      database.transaction do |connection|
        connection.exec("lock table relief.written in share update exclusive mode")
        vacuum = NB.spawn { database.exec("vacuum relief.written").cmd_status }
        pass_until("its wait for the lock") { waiting == 1 }
        assert_raises(NeverBlock::Postgres::PoolTimeout) { child(database, FREE) }
      end
      other << true
      assert_equal ["VACUUM", 0], [vacuum.value, database.stats[:displaced]]
    end
  end

  # A trigger or a view may call a function that acts outside of its transaction: that would happen twice.
  slow "its statements wait for three times as long as it takes to be cancelled for others"
  def test_statements_whose_functions_may_act_elsewhere_run_once
    server = NeverBlockTest::Database.server
    ask(<<~SQL)
      create extension if not exists dblink schema relief;
      create function relief.audit() returns int language plpgsql as $$ begin
        perform relief.dblink_exec('host=#{server.folder} port=#{server.port} user=postgres dbname=postgres', 'insert into relief.free values (0)');
        return (select n from relief.locked);
      end $$;
      create function relief.audited() returns trigger language plpgsql as $$ begin new.n = relief.audit(); return new; end $$;
      create trigger audited before insert on relief.written for each row execute function relief.audited();
      create view relief.audit as select relief.audit() as n;
    SQL
    ["insert into relief.written values (7) returning n", "select n from relief.audit"].each_with_index do |sql, before|
      beside_a_lease(FREE) do |database, other|
        statement = reader = nil
        holding_the_lock(database) do
          statement = NB.spawn { one(database.exec(sql)) }
          pass_until("its wait for the lock") { waiting == 1 }
          reader = NB.spawn { database.exec("select 'waits for a connection'") }
          pass_until("a while") { physical(database).any? { |real| real.head && real.running > 3 * NeverBlock::Postgres::Relief::CANCEL_AFTER } }
        end
        other << true
        assert_equal "1", statement.value
        reader.value
        assert_equal [0, (before + 1).to_s], [database.stats[:displaced], ask("select count(*) from relief.free where n = 0")], sql
      end
    end
  end

  # A write that shares.
  def test_a_statement_cancelled_for_others_takes_effect_once
    insert = "insert into relief.written select n from relief.locked"
    before = nil
    with_database(connections: 1, multiplex: :all) do |database|
      in_loop do
        learn(database, insert, FREE)
        before = ask("select count(*) from relief.written").to_i # on a busy machine, learning takes more than one run
        write, read = locked("relief.locked", "access exclusive") do
          write = NB.spawn { database.exec(insert).cmd_tuples }
          pass_until("the write's wait for the lock") { waiting == 1 }
          [write, one(database.exec(FREE))]
        end
        assert_equal ["2", 1], [read, write.value]
      end
    end
    assert_equal before + 1, ask("select count(*) from relief.written").to_i
  end

  # It would never finish if it were cancelled each time after the same duration.
  def test_a_statement_that_takes_long_ends_though_others_wait_for_it
    with_database(connections: 1) do |database|
      in_loop do
        learn(database, "select 1 from pg_sleep(0)", FREE)
        sleeper = NB.spawn { one(database.exec("select 1 from pg_sleep(0.7)")) }
        pass_until("the sleeper") { active == 1 }
        assert_equal "2", one(database.exec(FREE))
        assert_equal 1, active, "the sleeper, alone"
        assert_equal "1", sleeper.value
        assert_equal 1, database.stats[:displaced]
      end
    end
  end

  def test_a_displaced_statement_that_its_fiber_abandons_is_not_sent_again
    with_database(connections: 1) do |database|
      in_loop do
        learn(database, LOCKED, FREE)
        locked("relief.locked", "access exclusive") do
          reader = NB.spawn { database.exec(LOCKED) }
          behind = NB.spawn { one(database.exec(FREE)) }
          pass_until("the reader's wait for the lock") { waiting == 1 }
          reader.cancel
          assert_equal "2", behind.value
          assert_raises(NB::Cancelled) { reader.value }
          pass_until("the end of all") { database.stats.values_at(:held, :in_flight, :queued).all?(&:zero?) }
          assert_equal 0, waiting
        end
      end
    end
  end

  # Regression: the statement left behind the cancelled one was abandoned; nothing would have read its answer, and
  # others would have waited for the connection.
  def test_a_statement_left_behind_the_cancelled_one_is_given_up
    with_database(connections: 1) do |database|
      in_loop do
        learn(database, LOCKED, FREE)
        locked("relief.locked", "access exclusive") do
          first, second = Array.new(2) { NB.spawn { one(database.exec(LOCKED)) } }
          pass_until("both on the connection") { database.stats[:in_flight] == 2 && physical(database).first.inspect.include?(" 0 of them unsent") }
          second.cancel
          pass_until("a connection that takes nothing more") { physical(database).first.running > multiplexer(database).timings.threshold }
          assert_equal "2", child(database, FREE)
          assert_kind_of NB::Cancelled, outcome(second)
          first.cancel
          assert_kind_of NB::Cancelled, outcome(first)
          pass_until("the end of all: #{database.inspect}") { database.stats.values_at(:held, :in_flight, :queued).all?(&:zero?) }
        end
      end
    end
  end

  # A late cancel request must not hit another statement: the connection serves others only after the request has
  # arrived, and is reset if all fibers have left.
  {"cancelled" => false, "given_up" => true}.each do |how, leave|
    define_method("test_a_connection_waits_for_the_request_to_cancel_where_all_on_it_is_#{how}") do
      with_database(connections: 1) do |database|
        in_loop do
          learn(database, LOCKED, FREE)
          real = physical(database).first
          gate = Thread::Queue.new
          first = true
          real.pg.define_singleton_method(:cancel) { super().tap { gate.pop if first.tap { first = false } } }
          locked("relief.locked", "access exclusive") do
            reader = NB.spawn { one(database.exec(LOCKED)) }
            pass_until("a connection that takes nothing more") { real.running > multiplexer(database).timings.threshold }
            read = NB.spawn { one(database.exec(FREE)) }
            pass_until("the request") { gate.num_waiting == 1 }
            [reader, read].each(&:cancel) if leave
            pass_until("an idle connection that waits") { real.idle? && real.put_off }
            refute_equal 1, database.stats[:idle]
            gate << true
            leave ? pass_until("the end of all") { database.stats.values_at(:held, :idle) == [0, 1] } : assert_equal("2", read.value)
            reader.cancel
          end
        end
      end
    end
  end

  # Transactions wait for a lock of Ruby's, and its owner for a lease. Neither the server nor Ruby can see that.
  slow "a lock's owner waits until the transactions were silent for as long as a deadlock takes"
  def test_the_owner_of_a_lock_gets_the_lease_that_others_wait_for
    [Thread::Mutex.new, Monitor.new].each do |lock|
      with_database(connections: 3, timeout: 10) do |database|
        in_loop do
          go = Thread::Queue.new
          begun = ->(n, &work) { NB.spawn { database.transaction { |connection| connection.exec("select 1") && (work&.call(connection) || true) && n } } }
          holders = Array.new(2) { |n| begun.call(n) { |connection| go.pop && lock.synchronize { connection.exec("select 2") } } }
          pass_until("two leases") { database.stats[:held] == 2 }
          others = Array.new(3) { |n| begun.call(n) }
          owner = NB.spawn { lock.synchronize { one(database.transaction { |connection| connection.exec("select 3") }) } }
          pass_until("the owner's wait") { database.stats[:queued] == 4 }
          2.times { go << true }
          assert_equal ["3", [0, 1], [0, 1, 2]], [owner.value, holders.map(&:value), others.map(&:value)]
          assert_equal 0, database.stats[:waits][:timeouts]
        end
      end
    end
  end

  # A limit that the user has set isn't one of our cancel requests: the error is raised.
  def test_statement_timeout_is_told
    with_database(connections: 1) do |database|
      in_loop do
        learn(database, LOCKED)
        error = locked("relief.locked", "access exclusive") do
          assert_raises(PG::QueryCanceled) { database.transaction { |connection| connection.exec("set local statement_timeout to 50") && connection.exec(LOCKED) } }
        end
        assert_match(/statement timeout/, error.message)
        assert_equal 0, database.stats[:displaced]
      end
    end
  end

  # No statement waits for it.
  def test_a_statement_without_waiters_is_not_cancelled
    with_database(connections: 2) do |database|
      in_loop do
        learn(database, LOCKED, FREE)
        reader = locked("relief.locked", "access exclusive") do
          NB.spawn { one(database.exec(LOCKED)) }.tap do
            pass_until("the reader's wait for the lock") { waiting == 1 }
            pass_until("a while") { physical(database).any? { |real| real.running > 3 * NeverBlock::Postgres::Relief::CANCEL_AFTER } }
          end
        end
        assert_equal ["1", 0], [reader.value, database.stats[:displaced]]
      end
    end
  end

  # Their audit is repeated as well.
  def test_audited_statements_are_audited_where_they_run_again
    with_database(connections: 1, audit: true) do |database|
      in_loop do
        learn(database, LOCKED, FREE)
        reader, read = locked("relief.locked", "access exclusive") do
          reader = NB.spawn { one(database.exec(LOCKED)) }
          pass_until("the reader's wait for the lock") { waiting == 1 }
          [reader, one(database.exec(FREE))]
        end
        assert_equal ["2", "1"], [read, reader.value]
        assert_empty logged
      end
    end
  end

  # Another thread closed it a moment before: the task that serves all connections goes on.
  def test_a_connection_that_was_closed_meanwhile
    with_database(connections: 1) do |database|
      in_loop do
        database.exec("select 1")
        real = physical(database)[0].tap(&:close)
        assert_nil NeverBlock::Postgres::Cancellation.new(nil).call(real)
        refute real.asking
      end
    end
  end

  private

  # Beside a lease that lasts as long as the block, two connections are left. The statements are known to be fast.
  # @yieldparam database [NeverBlock::Postgres]
  # @yieldparam other [Thread::Queue] a push ends the lease before
  def beside_a_lease(*learnt, **options)
    with_database(connections: 3, **options) do |database|
      in_loop do
        learn(database, *learnt)
        other = leased(database)
        yield database, other
      ensure
        other&.push(true)
      end
    end
  end

  # @return [Thread::Queue] a push ends the other lease
  def leased(database)
    finish = Thread::Queue.new
    NB.spawn { database.transaction { |connection| connection.exec("select 1") && finish.pop } }
    pass_until("the other transaction") { database.stats[:held] == 1 }
    finish
  end

  def holding_the_lock(database)
    database.transaction do |connection|
      connection.exec("lock table relief.locked in access exclusive mode")
      yield
    end
  end

  # A new fiber runs the statement, and the caller waits.
  def child(database, sql) = NB.timeout(30) { NB.spawn { one(database.exec(sql)) }.value }
end
