# frozen_string_literal: true

require "open3"
require "rbconfig"
require_relative "clock"
require_relative "limit"

module NeverBlockTest
  # Helpers for many tests: wait for a condition instead of sleeping, and run programs in a Ruby of their own, under
  # this run's engine or any other.
  module Helpers
    include Clock

    # All engines, whether or not this machine supports them.
    ENGINES = %w[epoll uring poll].freeze

    # The beginning of a command for Ruby, and its environment, for programs without gems: Ruby then starts in a fifth
    # of the time. Libraries of Ruby 3.4 expect that RubyGems has loaded RbConfig. `rake coverage` adds an option for
    # each Ruby.
    BARE = [{"RUBYOPT" => ENV["NEVERBLOCK_TEST_RUBYOPT"]}.freeze, RbConfig.ruby, "--disable=gems", "-rrbconfig"].freeze

    # The result of a Ruby program.
    Outcome = Struct.new(:stdout, :stderr, :status)

    # Runs Ruby code in a fresh process with our lib/ in its path (and before it the
    # other build of the extension, if this run is for one):
    #
    #   outcome = run_ruby(<<~RUBY, engine: "poll")
    #     require "neverblock"
    #     NeverBlock.run { puts NeverBlock.engine }
    #   RUBY
    #
    # @param code [String] the program
    # @param engine [String, nil] forces an engine; nil leaves this run's
    # @param environment [Hash{String=>String,nil}] further variables
    # @param options [Array<String>] given to ruby before the program, such as "--yjit"
    # @param limit [Numeric] seconds until it is killed and the test fails
    # @param gems [Boolean] whether it may load gems of the bundle; without them, Ruby starts in a fifth of the time
    # @return [Outcome]
    def run_ruby(code, engine: nil, environment: {}, options: [], limit: LIMIT, gems: false)
      environment = environment.merge("NEVERBLOCK_ENGINE" => engine) if engine
      environment, options = {**BARE.first, **environment}, [*BARE.drop(2), *options] unless gems
      libraries = [*ENV["NEVERBLOCK_TEST_LIBRARY"], File.join(ROOT, "lib")].flat_map { |folder| ["-I", folder] }
      command = [RbConfig.ruby, "-w", *libraries, *options, "-"]
      Open3.popen3(environment, *command, chdir: ROOT) do |input, output, errors, process|
        readers = [output, errors].map { |io| Thread.new { io.read } }
        input.write(code)
        input.close
        unless process.join(limit)
          Process.kill(:KILL, process.pid)
          flunk "a program ran longer than #{limit} s:\n#{code}\n#{readers.map(&:value).join("\n")}"
        end
        Outcome.new(*readers.map(&:value), process.value)
      end
    end

    # The same, and fails the test unless the program exits with 0 and writes nothing to standard error.
    # @return [String] its standard output
    def assert_ruby(code, **)
      outcome = run_ruby(code, **)
      assert outcome.status.success?, "the program failed (#{outcome.status}):\n#{outcome.stderr}\n#{outcome.stdout}"
      assert_empty outcome.stderr
      outcome.stdout
    end

    # Waits until the block is true.
    # @param what [String] names the condition in the failure
    # @return [Object] the block's value
    def wait_until(what = "the condition", &) = NeverBlockTest.wait_until(what, pause: 0.005, &)

    # @param pid [Integer]
    # @return [Boolean] whether the process has ended; a zombie is still listed
    def ended?(pid)
      File.read("/proc/#{pid}/stat").include?(") Z")
    rescue Errno::ENOENT, Errno::ESRCH # it ended before it was opened, or read
      true
    end

    # The minimum of several measurements: allocations of other threads would only add to it.
    # @param times [Integer] calls of the block per measurement
    # @return [Float] objects that each call makes
    def objects_per_call(times)
      GC.disable
      looks = Array.new(3) do
        before = GC.stat(:total_allocated_objects)
        times.times { yield }
        (GC.stat(:total_allocated_objects) - before) / times.to_f
      end
      looks.min
    ensure
      GC.enable
    end
  end
end
