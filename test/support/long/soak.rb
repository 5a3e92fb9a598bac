# frozen_string_literal: true

require_relative "sampled"
require_relative "watched_server"

module NeverBlockTest
  # Traffic of every kind in rounds, with the server's resources after each round, when all clients have left.
  #
  #   soak = Soak.new(rounds: 12, seconds: 10, seed: 1).call
  #   soak.samples.map { |sample| sample["pss"] }
  #   soak.wrong   # => []
  class Soak
    include Sampled

    PROGRAM = File.join(__dir__, "traffic.rb")

    # @return [Array<Hash>] resources: before the first round, and after each
    attr_reader :samples

    # @return [Hash{String=>Integer}] visits, by kind
    attr_reader :visits

    # @return [Integer] answered requests, and those of them with 503
    attr_reader :requests, :refused

    # @return [Array<String>] wrong answers
    attr_reader :wrong

    # @param rounds [Integer]
    # @param seconds [Integer] of each
    # @param seed [Integer]
    def initialize(rounds:, seconds:, seed:)
      @rounds = rounds
      @seconds = seconds
      @seed = seed
      @samples = []
      @visits = Hash.new(0)
      @requests = @refused = 0
      @wrong = []
    end

    # @return [self]
    def call
      WatchedServer.open do |server|
        @samples << server.at_rest
        @rounds.times do |round|
          take(traffic(server.port, @seed + round))
          @samples << server.at_rest
        end
      end
      self
    end

    private

    def traffic(port, seed)
      output, input = IO.pipe
      pid = WatchedServer.spawn(PROGRAM, port.to_s, @seconds.to_s, seed.to_s, in: File::NULL, out: input)
      input.close
      raise Minitest::Assertion, "the clients did not come back" unless output.wait_readable(@seconds + 60)
      text = output.read
      status = Process.wait2(pid).last
      pid = nil
      raise Minitest::Assertion, "the clients ended with #{status}" unless status.success?
      JSON.parse(text)
    ensure
      Process.kill(:KILL, pid) && Process.wait(pid) if pid
      output.close
    end

    def take(report)
      @visits.merge!(report["visits"]) { |_, one, more| one + more }
      @requests += report["requests"]
      @refused += report["refused"]
      @wrong.concat(report["wrong"])
    end
  end
end
