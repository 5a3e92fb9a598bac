# frozen_string_literal: true

require "test_helper"
require_relative "../../support/database"
require_relative "../../support/virtual_time"

# Events between two steps of an operation: another fiber on the same connection, the connection's end, an exception, a
# wake.
class PostgresBetweenTest < Minitest::Test
  include NeverBlockTest::Database

  def teardown
    ask("drop table if exists between") unless skipped?
  end

  # Regression: each fiber took a connection of its own, and one of them was held for good.
  def test_fibers_of_one_transaction_that_wait_for_its_connection
    table
    with_database(connections: 3, timeout: 5) do |database|
      in_loop do
        released = false
        holders = Array.new(2) { NB.spawn { database.transaction { |c| c.exec("select 1") && pass_until("the release") { released } } } }
        pass_until("two leases") { database.stats[:held] == 2 }
        together = NB.spawn do
          database.transaction { |c| NB.concurrently(1..4, limit: 4) { |n| c.exec("insert into between values (#{n})") } }
        end
        pass_until("its place in the queue") { database.stats[:queued] > 0 }
        released = true
        holders.each(&:value)
        together.value
        pass_until("the end of all leases") { database.stats[:held] == 0 }
      end
      assert_equal "4", count
    end
  end

  # BEGIN is sent late, and once: a second one with an isolation level would fail.
  def test_fibers_that_begin_a_transaction_together
    table
    with_database(connections: 3) do |database|
      in_loop do
        database.connect do |connection|
          connection.exec("begin isolation level serializable")
          NB.concurrently(1..4, limit: 4) { |n| connection.exec("insert into between values (#{n})") }
          assert_equal "serializable", one(connection.exec("show transaction_isolation"))
          connection.exec("commit")
        end
      end
      assert_equal "4", count
    end
  end

  # Another fiber's COMMIT or ROLLBACK is queued behind it.
  slow "it starts another database"
  def test_a_transaction_that_is_ended_while_its_first_statement_waits
    table
    with_database(connections: 2) do |database|
      in_loop do
        %w[COMMIT ROLLBACK].each do |ending|
          waiting_for_a_connection(database) do |release|
            connection = database.connection
            connection.exec("BEGIN")
            first = NB.spawn { connection.exec("insert into between values (1)") }
            pass_until("its place in the queue") { database.stats[:queued] == 1 }
            last = NB.spawn { connection.exec(ending).cmd_status }
            release.call
            first.value
            assert_equal ending, last.value
            connection.finish
          end
          assert_equal "1", count, ending
        end
      end
    end
  end

  # Regression: the statement ran outside of its transaction, on a closed connection.
  def test_a_connection_that_is_closed_while_its_first_statement_waits
    table
    with_database(connections: 2) do |database|
      in_loop do
        %i[finish check_in reset].each do |ending|
          waiting_for_a_connection(database) do |release|
            connection = database.connection
            connection.exec("BEGIN")
            first = NB.spawn { connection.exec("insert into between values (1)") }
            pass_until("its place in the queue") { database.stats[:queued] == 1 }
            connection.public_send(ending)
            release.call
            assert_kind_of PG::ConnectionBad, outcome(first), ending
            connection.finish unless connection.finished?
          end
        end
        pass_until("the end of all leases") { database.stats[:held] == 0 }
      end
      assert_equal "0", count
    end
  end

  # Regression: an encoding that a holder set on the PG::Connection outlived DISCARD ALL, so other fibers' rows came in
  # it.
  def test_an_encoding_ends_with_its_holder
    with_database(connections: 1) do |database|
      in_loop do
        {with_a_lease: "set statement_timeout to 1000", without: "select 1"}.each do |way, before|
          database.connect do |connection|
            connection.exec(before)
            connection.set_client_encoding("LATIN1")
            assert_equal Encoding::ISO_8859_1, one(connection.exec("select chr(233)")).encoding, way
          end
          text = one(database.exec("select chr(233)"))
          assert_equal [Encoding::UTF_8, "é"], [text.encoding, text], way
          assert_equal "é", one(database.exec("select $1::text", ["é"])), way
        end
        connection = database.connection
        connection.set_client_encoding("LATIN1")
        connection.check_in
        assert_equal "UTF8", one(connection.exec("show client_encoding"))
        connection.finish
      end
    end
  end

  # The answer comes from the caller's own connection, or from an equal one, never from one with other settings.
  def test_settings_of_other_leases
    with_database(connections: 2) do |database|
      in_loop do
        mine = database.connection
        zone, text = mine.parameter_status("TimeZone"), mine.escape_string('a\b')
        database.connect do |other|
          other.exec("set time zone 'Asia/Tokyo'")
          other.exec("set standard_conforming_strings to off")
          assert_equal [zone, text], [mine.parameter_status("TimeZone"), mine.escape_string('a\b')]
        end
        mine.finish
      end
    end
  end

  # Regression: the fiber waited until its timeout, since the wake arrived when its time to look again was already up.
  slow "it starts another database"
  def test_a_place_that_comes_when_it_is_time_to_look_again
    NeverBlockTest::VirtualTime.during do |clock|
      with_database(connections: 3, timeout: 60) do |database|
        held = database.connection
        held.exec("select 1") # outside of a loop: a lease until check-in
        in_loop do
          6.times { database.exec("select $1::text as n", ["0"]) }
          sleeper = NB.spawn { database.exec("select pg_sleep(60)") }
          pass_until("the sleeper") { database.stats[:held] == 2 }
          database.exec("select $1::text as n", ["0"])
          giver = NB.spawn { sleep(0.09) && held.check_in }
          began = clock.elapsed
          waiting = NB.spawn { database.exec("select 1 for update") && clock.elapsed - began }
          NB.spawn { sleep(0.05) && Fiber.blocking { clock.advance(0.1) } } # both timers are due when the loop next looks
          assert_operator waiting.value, :<, 30
          [giver, sleeper].each(&:cancel)
        end
      end
    end
  end

  # The statement by itself: a wait whose time is up still gets a wake that arrived before it resumed.
  def test_a_statement_is_woken_after_its_time_is_up
    require "neverblock/postgres"
    NeverBlockTest::VirtualTime.during do |clock|
      in_loop do
        statement = nil
        waiting = NB.spawn { (statement = NeverBlock::Postgres::Statement.new("select 1", session_defaults: NeverBlock::Postgres::SessionDefaults::EMPTY)).park(5) }
        NB.spawn { sleep(4) && statement.wake }
        NB.spawn { sleep(2) && Fiber.blocking { clock.advance(10) } } # both timers are due when the loop next looks
        assert waiting.value
        assert_in_delta 12, clock.elapsed
      end
    end
  end

  # Regression: the refused BEGIN was sent with the next statement, which was rolled back in the end.
  slow "it starts another database"
  def test_a_begin_that_was_refused
    table
    down = true
    connect = -> { down ? raise(PG::ConnectionBad, "no server") : PG.connect(url) }
    database = NeverBlock::Postgres.new(connect, connections: 2, log: @logged.method(:<<))
    in_loop do
      connection = database.connection
      assert_raises(PG::ConnectionBad) { connection.exec("BEGIN") }
      assert_raises(PG::ConnectionBad) { connection.prepare("a", "select 1") }
      down = false
      assert_equal "INSERT 0 1", connection.exec("insert into between values (1)").cmd_status
      connection.prepare("a", "select 1")
      connection.finish
      assert_equal "1", count
    end
  ensure
    database&.close
  end

  # SET seed is setseed(), which no reset undoes.
  slow "it starts another database"
  def test_seeds_end_with_their_connection
    ["set seed to 0.5", "set local seed to 0.5", "begin; set local seed to 0.5; commit", "select set_config('seed', '0.5', false)", "select set_config('seed', '0.5', true)",
      "select set_config('se' || 'ed', '0.5', false)", "select setseed(0.5)"].each do |sql|
      numbers = Array.new(2) do
        with_database(connections: 1) do |database|
          in_loop do
            database.connect { |connection| connection.exec(sql) }
            pass_until("the cleaning") { database.stats[:held] == 0 }
            one(database.exec("select random()"))
          end
        end
      end
      assert_equal 2, numbers.uniq.size, sql
    end
  end

  # A prepared name isn't used while its tables may be different ones.
  def test_parameters_keep_their_types_where_there_is_no_name
    with_database(connections: 2) do |database|
      in_loop do
        database.connect do |connection|
          connection.prepare("half", "select $1 / 2", [701])
          before = one(connection.exec_prepared("half", [3]))
          connection.exec("BEGIN")
          connection.exec("set local search_path to public")
          assert_equal before, one(connection.exec_prepared("half", [3]))
          connection.exec("COMMIT")
        end
      end
    end
  end

  # Regression: the loop spun forever.
  def test_an_audit_that_comes_with_a_leak
    with_database(connections: 1, shareable_functions: ["tardy"], audit: true) do |database|
      in_loop do
        database.exec("create or replace function tardy() returns int language sql as $$ select set_config('datestyle', 'German', false); select 1 $$")
        read, leak = "select $1::text as n", "select tardy()"
        3.times { database.exec(leak) }
        4.times { database.exec(read, ["0"]) }
        reads = 0
        real(database).pg.define_singleton_method(:consume_input) do
          Fiber.blocking { sleep 0.03 } if (reads += 1) == 2 # real: the database's next answer arrives meanwhile
          super()
        end
        first = NB.spawn { one(database.exec(read, ["1"])) }
        others = Array.new(4) { |n| NB.spawn { n.zero? ? database.exec(leak) : database.exec(read, ["2"]) } }
        assert_equal "1", NB.timeout(5) { first.value }
        others.each { |task| outcome(task) }
      end
    end
  end

  # Regression: the loop spun forever, since the statement was in no list any more.
  def test_an_exception_where_a_statement_is_noted_as_sent
    with_database(connections: 1) do |database|
      in_loop do
        4.times { database.exec("select $1::text as n", ["0"]) }
        calls = 0
        real(database).define_singleton_method(:transmit) do |statement, &noted|
          next super(statement, &noted) unless (calls += 1) == 2
          Thread.current.raise(Class.new(Exception), "from outside") # standard:disable Lint/InheritException -- as Thread#kill
        end
        real(database).singleton_class.send(:private, :transmit)
        tasks = Array.new(3) { |n| NB.spawn { one(database.exec("select $1::text as n", [n])) } }
        NB.timeout(5) { tasks.each { |task| outcome(task) } }
        assert_equal "7", one(database.exec("select 7"))
      end
    end
  end

  def test_a_setting_behind_a_query_of_the_configuration
    with_database(connections: 2) do |database|
      [->(&block) { block.call }, ->(&block) { in_loop(&block) }].each do |where|
        where.call do
          connection = database.connection
          connection.configure { connection.exec("select 1") && connection.exec("set time zone 'Asia/Tokyo'") }
          2.times do
            assert_equal "Asia/Tokyo", one(connection.exec("show time zone"))
            connection.check_in
          end
          connection.finish
        end
      end
    end
  end

  def test_currval_behind_what_is_no_plain_insert
    ask("create table between (id serial, n int)")
    with_database(connections: 2) do |database|
      in_loop do
        database.connect { |connection| assert_equal "1", one(connection.exec("insert into between (n) values (1); select currval('between_id_seq')")) }
        database.transaction do |connection|
          connection.copy_data("copy between (n) from stdin") { connection.put_copy_data("7\n") }
          assert_equal "2", one(connection.exec("select currval('between_id_seq')"))
        end
        assert_raises(PG::ObjectNotInPrerequisiteState) { database.exec("select 1; select currval('between_id_seq')") }
      end
    end
  end

  # Regression: the failed BEGIN skipped the name's Parse.
  def test_a_name_that_was_to_be_given_behind_a_begin_that_failed
    with_database(connections: 1) do |database|
      in_loop do
        text, session_defaults = -"select $1::int + 40", NeverBlock::Postgres::SessionDefaults::EMPTY
        lease = multiplexer(database).lease(session_defaults, purpose: "a test")
        ask = ->(opening) { one(lease.run(NeverBlock::Postgres::Statement.new(text, [2], session_defaults:, key: text, opening:))) }
        assert_raises(PG::SyntaxError) { ask.call("BEGIN nonsense") }
        assert_empty lease.connection.names
        lease.end_unbegun
        assert_equal "42", ask.call(nil)
        lease.give_back
      end
    end
  end

  # A fork while a connection is being prepared: the child's exit must not end the connection for the parent.
  slow "it starts another database"
  def test_a_fork_while_a_connection_is_made_ready
    making = nil
    ready = Thread::Queue.new
    connect = lambda do
      pg = PG.connect(url)
      pg.define_singleton_method(:parameter_status) do |name|
        making = true
        ready.pop
        super(name)
      end
      pg
    end
    database = NeverBlock::Postgres.new(connect, connections: 2, log: @logged.method(:<<))
    in_loop do
      asking = NB.spawn { one(database.exec("select 42")) }
      pass_until("the connection") { making }
      Process.wait(fork { GC.start })
      ready.close
      assert_equal "42", asking.value
    end
  ensure
    database&.close
  end

  # At the limit of fibers, or of memory for their stacks.
  def test_background_work_is_done_in_place_if_no_task_can_start
    with_database(connections: 2) do |database|
      in_loop do
        scheduler = NeverBlock::Scheduler.current
        failed = Struct.new(:alive?).new(false)
        scheduler.define_singleton_method(:background) { |&_block| failed }
        assert_equal "1", one(database.exec("select 1"))
        database.connect { |connection| connection.exec("set work_mem to '7MB'") }
        assert_equal [0, 0], database.stats.values_at(:held, :opening)
        refute_equal "7MB", one(database.exec("show work_mem"))
      ensure
        scheduler.singleton_class.remove_method(:background)
      end
    end
  end

  private

  def table = ask("create table between (n int)")

  def count = ask("select count(*) from between")

  def real(database) = physical(database).first

  # @yieldparam release [Proc] returns the only connection for leases
  def waiting_for_a_connection(database)
    released = false
    holder = NB.spawn { database.transaction { |connection| connection.exec("select 1") && pass_until("the release") { released } } }
    pass_until("the lease") { database.stats[:held] == 1 }
    yield -> { (released = true) && holder.value }
  end
end
