# frozen_string_literal: true

require_relative "../clock"

module NeverBlock
  # {Clock.now} by a short name, for deadlines and ages.
  #
  #   include MonotonicClock
  #
  #   def late? = now > @deadline
  # @api private
  module MonotonicClock
    private

    # @return [Float] seconds
    def now = Clock.now
  end
end
