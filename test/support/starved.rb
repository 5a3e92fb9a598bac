# frozen_string_literal: true

require_relative "helpers"

module NeverBlockTest
  # Programs that run out of memory: of address space, as under `ulimit -v`.
  #
  #   starved_ruby(<<~RUBY)
  #     starve { exhaust }         # starts fibers until no more can be started; they stay
  #   RUBY
  module Starved
    include Helpers

    # Large stacks: they are what lacks, and other allocations succeed. Ruby itself can hang in a NoMemoryError.
    STACKS = {"RUBY_FIBER_MACHINE_STACK_SIZE" => (8 << 20).to_s}.freeze

    # Ruby takes stacks for many fibers at a time, so many can be started before the first failure.
    CODE = <<~'RUBY'
      def starve
        GC.start
        used = File.read("/proc/self/status")[/VmSize:\s+(\d+)/, 1].to_i * 1024
        limit, hard = Process.getrlimit(:AS)
        Process.setrlimit(:AS, used + 40_000_000, hard)
        yield
      ensure
        Process.setrlimit(:AS, limit, hard)
      end

      def exhaust
        $fibers = []
        loop { $fibers << Fiber.new { Fiber.yield }.tap(&:resume) }
      rescue FiberError, NoMemoryError => error
        error.message
      end
    RUBY

    def setup
      super
      skip "this system has no /proc" unless File.exist?("/proc/self/status")
      skip "the address sanitizer takes all address space" if ENV["ASAN_OPTIONS"]
    end

    # @return [Array<String>] the lines of its output
    def starved_ruby(code) = assert_ruby("require \"neverblock\"\n#{CODE}#{code}", environment: STACKS).lines(chomp: true)
  end
end
