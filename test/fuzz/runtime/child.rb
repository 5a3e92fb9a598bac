# frozen_string_literal: true

require "json"
require "tmpdir"
require_relative "program"

module NeverBlockFuzz
  # One seed in a process of its own: runs the plan, checks for leftovers, and writes the outcome as JSON.
  #
  #   Child.new(plan, output).call     # in a forked process
  class Child
    # Counts interrupts from other threads: Thread#raise by the program, by Ruby's Timeout outside of a loop, and by
    # NeverBlock if a task computes beyond its timeout.
    module CountedInterrupts
      class << self
        # @return [Ledger, nil]
        attr_accessor :ledger
      end

      def raise(*)
        CountedInterrupts.ledger&.then { |ledger| ledger.interrupted if ledger.loop_threads.include?(self) }
        super
      end
    end

    # @param plan [Plan]
    # @param output [IO]
    # @param patience [Numeric] seconds for threads to end after the program
    def initialize(plan, output, patience: 10)
      @patience = patience
      @plan = plan
      @output = output
    end

    # @return [void]
    def call
      Dir.mktmpdir("neverblock-fuzz") do |folder|
        @program = Program.new(@plan, folder)
        warm_up(folder)
        descriptors = self.descriptors
        threads = Thread.list
        run
        @program.settle
        settle_threads(threads)
        settle_descriptors(descriptors, folder)
      end
      report
    end

    private

    def ledger = @program.ledger

    def run
      trap("USR2") { show_strands } if ENV["TRACE"] # not otherwise, since a trap can change what counts as a deadlock
      Thread.prepend(CountedInterrupts)
      CountedInterrupts.ledger = ledger
      @program.call
    rescue SignalException => error # the parent ends a seed that takes too long
      ledger.fail(:hang, "ended by #{error.message}")
      report
      exit!(1)
    ensure
      CountedInterrupts.ledger = nil
    end

    def show_strands
      alive = ledger.strands.select { |strand| strand.task&.alive? }
      lines = alive.map { |strand| "#{strand.inspect}: #{strand.task.inspect}" }
      lines.concat(Thread.list.flat_map { |thread| [thread.inspect, *thread.backtrace&.first(12)] })
      warn lines
    end

    # Opens what NeverBlock and Ruby open once and keep.
    def warm_up(folder)
      NeverBlock.run do
        NeverBlock.offload { nil }
        NeverBlock.timeout(1) { sleep 0.0001 }
        File.write(File.join(folder, "warm"), "w" * 100_000)
        Process.wait(fork { exit! })
        Addrinfo.getaddrinfo("localhost", 80)
      end
      Timeout.timeout(1) { nil }
    end

    # Idle threads of pools may stay.
    def settle_threads(before)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + @patience
      loop do
        left = (Thread.list - before).reject { |thread| thread.name.to_s.match?(/\Aneverblock|Timeout/) || thread.thread_variable?(:"\x00__detached_thread__") }
        return if left.empty?
        if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
          return ledger.fail(:thread_left, "threads are left: #{left.map { |thread| [thread.name, thread.status, thread.backtrace&.first] }.inspect}")
        end
        sleep 0.01
      end
    end

    # Each loop of a thread keeps its own descriptors until the thread is collected; they don't belong to files or
    # streams. An interrupt from another thread may arrive between File.open and its block, as in any Ruby program. So
    # may Fiber#raise and Fiber#kill since Ruby 3.4, where File.open calls the scheduler and then drops the file.
    def settle_descriptors(before, folder)
      return if ledger.interrupts > 0
      GC.start
      left = descriptors.reject { |number, name| before[number] == name || name.start_with?("anon_inode:") }
      left.reject! { |_, name| name.start_with?(folder) } if RUBY_VERSION >= "3.4" && ledger.strands.any? { |strand| strand.struck || strand.killed }
      ledger.check(:descriptor_left, left.empty?) { "descriptors are left open: #{left.inspect}" }
    end

    def descriptors
      return {} unless File.directory?("/proc/self/fd")
      pairs = Dir.children("/proc/self/fd").filter_map do |number|
        [number.to_i, File.readlink("/proc/self/fd/#{number}").delete_suffix(" (deleted)")]
      rescue Errno::ENOENT
        nil # the descriptor that reads the folder
      end
      pairs.to_h
    end

    # A deadlock, or the end of a hang, cancels all tasks: the position of each belongs to that failure.
    def failures
      cause = ledger.failures.find { |failure| failure.kind == :hang || failure.message.start_with?("NeverBlock::DeadlockError") }
      return ledger.failures unless cause
      cancelled, others = (ledger.failures - [cause]).partition { |failure| failure.message.start_with?("NeverBlock::Cancelled") }
      [cause, *cancelled.first(5).map { |one| Ledger::Failure.new(:note, one.message.delete_prefix("NeverBlock::Cancelled: ")) }, *others]
    end

    def report
      outcome = {failures: failures.map(&:to_a), counts: ledger.counts, interrupts: ledger.interrupts}
      @output.write(JSON.generate(outcome).scrub)
      @output.close
    end
  end
end
