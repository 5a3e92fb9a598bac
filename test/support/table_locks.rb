# frozen_string_literal: true

require_relative "database"

module NeverBlockTest
  # For tests of {Database} in which another session locks a table.
  #
  #   locked("items", "exclusive") { NB.spawn { database.exec("insert into items …") } && pass_until("its wait") { waiting == 1 } }
  module TableLocks
    # Creates a schema of the test anew, with the tables `locked`, in which n is 1, `free`, in which it is 2, and the
    # empty `written`.
    # @param schema [String]
    def lockable_tables(schema)
      ask(<<~SQL)
        drop schema if exists #{schema} cascade;
        create schema #{schema};
        create table #{schema}.locked as select 1 as n;
        create table #{schema}.free as select 2 as n;
        create table #{schema}.written (n int);
      SQL
    end

    # Holds the lock while the block runs.
    # @param mode [String] such as "access exclusive"
    # @return [Object] the block's value
    def locked(table, mode)
      control = PG.connect(Database.server.url)
      control.exec("begin; lock table #{table} in #{mode} mode")
      yield
    ensure
      control&.close
    end

    # @return [Integer] how many of the test's connections wait for a lock
    def waiting = ask("select count(*) from pg_stat_activity where application_name = 'nb_#{name[0, 50]}' and wait_event_type = 'Lock'").to_i
  end
end
