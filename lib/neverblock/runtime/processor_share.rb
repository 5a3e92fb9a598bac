# frozen_string_literal: true

module NeverBlock
  # Measures how much of a recent period this process computed. In a loop that computes, a
  # wait may be a wait for its turn.
  #
  #   share = ProcessorShare.new
  #   share.note              # at each begin and end of a wait
  #   share.over(0.5)         # => 0.93; nil: unknown
  #   share.saturated?(0.5)   # => true
  # @api private
  class ProcessorShare
    # EVERY: minimum seconds between two kept notes. KEPT: maximum number of kept notes.
    EVERY, KEPT = 0.02, 512
    # The share from which the processor counts as the bottleneck; below 1, because other processes use it too.
    SATURATED = 0.7

    # @param computed [#call] returns the seconds of processor time of this process, over all threads
    def initialize(computed: -> { Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) })
      @computed = computed
      @notes = []
    end

    # Records the processor time.
    # @return [Float] the current time
    def note
      now = Clock.now
      if @notes.empty? || now - @notes.last.first >= EVERY
        @notes << [now, @computed.call]
        @notes.shift if @notes.size > KEPT
      end
      now
    end

    # @param seconds [Numeric] the period; at most 10 s are covered
    # @return [Float, nil] nil if less than half of the period was recorded
    def over(seconds)
      now = Clock.now
      seconds = [seconds, EVERY * KEPT].min
      began, computed = @notes.reverse_each.find { |at, _| at <= now - seconds } || @notes.first
      (@computed.call - computed) / (now - began) if began && now > began && now - began >= seconds / 2.0
    end

    # @param seconds [Numeric]
    # @return [Boolean] whether the processor was the bottleneck
    def saturated?(seconds) = (over(seconds) || 0) >= SATURATED
  end
end
