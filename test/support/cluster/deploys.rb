# frozen_string_literal: true

require_relative "../accounting"
require_relative "../serve_process"
require_relative "releases"

module NeverBlockTest
  # Deployments under load, as tools do them: a new release, a switch of its link, a signal. A deployment is over when
  # only the new release answers. Every third one is preceded by a release that can't be loaded.
  #
  #   deploys = Deploys.new("USR1", count: 3).call
  #   deploys.lost        # => []
  #   deploys.answered    # => 12_345
  class Deploys
    include Clock

    WORKERS = 2
    SLEEP = 0.3 # seconds that some requests take: longer than the switch of a link, shorter than a deployment

    # @return [Array<Accounting::Loss>] requests without their answer
    attr_reader :lost

    # @return [Integer]
    attr_reader :sent, :answered, :refused

    # @return [Float]
    attr_reader :seconds

    # @param signal [String] "USR1" or "USR2"
    # @param count [Integer] of deployments that succeed
    # @param releases [#new] the kind of app
    # @param pause [Numeric] seconds between a client's requests; with 0 the clients use up the processors
    def initialize(signal, count:, releases: Releases, pause: 0.01)
      @signal = signal
      @count = count
      @kind = releases
      @pause = pause
      @refused = 0
    end

    # @return [self]
    # @raise [Minitest::Assertion] if a condition isn't met in time
    def call
      began = now
      ServeProcess.open(method(:prepare), **@kind.process) do |served|
        @served = served
        @loads = [["/", 4, 0], ["/sleep?#{SLEEP}", 4, 0], ["/read", 2, 100_000]].map { |path, clients, size|
          Accounting.new(served.port, clients:, path: "#{@kind.path}#{path}", size:, pause: @pause)
        }.each(&:start)
        @count.times { |number| deploy(number + 1) }
        @loads.each(&:stop)
        @served.stop
      end
      @seconds = now - began
      @sent, @answered = %i[sent answered].map { |figure| @loads.sum(&figure) }
      @lost = @loads.flat_map(&:lost)
      self
    end

    private

    def prepare(folder)
      @releases = @kind.new(folder, workers: WORKERS)
      @releases.publish("release 0")
    end

    def deploy(number)
      fail_to_deploy if number % 3 == 2
      before = @served.workers
      @releases.publish("release #{number}")
      @served.signal(@signal)
      await("its success") { said("#{WORKERS} of #{WORKERS} workers have been replaced") == number }
      await("the end of the old workers") { @served.workers.size == WORKERS && (@served.workers & before).empty? }
      await("release #{number} alone") { @loads.all? { |load| load.only?("release #{number}") } }
    end

    def fail_to_deploy
      before = @served.workers
      @releases.publish("broken", broken: "raise 'this release is broken'")
      @served.signal(@signal)
      await("the failure") { said(/can't be loaded again; the old one stays: .*this release is broken/) == @refused + 1 }
      @refused += 1
      raise Minitest::Assertion, "a broken release cost workers" unless @served.workers.sort == before.sort
    end

    def said(pattern) = @served.errors.scan(pattern).size

    def await(what, &) = @served.until_true(what, &)
  end
end
