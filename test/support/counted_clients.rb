# frozen_string_literal: true

require_relative "runs"

module NeverBlockTest
  # For tests of connection pools: connections without a server, which count how often they are closed.
  #
  #   class PoolTest < Minitest::Test
  #     include NeverBlockTest::CountedClients
  #     def test_one = pool(size: 1).with { |client| assert_same @clients.last, client }
  #   end
  module CountedClients
    include Runs

    # A client without a server.
    class Client
      attr_reader :closes

      def initialize = @closes = 0

      def close = @closes += 1

      def closed? = @closes > 0
    end

    def setup
      super
      @clients = []
    end

    # @return [NeverBlock::ConnectionPool] one whose clients are in `@clients`, in the order in which they were opened
    def pool(**options) = NeverBlock::ConnectionPool.new(**options) { Client.new.tap { |client| @clients << client } }
  end
end
