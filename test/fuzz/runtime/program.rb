# frozen_string_literal: true

require "neverblock"
require "monitor"
require "socket"
require "timeout"
require_relative "ledger"
require_relative "strand"
require_relative "operations/injected"
require_relative "operations/interruption"
require_relative "operations/own_timeout"
require_relative "operations/tasks"
require_relative "operations/interrupts"
require_relative "operations/words"
require_relative "operations/scopes"
require_relative "operations/choices"
require_relative "operations/promises"
require_relative "operations/left_waits"
require_relative "operations/pauses"
require_relative "operations/queues"
require_relative "operations/locks"
require_relative "operations/files"
require_relative "operations/streams"
require_relative "operations/waits"
require_relative "operations/processes"
require_relative "operations/threads"
require_relative "operations/fibers"

module NeverBlockFuzz
  # Executes a plan. Each operation is a method `op_NAME(node, at)`, where `at` is the strand that executes it.
  #
  #   program = Program.new(plan, folder)
  #   program.call
  #   program.ledger.failures
  class Program
    include Operations::Tasks
    include Operations::Interrupts
    include Operations::Words
    include Operations::Scopes
    include Operations::Choices
    include Operations::Promises
    include Operations::LeftWaits
    include Operations::Pauses
    include Operations::Queues
    include Operations::Locks
    include Operations::Files
    include Operations::Streams
    include Operations::Waits
    include Operations::Processes
    include Operations::Threads
    include Operations::Fibers

    # Bytes for all files and streams: the content at a position depends on the position and the salt. The length is
    # prime, so that no two blocks of a usual size are equal.
    BYTES = Random.new(1).bytes(65_521).tr("\n", " ").freeze
    private_constant :BYTES

    # @return [Ledger]
    attr_reader :ledger

    # @param plan [Plan]
    # @param folder [String] for the program's files
    def initialize(plan, folder)
      @plan = plan
      @folder = folder
      @ledger = Ledger.new
      @aim = Thread::Mutex.new
      prepare_queues
      prepare_locks
    end

    # Runs all loops and waits for them.
    # @return [void]
    def call
      first, *others = @plan.roots
      return unless first
      threads = others.map { |root| root_thread(root) }
      (first.args[:where] == :thread) ? finish(root_thread(first)) : execute_root(first)
      threads.each { |thread| finish(thread) }
    end

    # Checks that are possible only at the end.
    # @return [void]
    def settle
      settle_helpers
      ledger.settle_children
      ledger.settle_items(remaining_items)
      settle_locks
      settle_words
      ledger.settle_regions
      ledger.settle_strands
      ledger.settle_files
      tasks = NeverBlock.tasks
      ledger.check(:task_alive, tasks.empty?) { "NeverBlock.tasks is not empty: #{tasks.first(3).inspect}" }
    end

    private

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # @return [String] the bytes of a file or stream from a position on
    def content(salt, position, length)
      from = (position + salt * 977) % BYTES.bytesize
      return BYTES.byteslice(from, length) if from + length <= BYTES.bytesize
      (BYTES * ((from + length) / BYTES.bytesize + 1)).byteslice(from, length)
    end

    def perform(nodes, at)
      nodes.each do |node|
        at.doing = node
        @ledger.counts[node.op] += 1
        trace(node, at)
        send(:"op_#{node.op}", node, at)
      end
    end

    def trace(node, at)
      $stderr.syswrite(format("%.4f strand %d: %s\n", now, at.serial, node.title)) if ENV["TRACE"]
    end

    # Runs a block whose ensure must run exactly once.
    def region(title, at)
      number = @ledger.enter("#{title} of strand #{at.serial}", !at.droppable)
      begin
        yield
      ensure
        @ledger.leave(number)
      end
    end

    # Runs a block under a timeout, and checks that it raises nothing but its own error, and not before its time. An
    # error raised after the end of its block is found where the task ends.
    # @param seconds [Float, nil] nil: no timeout
    # @param kind [:bare, :own, :never, :at] Timeout.timeout without and with a class, NeverBlock.timeout, its timeout_at
    # @return [Array(Boolean, Object)] whether the time was up, and the block's value
    def limited(at, seconds, kind = :own)
      return [false, yield] unless seconds
      error = (kind == :own) ? Class.new(OwnTimeout) : Timeout::Error
      started = now
      at.limits << (limit = Strand::Limit.new(started + seconds))
      value = case kind
      when :own then Timeout.timeout(seconds, error) { yield }
      when :bare then Timeout.timeout(seconds) { yield }
      when :at then NeverBlock.timeout_at(started + seconds) { yield }
      else NeverBlock.timeout(seconds) { yield }
      end
      [false, value]
    rescue OwnTimeout, Timeout::Error => raised
      raise unless error === raised
      ended = now
      early = (kind == :at) ? ended < started + seconds : ended - started < seconds
      ledger.check(:timeout_early, !early) { "a timeout of #{seconds} s ended its block after #{(ended - started).round(5)} s: #{raised.inspect} in #{at.inspect}" }
      [true, nil]
    ensure
      at.limits.delete_if { |one| one.equal?(limit) }
    end
  end
end
