# frozen_string_literal: true

require "tempfile"
require_relative "stage"
require_relative "stillness"

module NeverBlockFuzz
  # One run of a program: opens its gates one after the other, each when the process stands still, and collects what
  # the steps did.
  #
  #   Trial.new(text, steps, "threads").call
  #   # => {"after 3: step 2" => "IOError: stream closed in another thread", "end: r1" => "#<IO closed>", …}
  #
  # There is no other time limit: a step that hangs is one without a result, once the process stands still.
  class Trial
    # @param text [String] the program
    # @param steps [Array<Array(Integer, Boolean)>] the number of each step, and whether time alone ends it
    # @param host [String] a name of Hosts
    # @param engine [String, nil]
    # @param limit [Numeric] seconds until a process that is never still counts as busy
    # @param plant [#call, nil] called in the process first, to plant a defect
    def initialize(text, steps, host, engine: nil, limit: 30, plant: nil)
      @text = text
      @steps = steps
      @host = host
      @engine = engine
      @limit = limit
      @plant = plant
    end

    # @return [Hash{String=>String}] what each step did, and what was left
    def call
      @trace = {}
      @noted = []
      start
      listen(0)
      @steps.each { |number, timed| step(number, timed) }
      tell("end")["leftovers"].each { |name, state| @trace["at the end: #{name}"] = state }
      @trace
    rescue EOFError, Errno::EPIPE
      @trace.merge("the process" => "ended: #{Process.wait2(@pid).last.inspect.sub(/pid \d+/, "pid")} #{File.read(@log.path).lines.first(3).join.scrub}")
    rescue Timeout::Error
      @trace.merge("the process" => "is never still")
    ensure
      stop
    end

    private

    def start
      answers, child_answers = IO.pipe
      child_commands, commands = IO.pipe
      @log = Tempfile.new("neverblock-fuzz")
      @pid = fork do
        [answers, commands].each(&:close)
        perform(child_commands, child_answers)
      end
      [child_answers, child_commands].each(&:close)
      @answers, @commands = answers, commands
      @stillness = Stillness.new(@pid)
    end

    def perform(commands, answers)
      Process.setpgrp
      ENV["NEVERBLOCK_ENGINE"] = @engine if @engine
      $stdin.reopen(File::NULL)
      [$stdout, $stderr].each { |io| io.reopen(@log) }
      @plant&.call
      Stage.new(@text, @host, commands, answers).call
      exit!(0)
    rescue Exception => error # standard:disable Lint/RescueException -- the parent finds it in the log
      warn error.full_message(highlight: false)
      exit!(1)
    end

    def settle = @stillness.wait(@limit) || raise(Timeout::Error)

    def step(number, timed)
      @commands.puts(number)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + @limit
      begun = timed && listen(number)
      while begun && !@noted.include?(number)
        raise Timeout::Error if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
        listen(number)
      end
      listen(number)
    end

    # @return [Boolean] whether the step has begun
    def listen(now)
      settle
      answer = tell("tell")
      answer["notes"].each do |step, text|
        @noted << step
        note(now, step, text)
      end
      answer["begun"].include?(now)
    end

    def note(now, step, text)
      @trace["after step #{now}: #{step.is_a?(Integer) ? "step #{step}" : step}"] = text
    end

    def tell(command)
      @commands.puts(command)
      line = @answers.wait_readable(@limit) ? @answers.gets : raise(Timeout::Error)
      line ? JSON.parse(line) : raise(EOFError)
    end

    def stop
      Process.kill(:KILL, -@pid)
      Process.wait(@pid)
    rescue Errno::ESRCH, Errno::ECHILD
      nil
    ensure
      [@answers, @commands].each(&:close)
      @log.close!
    end
  end
end
