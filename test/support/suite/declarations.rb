# frozen_string_literal: true

module NeverBlockTest
  class Suite
    # What a test file declares about itself in comments at its top, each with a reason:
    #
    #   # engines: every - the back end watches the descriptors
    #   # slow: it starts whole programs (60 s)
    #   # chaos: random programs, with a new seed for each run
    #   # serial: it measures processor time
    #
    #   Declarations.of("test/unit/scheduler/io_wait_test.rb").engines  # => "every"
    #
    # A file runs on one engine, the default of the machine, unless it declares that it needs every engine: tests of the
    # engine, the scheduler, transports, files and processes, and a few whole programs. A slow file runs in
    # `bin/test --all` only; single tests are marked with `slow` (test/support/marks.rb). Chaos is slow too, and runs on
    # one of the Rubies of .ci/run. The seconds are for files that take more than half a minute: they tell the runner
    # which file to start first before it has measured any. Serial files measure real time: they run one after another,
    # when all other runs have ended.
    class Declarations
      ROOT = File.expand_path("../../..", __dir__)
      LINE = /\A# (engines|slow|chaos|serial): (.+)/

      # @param file [String] its path below the project's folder, or an absolute one
      # @return [Declarations] the same object for each call
      def self.of(file)
        @known ||= {}
        file = File.expand_path(file, ROOT)
        @known[file] ||= new(file)
      end

      # @param path [String] absolute
      def initialize(path)
        @found = {}
        File.foreach(path, encoding: Encoding::UTF_8) do |line|
          break unless line.match?(/\A(#|\s*\z|require)/)
          line.match(LINE) { |match| @found[match[1]] = match[2] }
        end
        return if @found.fetch("engines", "one").match?(/\A(one|every - .)/)
        raise ArgumentError, "#{path} declares the engines #{@found["engines"].inspect}: \"every - \" and the reason, or nothing"
      end

      # @return ["every", "one"]
      def engines = @found.fetch("engines", "one")[/\A\w+/]

      # @return [String, nil] why all its tests are slow
      def slow = @found["slow"] || chaos

      # @return [Integer, nil] about how many seconds the file takes
      def seconds = slow&.[](/\((\d+) s\)\z/, 1)&.to_i

      # @return [String, nil] why nothing else may run at the same time
      def serial = @found["serial"]

      # @return [String, nil] why one Ruby is enough
      def chaos = @found["chaos"]
    end
  end
end
