# frozen_string_literal: true

# The rows of bin/bench crowded: how a server is started among processes that compute.
#
#   Bench::Crowded::Row.new(id: "nice", title: "nice -5", nice: -5).missing   # => nil, or why it can't be measured
require_relative "group"

module Bench
  class Crowded
    # workers: 0 is a single process; own_group: whether the server has a control group of its own.
    Row = Data.define(:id, :title, :workers, :nice, :own_group) do
      def initialize(id:, title:, workers: 0, nice: 0, own_group: false) = super

      # @return [String, nil] why it can't be measured here
      def missing
        return "nice below 0 needs root" if nice.negative? && !Process.uid.zero?
        "control groups with the controller cpu can't be made here" if own_group && !Group.possible?
      end

      # @return [Boolean] whether Puma has more threads than one that compute
      def waits = false
    end
  end
end
