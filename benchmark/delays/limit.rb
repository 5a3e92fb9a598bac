# frozen_string_literal: true

# The least time in which a client could have made its requests, given what its
# code costs: all its processor time, or what it used until its last request was
# sent plus the delay of the answer, whichever is more.
#
#   Bench::Limit.seconds(cpu: 0.3, cpu_until_sent: 0.25, delay: 0.5)      # => 0.75
module Bench
  module Limit
    # @param cpu [Float] seconds of processor time the client used in all
    # @param cpu_until_sent [Float] seconds of it until the last request was sent
    # @param delay [Float] seconds the back end waits before each answer
    # @return [Float] seconds
    def self.seconds(cpu:, cpu_until_sent:, delay:) = [cpu, cpu_until_sent + delay].max

    # The limit of the machine when clients and back end share its processors.
    # @param limit [Float] seconds, of the slowest client by itself
    # @param cpu [Float] seconds of processor time of all clients and the back end
    # @param processors [Integer]
    # @return [Float] seconds
    def self.shared(limit, cpu:, processors:) = [limit, cpu / processors].max
  end
end
