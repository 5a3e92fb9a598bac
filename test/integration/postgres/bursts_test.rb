# frozen_string_literal: true

# chaos: random bursts and faults

require "test_helper"
require_relative "../../support/database"

# Many fibers with all kinds of operations at once, while they are cancelled and their connections are ended. What each
# was told agrees with the content of the database, and no fiber gets another one's rows. SEED=… repeats a run.
class PostgresBurstsTest < Minitest::Test
  include NeverBlockTest::Database

  SCHEMA = <<~SQL
    drop table if exists burst;
    create table burst (nonce text, at timestamptz default clock_timestamp());
    create or replace function burst_keeps(value text) returns text language sql as $$ select set_config('app.burst', value, false) $$;
  SQL

  ACTS = {
    read: 6, read_with_parameters: 6, write: 4, write_with_parameters: 4, commit: 3, roll_back: 2, raise_in_transaction: 2, set: 2,
    keep_in_function: 2, temporary_table: 1, advisory_lock: 1, slow: 1, error: 2, error_in_transaction: 1, several: 1, large: 1
  }.flat_map { |act, weight| [act] * weight }.freeze

  Told = Struct.new(:applied, :unknown)

  # An exception that a caller raises in its own block.
  class Enough < StandardError; end

  def setup
    super
    ask(SCHEMA)
    @told = {}
    @crossed = []
    @serial = 0
    @random = Random.new(@seed = Integer(ENV.fetch("SEED") { Random.new_seed % 1_000_000 }))
  end

  def test_a_burst = burst(500) { |database| in_loop { fibers(database, 500) } }

  def test_a_burst_while_backends_are_ended
    burst(400, fire: true) { |database| in_loop { fibers(database, 400) } }
  end

  def test_a_burst_with_everything_shared_and_fire
    burst(300, fire: true, multiplex: :all) { |database| in_loop { fibers(database, 300) } }
  end

  def test_two_loops_and_threads_on_one
    burst(300, connections: 5) do |database|
      loops = Array.new(2) { Thread.new { NeverBlock.run { fibers(database, 120) } } }
      threads = Array.new(6) { Thread.new { 10.times { act(database, chosen, interrupts: false) } } }
      joined(loops + threads)
    end
  end

  def test_two_loops_and_threads_under_fire
    burst(300, connections: 3, fire: true) do |database|
      loops = Array.new(2) { Thread.new { NeverBlock.run { fibers(database, 120) } } }
      threads = Array.new(6) { Thread.new { 10.times { act(database, chosen, interrupts: false) } } }
      joined(loops + threads)
    end
  end

  # One connection, and a loop that always has a statement for it: the other loop gets its turns.
  def test_no_loop_starves_another
    with_database(connections: 1, timeout: 5) do |database|
      over, served = false, 0
      greedy = Thread.new { NeverBlock.run { NB.concurrently(20.times.to_a, limit: 20) { |n| database.exec("select #{n} as n") && served += 1 until over } } }
      waits = Thread.new do
        NeverBlock.run { Array.new(30) { |n| before = served and assert_equal(n.to_s, one(database.exec("select #{n} as n"))) && served - before } }
      end
      thread_waits = Thread.new { Array.new(10) { |n| before = served and assert_equal(n.to_s, one(database.exec("select #{n} as n"))) && served - before } }
      joined([waits, thread_waits])
      over = true
      joined([greedy])
      # The median, since the kernel may let one of the threads wait.
      usual = (waits.value + thread_waits.value).sort[20]
      assert_operator usual, :<, 1_000, "so many statements of the greedy loop came first"
    end
  end

  # The end of a loop leaves its connections to other loops.
  def test_a_loop_s_end_gives_its_connections_up
    with_database(connections: 2, timeout: 2) do |database|
      5.times do
        joined([Thread.new { NeverBlock.run { NB.concurrently(20.times.to_a, limit: 20) { |n| database.exec("select #{n} as n") } } }])
        joined([Thread.new { NeverBlock.run { 2.times.map { NB.spawn { database.transaction { |connection| connection.exec("select 1") } } }.each(&:value) } }])
        assert_equal "1", one(database.exec("select 1"))
        assert_equal [0, 0, 0], database.stats.values_at(:held, :in_flight, :queued)
      end
    end
  end

  private

  def burst(count, connections: 6, fire: false, **options)
    with_database(connections:, timeout: 15, **options) do |database|
      burning = fire
      arson = Thread.new { end_a_backend && sleep(0.05) while burning } if fire # real: the database ends a back end
      yield database
      burning = false
      arson&.join
      agrees(database, connections)
    rescue Minitest::Assertion => error
      raise error.class, "SEED=#{@seed}: #{error.message}", error.backtrace
    ensure
      burning = false
      arson&.join
    end
  end

  def end_a_backend
    @control ||= PG.connect(NeverBlockTest::Database.server.url)
    @control.exec("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'nb_#{name[0, 50]}' order by random() limit 1")
  end

  def teardown
    @control&.close
    super
  end

  def joined(threads)
    threads.each { |thread| thread.report_on_exception = false }
    threads.each { |thread| thread.join(60) or flunk("SEED=#{@seed}: a thread still runs: #{thread.backtrace&.first(8)&.join("\n")}") }
  end

  def chosen = ACTS[@random.rand(ACTS.size)]

  def fibers(database, count)
    tasks = Array.new(count) { chosen.then { |kind| NB.spawn { act(database, kind) } } }
    tasks.each { |task| task.cancel if @random.rand(12) == 0 && NB.pass.nil? }
    NB.timeout(45) { tasks.each { |task| outcome(task) } }
  end

  # Does one operation, perhaps with too short a timeout, and records what it was told.
  def act(database, kind, interrupts: true)
    nonce = "#{kind}-#{@serial += 1}-#{@random.rand(1 << 40)}"
    seconds = (@random.rand(8) == 0) ? @random.rand(0.05) : nil if interrupts
    done = NB.timeout(seconds) { send(kind, database, nonce) }
    @told[nonce] = Told.new(done == :applied, false)
  rescue Minitest::Assertion
    raise
  rescue Enough, PG::DivisionByZero
    @told[nonce] = Told.new(false, false)
  rescue NeverBlock::Postgres::OutcomeUnknown, NeverBlock::TimeoutError
    @told[nonce] = Told.new(false, true)
  rescue PG::Error, NeverBlock::Postgres::PoolTimeout => error
    (@others ||= Hash.new(0))[error.message[0, 60]] += 1
    @told[nonce] = Told.new(false, false)
  ensure
    @told[nonce] ||= Told.new(false, true) # cancelled
  end

  def own(nonce, result)
    answer = result.getvalue(0, 0)
    @crossed << [nonce, answer] unless answer == nonce
  end

  def insert(nonce) = "insert into burst (nonce) values ('#{nonce}') returning nonce"

  def read(database, nonce) = own(nonce, database.exec("select '#{nonce}'::text as n"))

  def read_with_parameters(database, nonce) = own(nonce, database.exec("select $1::text as n", [nonce]))

  def write(database, nonce)
    own(nonce, database.exec(insert(nonce)))
    :applied
  end

  def write_with_parameters(database, nonce)
    own(nonce, database.exec("insert into burst (nonce) values ($1) returning nonce", [nonce]))
    :applied
  end

  def commit(database, nonce)
    database.transaction do |connection|
      own(nonce, connection.exec(insert(nonce)))
      own(nonce, connection.exec_params("select nonce from burst where nonce = $1", [nonce]))
    end
    :applied
  end

  def roll_back(database, nonce)
    database.connect do |connection|
      connection.exec("BEGIN")
      own(nonce, connection.exec(insert(nonce)))
      connection.exec("ROLLBACK")
    end
  end

  def raise_in_transaction(database, nonce)
    database.transaction do |connection|
      own(nonce, connection.exec(insert(nonce)))
      raise Enough
    end
  end

  def error_in_transaction(database, nonce)
    database.transaction do |connection|
      own(nonce, connection.exec(insert(nonce)))
      connection.exec("select 1 / 0")
    end
  end

  def set(database, nonce)
    database.connect do |connection|
      connection.exec("set app.burst to '#{nonce}'")
      connection.exec("set statement_timeout to 54321")
      own(nonce, connection.exec("select current_setting('app.burst')"))
    end
  end

  def keep_in_function(database, nonce) = own(nonce, database.exec("select burst_keeps('#{nonce}')"))

  def temporary_table(database, nonce)
    database.connect do |connection|
      connection.exec("create temporary table mine as select '#{nonce}'::text as n")
      own(nonce, connection.exec("select n from mine"))
    end
  end

  def advisory_lock(database, nonce)
    database.connect do |connection|
      connection.exec("select pg_advisory_lock_shared(4711)")
      own(nonce, connection.exec("select '#{nonce}'::text"))
    end
  end

  def slow(database, nonce) = own(nonce, database.exec("select '#{nonce}'::text from pg_sleep(0.02)"))

  def error(database, _nonce) = database.exec("select 1 / (random() * 0)::int")

  def several(database, nonce) = own(nonce, database.exec("select 1; select '#{nonce}'::text"))

  def large(database, nonce) = own(nonce, database.exec("select $1::text, repeat('x', 300000), $2::text", [nonce, "y" * 300_000]))

  # @return [Array<Integer>] how many times it may have been applied
  def possible(told)
    return [0, 1] if told.unknown
    told.applied ? [1] : [0]
  end

  # Compares what each operation was told with the content of the database.
  def agrees(database, connections)
    in_loop { pass_until("the end of all: #{database.inspect}") { database.stats.values_at(:held, :in_flight, :queued, :opening).all?(&:zero?) } }
    assert_empty @crossed
    counts = ask("select nonce || ' ' || count(*) from burst group by nonce").lines(chomp: true).to_h { |line| line.split.then { |nonce, count| [nonce, count.to_i] } }
    @told.each do |nonce, told|
      count = counts.delete(nonce).to_i
      assert_includes possible(told), count, "#{nonce} was told #{told.to_h}"
    end
    assert_empty counts
    nothing_is_left(database, connections)
    works_still(database)
  end

  def nothing_is_left(database, connections)
    2.times { outcome_of { database.exec("select 1") } } # finds connections that were ended meanwhile
    in_loop do
      pass_until("no more than #{connections} backends") { backends <= connections }
      audit = "select coalesce(string_agg(name || '=' || setting, ' ' order by name), '') || ' ' || coalesce(current_setting('app.burst', true), '') || ' ' || current_user " \
        "from pg_settings where source = 'session'"
      seen = {}
      holding = Array.new([connections - 1, 1].max) do
        NB.spawn do
          database.connect do |connection|
            seen[one(connection.exec("select pg_backend_pid()"))] = one(connection.exec(audit))
            pass_until("the others") { seen.size >= [connections - 1, 1].max || holding_all?(database, connections) }
          end
        rescue PG::ConnectionBad
          seen[rand] = on_a_new_one(audit)
        end
      end
      holding.each(&:value)
      assert_equal [on_a_new_one(audit)], seen.values.uniq
      pass_until("the cleaning") { database.stats[:held] == 0 }
    end
    assert_equal "", ask("select distinct state from pg_stat_activity where application_name = 'nb_#{name[0, 50]}' and state <> 'idle'")
    assert_equal "0", ask("select count(*) from pg_locks where locktype = 'advisory' and objid = 4711")
    assert_equal "0", ask("select count(*) from pg_class where relname = 'mine'")
  end

  def holding_all?(database, connections) = database.stats[:held] >= [connections - 1, 1].max

  def outcome_of
    yield
  rescue PG::ConnectionBad
    nil
  end

  # Connections that were ended a moment ago are probed before they are used.
  def works_still(database)
    sleep NeverBlock::Postgres::PipelinedConnection::PROBE_AFTER # real: back ends of the database end
    in_loop { assert_equal 50.times.map(&:to_s), NB.concurrently(50.times.to_a, limit: 50) { |n| one(database.exec("select #{n} as n")) } }
  end
end
