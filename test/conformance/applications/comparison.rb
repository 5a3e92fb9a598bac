# frozen_string_literal: true

require_relative "contestant"
require_relative "load"
require_relative "server"

module Conformance
  module Applications
    # An application under the same load on each server. In each round every server is restarted, one after the other,
    # with the seeded database and an empty cache; the order rotates. A single visitor comes first, whose answers are
    # compared; then all come at once, and are measured.
    #
    #   comparison = Comparison.new(application, rounds: 10, visits: 10).call { |line| puts line }
    #   comparison.ratio("cpu", puma)         # => #<data Bench::Ratio mean=0.97 ...>
    #   comparison.mistakes                   # => [], answers that differ, or contradict the description
    class Comparison
      VISITORS = 20

      # The figures, and whether more is better.
      FIGURES = {"cpu" => false, "rate" => true, "p50" => false, "p99" => false, "pss" => false}.freeze

      # @param application [Application] prepared
      # @param rounds [Integer] two or more
      # @param visits [Integer] per visitor
      def initialize(application, rounds:, visits:)
        @application = application
        @rounds = rounds
        @visits = visits
        @samples = Contestant.all.to_h { |contestant| [contestant, []] }
        @mistakes = []
        @varies = Regexp.union(Visitor::TOKEN, /name="authenticity_token"[^>]*/, *application.description.fetch("varies", []).map { |text| Regexp.new(text) })
      end

      # @return [Hash{Contestant=>Array<Hash>}] a sample for each round
      attr_reader :samples
      # @return [Array<String>]
      attr_reader :mistakes

      # @yieldparam line [String] progress
      # @return [self]
      def call
        Bench::Servers::Core::CLIENT.hold do
          @rounds.times do |round|
            samples.keys.rotate(round).each do |contestant|
              sample = measure(contestant)
              samples[contestant] << sample
              yield "#{round + 1}/#{@rounds} #{contestant}: #{sample.map { |figure, value| "#{figure} #{value.round(4)}" }.join(", ")}"
            end
          end
        end
        self
      end

      # @return [Bench::Ratio] of our figure to theirs
      def ratio(figure, peer) = Bench::Ratio.of(values(figure, Contestant.all.find(&:ours?)), values(figure, peer))

      # @return [Float]
      def median(figure, contestant) = Bench::Statistics.median(values(figure, contestant))

      private

      def values(figure, contestant) = samples.fetch(contestant).map { |sample| sample.fetch(figure) }

      def measure(contestant)
        @application.database.reset
        Server.open(@application, contestant) do |server|
          load = Load.new(server.port, **@application.description.slice("login", "visit", "host").transform_keys(&:to_sym), visitors: VISITORS, visits: @visits)
          compare(contestant, load.walk)
          cpu = server.tree.cpu
          sample = load.call
          cpu = server.tree.cpu - cpu
          @mistakes.concat(sample.delete("mistakes").map { |mistake| "#{contestant}: #{mistake}" })
          {**sample, "cpu" => cpu / sample.fetch("requests"), "pss" => server.tree.memory}
        end
      end

      # With the first walk of all servers.
      def compare(contestant, answers)
        @mistakes.concat(answers.filter_map(&:mistake).map { |mistake| "#{contestant}, alone: #{mistake}" })
        bodies = answers.map { |answer| answer.body.gsub(@varies, "VARIES") }
        @bodies ||= bodies
        bodies.zip(@bodies, answers) { |body, first, answer| @mistakes << "#{contestant}: another answer to #{answer.step}: #{difference(body, first)}" unless body == first }
      end

      def difference(body, first)
        mine, other = body.lines.zip(first.lines).find { |line, its| line != its } || [body.lines.last, first.lines[body.lines.size]]
        "#{mine.inspect} where #{other.inspect} came first"
      end
    end
  end
end
