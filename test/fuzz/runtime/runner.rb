# frozen_string_literal: true

require "etc"
require "json"
require "tempfile"
require_relative "child"
require_relative "generator"

module NeverBlockFuzz
  # Runs seeds, each in a forked process with a time limit, as many at a time as there are processors.
  #
  #   runner = Runner.new(engine: "epoll")
  #   runner.outcome(Generator.new(7).plan)          # one seed
  #   runner.each_outcome(seeds, until_time) { |outcome| … }
  #
  # The limit is long, since a seed takes tenths of a second: after it, the process gets TERM twice, and then KILL.
  class Runner
    # The outcome of one seed. `failures` are pairs of a kind and a message.
    Outcome = Struct.new(:plan, :failures, :counts, :output) do
      def seed = plan.seed

      def failed? = !failures.empty?
    end

    # A running seed.
    Running = Struct.new(:plan, :pid, :pipe, :log, :text, :deadline, :ended)
    private_constant :Running

    # Failures that differ only in numbers and names are the same.
    # @return [String]
    def self.signature(kind, message) = "#{kind}: #{message.gsub(/strand \d+ \([^)]*\)|0x\h+|\d+(\.\d+)?(e-\d+)?/, "N").gsub(/\s+/, " ")[0, 110]}"

    # @param engine [String, nil]
    # @param limit [Numeric] seconds for one seed
    # @param lanes [Integer] seeds at a time
    # @param patience [Numeric] seconds for threads to end after the program
    # @param plant [#call, nil] called in each process before the plan runs, to plant a defect
    def initialize(engine: nil, limit: 30, lanes: Etc.nprocessors, patience: 10, plant: nil)
      @engine = engine
      @limit = limit
      @lanes = lanes
      @patience = patience
      @plant = plant
    end

    # @param plan [Plan]
    # @return [Outcome]
    def outcome(plan)
      each_outcome([plan].each) { |outcome| return outcome }
    end

    # @param plans [Enumerator] of plans, which may be endless
    # @param ends_at [Float] of the monotonic clock; no seed begins after it
    # @yieldparam outcome [Outcome]
    # @return [void]
    def each_outcome(plans, ends_at = Float::INFINITY)
      running = []
      more = true
      while more || running.any?
        while more && running.size < @lanes
          plan = (now < ends_at) ? following(plans) : nil
          plan ? running << start(plan) : more = false
        end
        wait_for_some(running)
        running.select(&:ended).each do |one|
          running.delete(one)
          yield finish(one)
        end
      end
    ensure
      running&.each { |one| one.ended || stop(one, :KILL) }
    end

    private

    def following(plans)
      plans.next
    rescue StopIteration
      nil
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def start(plan)
      pipe, output = IO.pipe
      log = Tempfile.new("neverblock-fuzz")
      pid = fork { run_child(plan, pipe, output, log) }
      output.close
      Running.new(plan, pid, pipe, log, +"", now + @limit, nil)
    end

    def run_child(plan, pipe, output, log)
      Process.setpgrp
      pipe.close
      ENV["NEVERBLOCK_ENGINE"] = @engine if @engine
      [$stdout, $stderr].each { |io| io.reopen(log) } unless ENV["TRACE"]
      Process.setpriority(Process::PRIO_PROCESS, 0, 10)
      @plant&.call
      Child.new(plan, output, patience: @patience).call
      exit!(0)
    rescue Exception => error # standard:disable Lint/RescueException -- the parent finds it in the log
      warn error.full_message(highlight: false)
      exit!(1)
    end

    def wait_for_some(running)
      return if running.empty?
      patience = [running.map(&:deadline).min - now, 0].max
      ready, = IO.select(running.map(&:pipe), nil, nil, patience)
      running.each do |one|
        read(one) if ready&.include?(one.pipe)
        expire(one) if !one.ended && now > one.deadline
      end
    end

    # The pipe ends with the child, or at the latest with its forked children.
    def read(one)
      one.text << one.pipe.read_nonblock(65_536)
    rescue IO::WaitReadable
      nil
    rescue EOFError
      one.ended = Process.wait2(one.pid).last
    end

    def expire(one)
      ask_for_strands(one) if ENV["TRACE"]
      2.times do
        stop(one, :TERM)
        return if one.ended
      end
      stop(one, :KILL)
      one.text = JSON.generate(failures: [[:hang, "longer than #{@limit} s, and two TERMs did not end it"]], counts: {})
    end

    def ask_for_strands(one)
      Process.kill(:USR2, one.pid)
      sleep 1
    end

    # Sends the signal and waits some seconds for the end.
    def stop(one, signal)
      Process.kill(signal, one.pid)
      deadline = now + 5
      until one.ended
        ended = Process.wait2(one.pid, (signal == :KILL) ? 0 : Process::WNOHANG)
        one.ended = ended.last if ended
        break if now > deadline
        sleep 0.02 unless one.ended
      end
      one.text << one.pipe.read_nonblock(1_000_000, exception: false).then { |text| text.is_a?(String) ? text : "" } if one.ended
    rescue Errno::ESRCH, Errno::ECHILD
      nil
    end

    def finish(one)
      kill_group(one.pid)
      log = File.binread(one.log.path).scrub
      one.log.close!
      one.pipe.close
      facts = one.text.empty? ? {} : JSON.parse(one.text)
      failures = (facts["failures"] || []).map { |kind, message| [kind.to_sym, message] }
      failures << [:crash, "#{one.ended.inspect}: #{crash_place(log)}"] if facts.empty? || one.ended.signaled?
      Outcome.new(one.plan, failures, facts["counts"] || {}, log)
    end

    # Kills processes that the seed has left behind.
    def kill_group(pid)
      Process.kill(:KILL, -pid)
    rescue Errno::ESRCH, Errno::EPERM
      nil
    end

    def crash_place(log)
      log.lines.grep(/\[BUG\]|neverblock_ext|Error|\.rb:\d+/).first(3).map(&:strip).join(" | ")[0, 500]
    end
  end
end
