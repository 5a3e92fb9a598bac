# frozen_string_literal: true

module NeverBlockFuzz
  # Whether a process, with its threads and child processes, stands still: each waits for something outside of them.
  #
  #   Stillness.new(pid).wait(30)      # => true; false if they run for 30 seconds
  #
  # A thread stands still if the kernel lets it sleep. Two looks show the same numbers of context switches, so no thread
  # ran between them: at that moment all slept. The pace of the machine doesn't matter. Only time, a signal or another
  # process can go on from there.
  class Stillness
    PAUSE = 0.0003
    private_constant :PAUSE

    # @param pid [Integer]
    def initialize(pid)
      @pid = pid
    end

    # @param limit [Numeric] seconds
    # @return [Boolean] whether they stand still
    def wait(limit)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + limit
      before = nil
      loop do
        switches = look
        return true if switches && switches == before
        return false if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
        before = switches
        sleep PAUSE unless switches
      end
    end

    private

    # @return [Hash{String=>Array}, nil] the context switches of each thread; nil if one runs
    def look
      switches = {}
      queue = [@pid]
      while (pid = queue.shift)
        Dir.children("/proc/#{pid}/task").each { |thread| queue.concat(look_at("/proc/#{pid}/task/#{thread}", switches)) }
      end
      switches unless switches.value?(nil)
    rescue Errno::ENOENT, Errno::ESRCH # one has just ended
      nil
    end

    # @return [Array<String>] the child processes of a thread
    def look_at(folder, switches)
      facts = File.read("#{folder}/status")
      switches[folder] = (facts.scan(/ctxt_switches:\s+(\d+)/) if facts.match?(/^State:\s+[STZ]/))
      File.read("#{folder}/children").split
    end
  end
end
