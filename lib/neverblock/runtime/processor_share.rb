# frozen_string_literal: true

module NeverBlock
  # How much of the last seconds this process computed. What waits in a loop that computes may lack nothing but its turn.
  #
  #   share = ProcessorShare.new
  #   share.note              # whenever something begins or ends to wait
  #   share.over(0.5)         # => 0.93; nil: not known
  #   share.saturated?(0.5)   # => true
  # @api private
  class ProcessorShare
    # Seconds between two notes that are kept, and how many are.
    EVERY, KEPT = 0.02, 512
    # From here on the processor is what is short. Other processes take of it too, so it is less than all of it.
    SATURATED = 0.7

    # @param wall [#call] the time in seconds
    # @param computed [#call] seconds that this process has computed, in all its threads
    def initialize(wall: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }, computed: -> { Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) })
      @wall = wall
      @computed = computed
      @notes = []
    end

    # @return [Float] the time
    def note
      now = @wall.call
      if @notes.empty? || now - @notes.last.first >= EVERY
        @notes << [now, @computed.call]
        @notes.shift if @notes.size > KEPT
      end
      now
    end

    # @param seconds [Numeric]
    # @return [Float, nil] nil where less than half of them were noted; of more than 10 the last 10
    def over(seconds)
      now = @wall.call
      seconds = [seconds, EVERY * KEPT].min
      began, computed = @notes.reverse_each.find { |at, _| at <= now - seconds } || @notes.first
      (@computed.call - computed) / (now - began) if began && now > began && now - began >= seconds / 2.0
    end

    # @param seconds [Numeric]
    # @return [Boolean] whether the processor was what was short
    def saturated?(seconds) = (over(seconds) || 0) >= SATURATED
  end
end
