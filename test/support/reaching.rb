# frozen_string_literal: true

require "securerandom"
require_relative "database"

module NeverBlockTest
  # For tests of {Database} about functions that statements reach without naming them. Each test has a database of its
  # own, with the function sly(), which changes a setting of its session: the one that {#set} names.
  #
  #   ask("create view a_view as select sly() as said")
  #   set("app.tenant", "leak")
  #   reading { |database| in_loop { refute shared?(database, "select * from a_view") } }
  module Reaching
    include Database

    TEMPLATE = "reach"
    ROLE = "reach_user"

    # Makes the template, once per process.
    # @return [true]
    def self.prepared
      @prepared ||= begin
        server = Database.server
        server.query("create database #{TEMPLATE}")
        server.query("create role #{ROLE} login; alter role #{ROLE} set client_min_messages to warning")
        server.query(<<~SQL, database: TEMPLATE)
          create extension citext; create extension hstore;
          alter default privileges in schema public grant all on tables to #{ROLE};
          create schema own authorization #{ROLE};
          create table own.notes (id int);
          alter table own.notes owner to #{ROLE};
          create table sly_setting (name text, value text);
          insert into sly_setting values ('app.tenant', 'leak');
          create function sly() returns text language plpgsql as $$ begin return (select set_config(name, value, false) from public.sly_setting); end $$;
          create function sly_trigger() returns trigger language plpgsql as $$ begin perform public.sly(); return coalesce(new, old); end $$;
          create table plain as select 1 as id, 'one'::text as name, 'One'::citext as code, 'a=>1'::hstore as data;
          create view plain_view as select id, lower(name), code = 'one' as same, data -> 'a', now() from plain;
        SQL
        true
      end
    end

    # Each test has a database of its own.
    def setup
      super
      Reaching.prepared
      @database = "reach_#{SecureRandom.hex(4)}"
      server.query("create database #{@database} template #{TEMPLATE}")
    end

    def teardown = @database && server.query("drop database #{@database} with (force)")

    private

    def server = Database.server

    def url = super.sub("///postgres", "///#{@database}").sub(/(?<=user=)\w+/, ROLE)

    def ask(sql) = server.query(sql, database: @database)

    # @param name [String] of the setting that sly() changes
    def set(name, value) = ask("update sly_setting set name = '#{name}', value = '#{value}'")

    def reading(&) = with_database(connections: 3, shareable_functions: %w[current_setting pg_sleep], &)

    # The values that several fibers read at a time, on any connections.
    def settings(database, name)
      NB.concurrently(6.times.to_a, limit: 6) { one(database.exec("select nullif(current_setting('#{name}', true), ''), pg_sleep(0.005)")) }.uniq
    end

    # Whether it is pipelined with others.
    # @return [Boolean]
    def shared?(database, sql)
      asks = -> { database.connect { |connection| connection.exec(sql) && connection.pipelined? } }
      NeverBlock.pipeline(asks, -> { database.exec("select 1") }).first
    end
  end
end
