# frozen_string_literal: true

require_relative "database"
require_relative "pgbouncer"

module NeverBlockTest
  # For tests of {Database} behind a PgBouncer in transaction mode, with two server sessions for all of its clients. A
  # subclass may choose another release.
  #
  #   class SomethingTest < Minitest::Test
  #     include NeverBlockTest::BehindPgBouncer
  #     def test_it = through { |database| in_loop { database.exec("select 1") } }
  #   end
  #   class SomethingNewerTest < SomethingTest
  #     def self.program = NeverBlockTest::PgBouncer.newer
  #   end
  module BehindPgBouncer
    include Database

    SCHEMA = <<~SQL
      create role app login;
      create table passed (n int);
      grant all on passed to app;
      create function shop_price(id int) returns int language sql as 'select id * 2';
    SQL

    # @param program [String] its path
    # @return [NeverBlockTest::PgBouncer] shared by all tests of the process
    def self.bouncer(program)
      (@bouncers ||= {})[program] ||= begin
        server = Database.server
        server.query("select 1 from pg_roles where rolname = 'app'") == "1" or server.query(SCHEMA)
        PgBouncer.new(server, {**PgBouncer::SETTINGS, default_pool_size: 2}, program).tap { |bouncer| Minitest.after_run { bouncer.stop } }
      end
    end

    # @api private
    def self.included(test_class)
      super
      test_class.extend(Program)
    end

    # The class methods of such tests.
    module Program
      # @return [String, nil] the path of the tested release's program
      def program = PgBouncer.installed

      # libpq closes a prepared statement since version 17.
      def modern? = PgBouncer.modern?(program) && PG::Connection.method_defined?(:close_prepared)
    end

    def setup
      super
      reason = PgBouncer.missing(self.class.program)
      skip reason if reason
      @bouncer = BehindPgBouncer.bouncer(self.class.program)
    end

    private

    # @yieldparam database [NeverBlock::Postgres]
    def through(target = "#{@bouncer.url}&application_name=nb_#{name[0, 40]}", connections: 4, **options)
      database = NeverBlock::Postgres.new(target, connections:, pgbouncer: :transaction, log: @logged.method(:<<), **options)
      database.singleton_class.define_method(:multiplexer_depth) { @multiplexer.stats[:in_flight] }
      yield database
    ensure
      database&.close
    end
  end
end
