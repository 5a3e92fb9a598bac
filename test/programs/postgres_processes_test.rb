# frozen_string_literal: true

# slow: it starts programs that collect garbage at each allocation

require "test_helper"
require_relative "../support/database"

# Forks and the garbage collector, while statements are in flight.
class PostgresProcessesTest < Minitest::Test
  include NeverBlockTest::Database

  # Children that use the database, that exit at once, or that are killed: the parent is not affected.
  def test_forks_under_load
    with_database(connections: 4) do |database|
      in_loop do
        over = false
        answered = 0
        busy = Array.new(20) do |n|
          NB.spawn do
            count = 0
            until over
              assert_equal "#{n} #{count += 1}", one(database.exec("select $1::text as n", ["#{n} #{count}"]))
              database.transaction { |connection| assert_equal n.to_s, one(connection.exec("select #{n} as n")) } if count % 10 == 0
              answered += 1
            end
            count
          end
        end
        before = own_pids(database)
        children = Array.new(9) do |n|
          pass_until("responses between two forks") { answered >= 20 * (n + 1) }
          fork { child(database, n) }
        end
        statuses = children.map { |pid| Process.wait2(pid).last }
        over = true
        assert_operator busy.map(&:value).min, :>, 0
        assert_equal [0], statuses.map(&:exitstatus).uniq
        assert_empty before - own_pids(database), "a connection of the parent's was closed"
      end
    end
    assert_empty logged
  end

  # In a transaction of the parent: its child is not in it.
  def test_a_fork_inside_of_a_lease
    with_database(connections: 2) do |database|
      in_loop do
        database.exec("drop table if exists forked")
        database.exec("create table forked (n int)")
        database.transaction do |connection|
          connection.exec("insert into forked values (1)")
          pid = fork do
            error = begin
              connection.exec("select 1")
            rescue PG::Error => raised
              raised
            end
            ok = PG::ConnectionBad === error
            exit!(ok ? 0 : 1)
          end
          assert_equal 0, Process.wait2(pid).last.exitstatus
          connection.exec("insert into forked values (2)")
        end
        assert_equal "2", one(database.exec("select count(*) from forked"))
      end
    end
  end

  # Each allocation is a collection, so two statements are enough.
  def test_gc_stress_while_statements_are_in_flight
    with_database(connections: 1) do |database|
      in_loop do
        5.times { database.exec("select $1::text as n", ["0"]) }
        tasks = Array.new(2) { |n| NB.spawn { one(database.exec("select $1::text as n", [n])) } }
        GC.stress = true
        rows = tasks.map(&:value)
        GC.stress = false
        assert_equal %w[0 1], rows
      ensure
        GC.stress = false
      end
    end
  end

  # A process frees its objects at exit: libpq would tell the server that the parent's connections are closed.
  def test_children_that_end_as_usual
    script = <<~RUBY
      require "neverblock/postgres"
      database = NeverBlock::Postgres.new(#{url.inspect}, connections: 2)
      NeverBlock.run do
        pids = -> { Array.new(2) { NB.spawn { database.connect { |c| c.exec("BEGIN") && c.exec("select pg_backend_pid(), pg_sleep(0.05)").getvalue(0, 0) } } }.map(&:value).sort }
        before = pids.call
        database.transaction do |connection|
          connection.exec("select 1")
          3.times { Process.wait(fork { exit }) }
          Process.wait(fork { NeverBlock.run { database.exec("select 1") } })
          connection.exec("select 1")
        end
        puts "same" if pids.call == before
      end
    RUBY
    output = IO.popen([RbConfig.ruby, "-Ilib", "-e", script], err: %i[child out], &:read)
    assert_equal "same", output.lines(chomp: true).last, output
  end

  def test_compaction_while_statements_are_in_flight
    skip "this Ruby does not compact" unless GC.respond_to?(:compact)
    with_database(connections: 2, timeout: 60) do |database|
      in_loop do
        over = false
        NB.spawn { GC.compact && sleep(0.001) until over } # real: the database answers in between
        3.times do |round|
          texts = Array.new(100) { |n| "select $1::text as n#{n % 50}" }
          rows = NB.concurrently(100.times.to_a, limit: 100) { |n| one(database.exec(texts[n], ["#{round} #{n}"])) }
          assert_equal 100.times.map { |n| "#{round} #{n}" }, rows
        end
        over = true
      end
      assert_operator ask("select count(*) from pg_stat_activity where application_name = 'nb_#{name[0, 50]}'").to_i, :<=, 2
    end
  end

  private

  def own_pids(database) = ask("select pid from pg_stat_activity where application_name = 'nb_#{name[0, 50]}'").split

  def child(database, number)
    case number % 3
    when 0
      GC.start
      exit!(0)
    when 1
      ok = NeverBlock.run { NB.concurrently(5.times.to_a, limit: 5) { |n| one(database.exec("select #{n} as n")) } } == 5.times.map(&:to_s)
      database.close
      exit!(ok ? 0 : 1)
    else
      ok = database.transaction { |connection| one(connection.exec("select 'child'")) } == "child"
      GC.start
      exit!(ok ? 0 : 2)
    end
  end
end
