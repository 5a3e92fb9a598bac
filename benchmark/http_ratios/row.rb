# frozen_string_literal: true

# A row of the http_ratios benchmark: so many short requests for each long one, so many at once.
#
#   Bench::HttpRatios::Row.new(short: 20, concurrency: 100).id      # => "1_to_20_at_100"
module Bench
  class HttpRatios
    Row = Data.define(:short, :concurrency) do
      # @return [String] one word
      def id = "1_to_#{short}_at_#{concurrency}"

      # @return [String]
      def title = "1 long to #{short} short, #{concurrency} at once"

      # @param contestant [Contestant]
      # @return [String] the request's bytes
      def raw(contestant) = Servers::Row.new(id:, title:, path: "/#{contestant.name}/#{short}").raw

      # @return [Integer] to the database
      def round_trip = 0

      # @return [Boolean] whether --quick has it
      def quick? = [5, 100].include?(short)
    end
  end
end
