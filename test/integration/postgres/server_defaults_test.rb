# frozen_string_literal: true

require "test_helper"
require_relative "../../support/table_locks"

# Connections opened before and after an ALTER ROLE or ALTER DATABASE find different tables under the same name: never
# both in turn.
class PostgresServerDefaultsTest < Minitest::Test
  include NeverBlockTest::Database
  include NeverBlockTest::TableLocks

  def setup
    super
    ask(<<~SQL)
      drop schema if exists nb_a cascade; drop schema if exists nb_b cascade; create schema nb_a; create schema nb_b;
      create table nb_a.nb_place as select 'a' as place; create table nb_b.nb_place as select 'b' as place;
      drop role if exists nb_mover; create role nb_mover login; grant usage on schema nb_a, nb_b to nb_mover; grant select on nb_a.nb_place, nb_b.nb_place to nb_mover;
    SQL
  end

  def teardown
    ask("alter database postgres reset search_path; drop function if exists nb_sly; drop owned by nb_mover; drop role nb_mover; drop schema nb_a cascade; drop schema nb_b cascade")
  end

  {"alter role nb_mover" => "a role", "alter database postgres" => "a database"}.each do |statement, what|
    define_method("test_a_search_path_of_#{what.tr(" ", "_")}_that_changes") do
      ask("#{statement} set search_path to nb_a")
      as_mover do |database|
        4.times { |n| assert_equal "a", read(database, n) }
        ask("#{statement} set search_path to nb_b")
        ask("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'nb_mover' order by pid limit 2")
        # real: the database ends its back ends meanwhile
        places = NB.concurrently(1..8, limit: 8) { Array.new(40) { |n| read(database, n).tap { sleep 0.001 } }.join }
        places.each { |seen| assert_match(/\Aa*b+\z/, seen) }
        assert_match(/the server's settings for new connections have changed \(search_path was "nb_a" and is "nb_b"\)/, logged.join)
        assert_operator backends, :<=, 4
      end
    end
  end

  # The server reports another time zone, as after a statement that leaks one.
  def test_a_reload_of_the_configuration_is_no_leak
    as_mover do |database|
      over = false
      readers = Array.new(6) { |n| NB.spawn { database.exec("select #{n}", nil, retry: true) until over } }
      %w[Asia/Tokyo Europe/Paris].each do |zone|
        ask("alter system set timezone to '#{zone}'")
        ask("select pg_reload_conf()")
        pass_until("the new zone") { one(database.exec("show timezone")) == zone }
      end
      over = true
      readers.each(&:join)
      refute_match(/has changed its session|session state was left/, logged.join("\n"))
    end
  ensure
    reset_zone
  end

  # A connection that returns from a lease is compared with its former state.
  def test_a_reload_of_the_configuration_during_a_lease_is_no_leak
    with_database(connections: 2, audit: true) do |database|
      in_loop do
        pids = Array.new(2) do
          database.connect do |connection|
            connection.exec("create temporary table passing (n int)")
            ask("alter system set timezone to '#{(one(connection.exec("show timezone")) == "Asia/Tokyo") ? "Europe/Paris" : "Asia/Tokyo"}'")
            ask("select pg_reload_conf()")
            pass_until("the new zone") { one(connection.exec("select source from pg_settings where name = 'TimeZone'")) == "configuration file" && connection.parameter_status("TimeZone") }
            connection.backend_pid
          end.tap { pass_until("the cleaning") { database.stats[:held] == 0 } }
        end
        assert_equal 2, pids.uniq.size, "it serves nothing more"
        refute_match(/has changed its session|session state was left/, logged.join("\n"))
      end
    end
  ensure
    reset_zone
  end

  # An answer is held back until the server has told where the setting comes from. The reading fiber may leave
  # meanwhile.
  [[0], [1], [0, 1], [0, 1, 2]].each do |leaving|
    define_method("test_#{leaving.join("_and_")}_of_three_leave_while_the_server_is_asked") do
      with_database(connections: 1) do |database|
        in_loop do
          patient(database)
          3.times { |n| database.exec("select #{n}") }
          tasks = locked("pg_catalog.pg_settings", "access exclusive") do
            ask("alter system set timezone to 'Asia/Tokyo'")
            ask("select pg_reload_conf()")
            tasks = []
            pass_until("the question") do
              tasks = Array.new(3) { |n| NB.spawn { one(database.exec("select #{n}")) } } if tasks.none?(&:alive?)
              waiting == 1
            end
            leaving.each { |n| tasks[n].cancel && assert_kind_of(NeverBlock::Cancelled, outcome(tasks[n])) }
            tasks
          end
          NB.timeout(10) { (0..2).each { |n| assert_equal n.to_s, outcome(tasks[n]) unless leaving.include?(n) } }
          pass_until("the end of all: #{database.inspect}") { database.stats.values_at(:held, :in_flight) == [0, 0] }
          assert_equal "Asia/Tokyo", one(database.exec("show timezone"))
          refute_match(/has changed its session|session state was left/, logged.join("\n"))
        end
      end
    ensure
      reset_zone
    end
  end

  # A function that resets a session default is still a leak.
  def test_a_setting_of_the_profile_that_is_reset
    ask("create or replace function nb_sly() returns int language plpgsql as $$ begin reset timezone; return 1; end $$")
    with_database(connections: 1, shareable_functions: ["nb_sly"]) do |database|
      in_loop do
        connection = database.connection
        connection.configure { connection.exec("set timezone to 'Asia/Tokyo'") }
        connection.exec("select nb_sly()")
        assert_equal "Asia/Tokyo", one(connection.exec("show timezone"))
        connection.finish
      end
      assert_match(/has changed its session: TimeZone/, logged.join)
    end
  end

  # Statements run on connect are part of the session defaults.
  def test_session_defaults_are_not_compared_with_each_other
    ask("alter role nb_mover set search_path to nb_a")
    as_mover do |database|
      other = database.connection
      other.configure { other.exec("set search_path to nb_b") }
      6.times do |n|
        assert_equal "a", read(database, n)
        assert_equal "b", one(other.exec("select place from nb_place"))
      end
      other.finish
      assert_empty logged.grep_v(/held until check-in/)
    end
  end

  private

  def reset_zone
    ask("alter system reset timezone")
    ask("select pg_reload_conf()")
  end

  def as_mover
    database = NeverBlock::Postgres.new(url.sub("user=postgres", "user=nb_mover").sub("//postgres@", "//nb_mover@"), connections: 4, log: logged.method(:<<))
    in_loop do
      NB.concurrently(1..3, limit: 3) { database.transaction { |connection| connection.exec("select pg_sleep(0.01)") } }
      assert_equal "nb_mover", one(database.exec("select current_user"))
      yield database
    end
  ensure
    database&.close
  end

  # A read that is lost with its connection is repeated.
  def read(database, number) = one(database.exec("select place from nb_place where #{number} = #{number}", nil, retry: true))
end
