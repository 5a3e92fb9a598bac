# frozen_string_literal: true

require_relative "package"
require_relative "contestant"
require_relative "verdicts"

module Conformance
  module HttpCache
    # The suite against one cache, with an origin server of its own for each try.
    #
    #   run = Run.new(Package.find, Contestant.named("neverblock")).call
    #   run.verdicts.passed("optimal").size
    class Run
      # The tests wait for responses to become stale, by a second or two, so a busy machine makes some fail. What passes
      # in one of these tries passes.
      TRIES = 3

      # @return [Contestant]
      attr_reader :contestant
      # @return [Verdicts]
      attr_reader :verdicts
      # @return [Float] seconds of all tries
      attr_reader :time

      # @param package [Package]
      # @param contestant [Contestant]
      def initialize(package, contestant)
        @package = package
        @contestant = contestant
      end

      # @return [self]
      def call
        started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        results = {}
        TRIES.times do
          results.merge!(try) { |_, old, new| (old == true) ? old : new }
          @verdicts = Verdicts.new(@package, results)
          break if settled?
        end
        @time = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
        self
      end

      private

      # Of another cache it is not known what fails, so it gets a second chance too.
      def settled?
        return @verdicts.unexpected.empty? if @contestant.name == "neverblock"
        before, @before = @before, @verdicts.results.count { |_, result| result == true }
        before == @before
      end

      def try
        Dir.mktmpdir("nb") do |folder|
          port = NeverBlockTest::Peer.free_port
          environment, command = @package.origin(port, folder)
          origin = NeverBlockTest::Peer.start { ["env", *environment.map { |pair| pair.join("=") }, "sh", "-c", 'cd "$0" && exec "$@"', @package.folder, *command] }
          origin.until_ready { NeverBlockTest::Peer.listens?(port) }
          @contestant.open(port) { |url| @package.call(url) }
        ensure
          origin&.stop
        end
      end
    end
  end
end
