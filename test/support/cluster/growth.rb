# frozen_string_literal: true

require_relative "../accounting"
require_relative "../serve_process"
require_relative "releases"

module NeverBlockTest
  # Measures how a worker's memory grows over a number of requests after the warm-up.
  #
  #   Growth.new(requests: 200_000).call.bytes   # => 123_456
  class Growth
    WARM = 40_000 # requests until Ruby's heap has reached its size and pages shared by the fork have been copied

    # @return [Integer] bytes of its proportional set size
    attr_reader :before, :after

    # @return [Integer] requests between the two measurements, and lost requests
    attr_reader :answered, :lost

    # @param requests [Integer]
    # @param warm [Integer]
    # @param releases [#new] the kind of app
    def initialize(requests:, warm: WARM, releases: Releases)
      @requests = requests
      @warm = warm
      @kind = releases
    end

    # @return [self]
    def call
      ServeProcess.open(->(folder) { @kind.new(folder, workers: 1).publish("release") }, **@kind.process) do |served|
        @served = served
        load(@warm)
        @before = memory
        accounting = load(@requests)
        @after = memory
        @answered = accounting.answered
        @lost = accounting.lost.size
      end
      self
    end

    # @return [Integer]
    def bytes = @after - @before

    private

    def load(requests)
      Accounting.new(@served.port, clients: 8, path: @kind.pages).start.tap do |accounting|
        sleep 0.05 until accounting.answered >= requests # real: the server process answers
        accounting.stop
      end
    end

    def memory
      @served.body("#{@kind.path}/collect")
      File.read("/proc/#{@served.workers.first}/smaps_rollup")[/^Pss:\s+(\d+) kB/, 1].to_i * 1024
    end
  end
end
