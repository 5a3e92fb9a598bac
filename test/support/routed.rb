# frozen_string_literal: true

module NeverBlockTest
  # For tests of the PostgreSQL client's router without a server: a router (@router) for three connections.
  #
  #   @router.opened(connection = Connection.new, request)
  #   connection.end_one
  #   @router.settle(connection)
  module Routed
    # Stands for a PipelinedConnection: it counts its statements.
    Connection = Struct.new(:depth, :capacity, :session_defaults, :holder, :draining, :loop, :broken, :running, :relieving, :rests, :lent, :stale) do
      def initialize(depth: 0, capacity: 64, session_defaults: :plain, draining: false, running: 0.0) = super

      def rests?(seconds) = rests.to_f > seconds

      def idle? = depth.zero?

      def push(_statement) = self.depth += 1

      def end_one = self.depth -= 1

      def ==(other) = equal?(other) # equal structs are different connections
    end

    def setup
      super
      skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
      require "neverblock/postgres"
      @timings = NeverBlock::Postgres::Timings.new
      @router = NeverBlock::Postgres::Router.new(limit: 3, timings: @timings)
    end
  end
end
