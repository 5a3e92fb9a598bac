# frozen_string_literal: true

require_relative "stage"

module WhatBlocks
  # What is said about one row, after one look at it:
  #
  #   Verdict.of(row, seen).to_s    # => "parks: io_wait"
  #   Verdict.new("inline").good?   # => true
  #
  # The words are explained at the head of the document.
  class Verdict
    # The scheduler's methods behind which another thread does the work.
    OFFLOADING = %w[blocking_operation_wait address_resolve getaddrinfo getnameinfo flock fsync fdatasync].freeze

    # Seconds that a call which waits or computes takes at least.
    SHORTEST = Stage::WAIT / 2

    # Seconds that the loop may be blocked while another process takes Stage::WAIT,
    # and the part of the time that it may while another thread computes.
    PATIENCE = Stage::WAIT * 0.75
    SHARE = 0.5

    # A call that cannot have waited, or had too little to do.
    TOO_SHORT = "returns too early"

    # @param row [Row]
    # @param seen [Probe::Seen]
    def self.of(row, seen)
      if seen.error then new((seen.error == Stage::WrongResult.name) ? "returns the wrong thing" : "raises #{seen.error}")
      elsif row.kind != :quick && seen.elapsed < SHORTEST then new(TOO_SHORT)
      elsif !seen.left then new((row.kind == :quick) ? "inline" : "BLOCKS")
      elsif seen.gap > patience(row, seen) then new("BLOCKS", conclusive: false)
      else new(going_on(seen.parked))
      end
    end

    def self.patience(row, seen) = (row.kind == :computes) ? [PATIENCE, seen.elapsed * SHARE].max : PATIENCE

    def self.going_on(parked)
      return "parks" if parked.empty?
      "#{(parked - OFFLOADING).empty? ? "offloaded" : "parks"}: #{parked.join(", ")}"
    end
    private_class_method :patience, :going_on

    # @param words [String]
    # @param conclusive [Boolean] false where a busy machine may be to blame
    def initialize(words, conclusive: true)
      @words = words
      @conclusive = conclusive
    end

    def to_s = @words

    # @return [Boolean] whether the loop went on, or had no reason to
    def good? = @words.match?(/\A(parks|offloaded|inline)/)

    # @return [Boolean] whether it was over before anything could be seen
    def too_short? = @words == TOO_SHORT

    # @return [Boolean] whether looking again could end differently
    def final? = good? || (@conclusive && @words == "BLOCKS")
  end
end
