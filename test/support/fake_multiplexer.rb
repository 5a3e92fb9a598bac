# frozen_string_literal: true

require "minitest/mock"
require_relative "fake_connections"

module NeverBlockTest
  # For unit tests of the multiplexer: one whose connections are fakes.
  #
  #   include NeverBlockTest::FakeMultiplexer
  #   in_loop { multiplexer { |sql| fake.ok }.run(statement("select 1")) }
  module FakeMultiplexer
    include FakeConnections

    # Stands for ConnectionFactory.
    class Factory
      attr_reader :opened, :disowned
      attr_accessor :failure

      # @yieldparam owner [Multiplexer]
      # @yieldreturn [PipelinedConnection]
      def initialize(&make)
        @make = make
        @opened = []
        @disowned = 0
      end

      def call(_session_defaults, owner)
        raise failure if failure
        @make.call(owner).tap { |connection| @opened << connection }
      end

      def disown = @disowned += 1
    end

    def teardown
      @multiplexer&.close
      super
    end

    private

    def fake = NeverBlockTest::FakePg

    # @return [Array<FakePg>] of the connections that were opened
    def pgs = @factory.opened.map(&:pg)

    # @yieldparam sql [String] as FakePg's; without a block every statement has one row
    def multiplexer(connections: 2, **options, &server)
      server ||= ->(_sql) { fake.ok }
      factory = @factory = Factory.new { |owner| connection(owner:, &server).tap { |one| one.baseline = {} } }
      @multiplexer = NeverBlock::Postgres::ConnectionFactory.stub(:new, ->(*, **) { factory }) do
        NeverBlock::Postgres::Multiplexer.new(-> {}, connections:, log: ->(line) { (@log ||= []) << line }, **options)
      end
    end
  end
end
