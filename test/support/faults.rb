# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require "tmpdir"

module NeverBlockTest
  # Lets a program's calls of the system fail at the n-th time: see faults.c, which is compiled here and preloaded.
  #
  #   Faults.open do |faults|
  #     ServeProcess.open(app, environment: faults.environment) do |served|
  #       faults.walk(:thread, -> { served.get("/") }) { |number, answer| … }
  #     end
  #   end
  class Faults
    # In the order of faults.c.
    KINDS = %i[descriptor connect thread write stack].freeze
    MOST = 200 # calls of one kind: more would be an endless loop

    # @yieldparam faults [Faults]
    def self.open
      Dir.mktmpdir("neverblock-faults") { |folder| yield new(folder) }
    end

    # @return [String, nil] why it can't be used
    def self.missing
      "a library can only be preloaded on Linux" unless RUBY_PLATFORM.include?("linux")
    end

    def initialize(folder)
      @library = File.join(folder, "faults.so")
      @counters = File.join(folder, "counters")
      source = File.join(__dir__, "faults.c")
      system("cc", "-O1", "-fPIC", "-shared", "-o", @library, source, "-ldl", exception: true)
      reset
    end

    # @return [Hash{String=>String}] for the program
    def environment = {"LD_PRELOAD" => @library, "NEVERBLOCK_TEST_FAULTS" => @counters}

    # Has the step run with its first call failing, with its second, and so on.
    # @param kind [Symbol] of KINDS
    # @param step [#call]
    # @yieldparam number [Integer]
    # @yieldparam result [Object] of the step; all calls succeed again
    # @return [Integer] how many calls have failed
    def walk(kind, step)
      (1..MOST).each do |number|
        set(kind, number)
        result = step.call
        left = counter(kind)
        reset
        yield number, result
        return number - 1 if left > 0
      end
      raise "more than #{MOST} calls: #{kind}"
    end

    # @return [void]
    def reset = File.binwrite(@counters, [0].pack("i") * KINDS.size, 0)

    private

    def set(kind, number) = File.binwrite(@counters, [number].pack("i"), place(kind))

    def counter(kind) = File.binread(@counters, 4, place(kind)).unpack1("i")

    def place(kind) = KINDS.index(kind) * 4
  end
end
