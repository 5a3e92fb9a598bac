# frozen_string_literal: true

require "pg"
require_relative "../../support/postgres"

module NeverBlockFuzz
  # A PostgreSQL for a run of the fuzzer, with a template for the database of each program.
  #
  #   database = Servers.shared.create(:stock)      # => "fuzz_stock"
  #   Servers.shared.drop(database)
  class Servers
    # Fibers at most.
    FIBERS = 8
    TEMPLATE = "fuzz_template"
    private_constant :TEMPLATE

    # @return [Servers] of this process, until it ends
    def self.shared = @shared ||= new.tap { |one| at_exit { one.stop if Process.pid == one.owner } }

    # @return [Integer] the process that started it
    attr_reader :owner

    # @return [NeverBlockTest::PostgresServer]
    attr_reader :server

    def initialize
      @owner = Process.pid
      @server = NeverBlockTest::PostgresServer.start(max_connections: 60, max_prepared_transactions: 20)
      @server.query("create database #{TEMPLATE}")
      @server.query([COMMON, *Array.new(FIBERS) { |fiber| own(fiber) }].join("\n"), database: TEMPLATE)
    end

    # @param name [Symbol]
    # @return [String] a new database
    def create(name)
      "fuzz_#{name}".tap { |database| ask("postgres", "create database #{database} template #{TEMPLATE}") }
    end

    # @param database [String]
    # @return [void]
    def drop(database)
      ask(database, "select gid from pg_prepared_xacts where database = '#{database}'").each { |(id)| ask(database, "rollback prepared '#{id}'") }
      ask("postgres", "drop database #{database} with (force)")
    end

    # @return [Hash{String=>Array<Array<String>>}] what a program has left in its database
    def facts(database)
      tables = Array.new(FIBERS) { |fiber| ["own#{fiber}", "select nonce, v from own#{fiber} order by 1, 2"] }
      names, queries = [*tables, *FACTS].transpose
      names.zip(ask(database, *queries)).to_h
    end

    # @return [void]
    def stop = @server.stop

    FACTS = [
      ["audit", "select who, count(*) from audit group by 1 order by 1"],
      ["counter", "select n from counter"],
      ["zoned", "select owner, nonce, zone from zoned order by 1, 2"],
      ["prepared transactions", "select gid from pg_prepared_xacts where database = current_database() order by 1"],
      ["tables", "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'v') order by 1"]
    ].freeze

    COMMON = <<~SQL
      set client_min_messages = error;
      create extension dblink;
      create table audit (who text);
      create table counter (n int); insert into counter values (0);
      create table zoned (owner int, nonce text, zone text);
      create function leave(v text) returns text language plpgsql as $$ begin perform set_config('app.leak', v, false); return v; end $$;
      create function zone() returns trigger language plpgsql as $$ begin perform set_config('timezone', 'Asia/Tokyo', true); new.zone = current_setting('timezone'); return new; end $$;
      create trigger zone before insert on zoned for each row execute function zone();
      create function audit(who text) returns text language plpgsql as $$ begin
        perform dblink_exec(format('host=%s port=%s user=%s dbname=%s', current_setting('unix_socket_directories'), current_setting('port'), current_user, current_database()), format('insert into audit values (%L)', who));
        perform pg_sleep(0.3);
        return who;
      end $$;
      create function audited() returns trigger language plpgsql as $$ begin perform audit(new.nonce); return new; end $$;
    SQL
    private_constant :COMMON, :FACTS

    private

    # @return [Array] the rows of one query, or of each
    def ask(database, *queries)
      connection = PG.connect(@server.url(database))
      results = queries.map { |sql| connection.exec(sql).values }
      (queries.size == 1) ? results.first : results
    ensure
      connection&.close
    end

    def own(fiber)
      <<~SQL
        create table own#{fiber} (id serial primary key, nonce text not null unique, v int);
        create schema s#{fiber}; create table s#{fiber}.place (name text); insert into s#{fiber}.place values ('s#{fiber}');
        create view leaving#{fiber} as select leave('f#{fiber}') as l;
        create view changing#{fiber} as select 'plain'::text as s;
        create view auditing#{fiber} as select audit('view #{fiber}') as a;
        create table audited#{fiber} (nonce text);
        create trigger audited before insert on audited#{fiber} for each row execute function audited();
      SQL
    end
  end
end
