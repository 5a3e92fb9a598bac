# frozen_string_literal: true

require_relative "database"

module NeverBlockTest
  # For tests of {Database} with statements that may share a connection: the schema "sharing", new for each test.
  #
  #   learn(database, "select 1 as n")
  #   in_one_turn(5.times) { |n| one(database.exec("select #{n} as n")) }.map(&:value)
  module SharedStatements
    include Database

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

    def setup
      super
      ask(SCHEMA)
    end

    # Drops views and functions that would make other tests' statements of the same names unshareable.
    def teardown = (ask("drop schema if exists sharing cascade") unless skipped?)

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
  end
end
