# frozen_string_literal: true

# Runs one measurement in a fresh Ruby and returns what it printed: a measured
# process never inherits another's heap, pools or fibers.
#
#   child = Bench::ChildProcess.new("runtime/child.rb", contestant, "queue_hop", operations: 1000)
#   child.measure      # => {"operations"=>1000, "wall"=>0.001, ...}
#
# The child prints one line of JSON as its last. One that is to start together with
# others first prints "ready" and waits for a line:
#
#   child.start
#   child.await_ready
#   child.go
#   child.result
#
# One that measures again and again says "ready" too, and answers a line of JSON with one:
#
#   child.ask(operations: 1000)      # => {"operations"=>1000, "wall"=>0.3, ...}
#   child.stop
require "json"
require "rbconfig"
require "tempfile"
require_relative "clock"
require_relative "failure"
require_relative "load_path"

module Bench
  class ChildProcess
    LIMIT = 90 # seconds until a measurement must have ended

    @flags = []
    class << self
      # @return [Array<String>] for each measured ruby, such as "--yjit"
      attr_accessor :flags
    end

    # @param script [String] below benchmark/
    # @param contestant [Contestant]
    # @param workload [String] the workload that the script measures
    # @param wrapper [Array<String>] a command that runs the Ruby, such as strace
    # @param groups [Array<Symbol>] of the benchmarks' Gemfile, whose gems it can load
    # @param variables [Hash{String=>String}] for its environment
    # @param limit [Numeric] seconds until it must have ended
    # @param options [Hash{Symbol=>Object}] for the script, as JSON
    def initialize(script, contestant, workload, wrapper: [], groups: %i[default], variables: {}, limit: LIMIT, **options)
      @contestant = contestant
      @limit = limit
      @variables = variables
      @command = [*wrapper, RbConfig.ruby, *self.class.flags, *LoadPath.flags(*groups, root: contestant.root),
        File.join(LoadPath::ROOT, "benchmark", script), contestant.library, workload.to_s, JSON.generate(options)]
    end

    # @return [Integer] its process id
    attr_reader :pid

    # Runs it from beginning to end.
    # @return [Hash{String=>Object}]
    # @raise [Failure]
    def measure
      start.result
    ensure
      stop
    end

    # Starts it in a process group of its own.
    # @return [self]
    def start
      @errors = Tempfile.new("bench")
      input, @input = IO.pipe
      @output, output = IO.pipe
      @pid = Process.spawn(environment, *@command, in: input, out: output, err: @errors.path, pgroup: true)
      @deadline = Clock.now + @limit
      [input, output].each(&:close)
      self
    end

    # Waits until it says that it is ready to be measured.
    # @raise [Failure] where it ended instead
    def await_ready
      line = read_line
      line == "ready\n" or give_up("said #{line.inspect} where \"ready\" was expected")
    end

    # Lets it go on.
    def go = @input.puts("go")

    # @param question [Hash{Symbol=>Object}]
    # @return [Hash{String=>Object}] its answer
    # @raise [Failure] where it ended, or takes longer than its limit
    def ask(**question)
      raise failure("ended before") unless @pid
      @deadline = Clock.now + @limit
      @input.puts(JSON.generate(question))
      JSON.parse(read_line || result)
    rescue Errno::EPIPE
      result
    end

    # @return [Hash{String=>Object}] the figures it printed
    # @raise [Failure] where it failed or took longer than its limit
    def result
      last = nil
      while (line = read_line)
        last = line
      end
      status = finish
      raise failure("ended with #{status.inspect[/exit \d+|SIG\w+/] || status}") unless status.success?
      JSON.parse(last || raise(failure("printed nothing")))
    end

    # Ends it, whatever it does.
    def stop
      return unless @pid
      Process.kill(:KILL, -@pid)
      finish
    rescue Errno::ESRCH
      finish
    end

    private

    # Bundler's variables stay out: the load path is complete, and each costs start-up time.
    def environment
      {**LoadPath::UNBUNDLED, "CONSOLE_LEVEL" => "error", **@contestant.environment, **@variables}
    end

    def read_line
      @buffer ||= +""
      until (line = @buffer.slice!(/\A.*\n/))
        @output.wait_readable([@deadline - Clock.now, 0].max) or give_up("took longer than #{@limit} s and was ended")
        chunk = @output.read_nonblock(65_536, exception: false)
        return nil if chunk.nil?
        @buffer << chunk unless chunk == :wait_readable
      end
      line
    end

    def give_up(reason)
      failure = failure(reason)
      stop
      raise failure
    end

    def finish
      pid, @pid = @pid, nil
      [@input, @output].each(&:close)
      Process.wait2(pid).last
    end

    def failure(reason) = Failure.of(reason, File.readlines(@errors.path))
  end
end
