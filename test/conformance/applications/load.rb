# frozen_string_literal: true

require_relative "visitor"

module Conformance
  module Applications
    # Simultaneous visitors; each logs in and then repeats its visits.
    #
    #   load = Load.new(port, login:, visit:, visitors: 20, visits: 6)
    #   load.walk.map(&:body)      # one visitor alone, for a comparison of answers
    #   load.call                  # => {"requests" => 780, "rate" => 51.2, "p50" => 0.2, ..., "mistakes" => []}
    class Load
      # @param port [Integer]
      # @param login [Array<Hash>] steps, see {Visitor}
      # @param visit [Array<Hash>]
      # @param visitors [Integer]
      # @param visits [Integer] per visitor
      # @param host [String] see {Visitor}
      def initialize(port, login:, visit:, visitors:, visits:, host: Visitor::HOST)
        @port = port
        @host = host
        @login = login
        @visit = visit
        @visitors = visitors
        @visits = visits
      end

      # @return [Array<Visitor::Answer>]
      def walk = answers(0, 1)

      # @return [Hash{String=>Object}]
      def call
        started = now
        answers = Array.new(@visitors) { |number| Thread.new { answers(number + 1, @visits) } }.flat_map(&:value)
        seconds = now - started
        times = answers.map(&:seconds).sort
        {"requests" => answers.size, "rate" => answers.size / seconds, "p50" => share(times, 0.5), "p90" => share(times, 0.9), "p99" => share(times, 0.99),
         "mistakes" => answers.filter_map(&:mistake)}
      end

      private

      def answers(number, visits)
        visitor = Visitor.new(@port, number, host: @host)
        @login.map { |step| visitor.call(step) } + Array.new(visits) { visitor.turn! && @visit.map { |step| visitor.call(step) } }.flatten(1)
      ensure
        visitor.leave
      end

      def share(times, part) = times[((times.size - 1) * part).round]

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
