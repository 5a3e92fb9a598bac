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

    # Seconds that a call takes at least, by the kind of its row. What computes has to take longer than a thread may keep
    # Ruby's lock from the others, which is 0.1 s.
    SHORTEST = {waits: Stage::WAIT / 2, computes: Stage::WAIT * 1.5, quick: 0}.freeze

    # Seconds that the loop may be asleep while another process takes Stage::WAIT, and the part of the time that it may
    # stand still while another thread computes.
    PATIENCE = Stage::WAIT * 0.75
    SHARE = 0.5

    # A call that cannot have waited, or had too little to do.
    TOO_SHORT = "returns too early"

    # @param row [Row]
    # @param seen [Probe::Seen]
    def self.of(row, seen)
      if seen.error then new((seen.error == Stage::WrongResult.name) ? "returns the wrong thing" : "raises #{seen.error}")
      elsif seen.elapsed < SHORTEST.fetch(row.kind) then new(TOO_SHORT)
      elsif !seen.left then new((row.kind == :quick) ? "inline" : "BLOCKS")
      elsif blocked?(row, seen) then new("BLOCKS", conclusive: false)
      else new(going_on(seen.parked))
      end
    end

    # What computes on the loop's thread keeps that thread awake.
    def self.blocked?(row, seen) = (row.kind == :computes) ? seen.gap > [PATIENCE, seen.elapsed * SHARE].max : seen.asleep > PATIENCE

    def self.going_on(parked)
      return "parks" if parked.empty?
      "#{(parked - OFFLOADING).empty? ? "offloaded" : "parks"}: #{parked.join(", ")}"
    end
    private_class_method :blocked?, :going_on

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
