# frozen_string_literal: true

# Servers that all run at once, asked in turns: a machine that is shared changes its pace from second to second, by a factor of
# two at times, and what follows each other within a second or two is compared at one pace.
#
#   samples = Bench::Rails::Turns.new(row, seconds: 1).call([ours, falcon])    # => [[{"rate" => 2_100.0, ...}, ...], [...]]
#   Bench::Rails::Turns.ratio(*results) { |turn| turn["rate"] }                # => 1.07
module Bench
  class Rails
    class Turns
      TURNS = 10
      WARM = 3 # seconds of it, until YJIT has done with it

      # @param row [Servers::Row]
      # @param seconds [Numeric]
      def initialize(row, seconds:)
        @row = row
        @seconds = seconds
      end

      # @param servers [Array<Servers::Running>]
      # @return [Array<Array<Hash{String=>Object}>>] the turns of each
      # @raise [Failure]
      def call(servers)
        servers.each do |server|
          server.expect(@row)
          Servers::Wrk.warm_up(server.port, @row, WARM)
        end
        samples = servers.map { [] }
        TURNS.times do |turn|
          servers.zip(samples).rotate(turn % servers.size).each do |server, own|
            own << server.watch(objects: false) { Servers::Wrk.run(server.port, @row, @seconds) }
          end
        end
        samples
      end

      # @param mine [Result]
      # @param peer [Result]
      # @yieldparam sample [Hash] of one turn
      # @yieldreturn [Numeric]
      # @return [Float, nil] the median of what one has beside the other in the same turn
      def self.ratio(mine, peer)
        return unless mine.any? && peer.any?
        Statistics.median(mine.samples.zip(peer.samples).map { |one, other| yield(one).fdiv(yield(other)) })
      end
    end
  end
end
