# frozen_string_literal: true

module NeverBlockFuzz
  # Differences between the stock adapter and ours that are known, each with its reason. Where the reason ends, so does
  # the line.
  #
  #   SqlKnown.reason(:many, ["ok", 1], ["ok", 2])      # => nil, a new difference
  module SqlKnown
    # Pairs of a reason and a test, which gets the word and both results.
    ALL = [].freeze

    # @return [String, nil]
    def self.reason(word, stock, ours) = ALL.find { |_, test| test.call(word, stock, ours) }&.first
  end
end
