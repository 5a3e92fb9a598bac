# frozen_string_literal: true

require "neverblock"
require_relative "loops"

module NeverBlockTest
  # For unit tests of the PostgreSQL client: connections on top of a {FakePg}.
  module FakeConnections
    include Loops

    # In front of {NeverBlock::Postgres::Driver}: libpq can't use a fake.
    module WithoutLibpq
      class << self
        attr_accessor :on
      end

      def native? = !WithoutLibpq.on && super
    end

    # A stand-in for a multiplexer: records what its connections report.
    class Owner
      attr_reader :log

      def initialize = @log = []

      def finished(_connection, statements)
        statements.each(&:finish)
        @log << [:finished, *statements.map(&:sql)]
      end

      def exchanged(_connection, statement)
        statement.finish
        @log << [:exchanged, statement.sql]
      end

      def lost(_connection, unsent)
        @log << [:lost, *unsent.map(&:sql)]
        unsent.each { |statement| (statement.connection = nil) || statement.wake }
      end
    end

    def setup
      super
      skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
      require "neverblock/postgres"
      require "support/fake_pg"
      NeverBlock::Postgres::Driver.singleton_class.prepend(WithoutLibpq)
      WithoutLibpq.on = true
      @owner = Owner.new
    end

    def teardown
      WithoutLibpq.on = false
      super
    end

    private

    def defaults = NeverBlock::Postgres::SessionDefaults::EMPTY

    def statement(sql, *params, judged: true, **)
      NeverBlock::Postgres::Statement.new(sql, params, session_defaults: defaults, judged:, **)
    end

    # @yieldparam sql [String] as for {FakePg}
    def connection(pg = nil, owner: @owner, **, &server)
      pg ||= FakePg.new(&server)
      NeverBlock::Postgres::PipelinedConnection.new(pg, defaults, owner, **).tap do |connection|
        connection.loop = NeverBlock::Scheduler.current
        connection.audited_at = now
        connection.age = NeverBlock::Postgres::Age.new(0.0)
        connection.reported.accept
      end
    end
  end
end
