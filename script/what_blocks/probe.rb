# frozen_string_literal: true

require_relative "idle_clock"
require_relative "stage"

module WhatBlocks
  # Watches one call made in a fiber of a loop, from that loop's own thread:
  #
  #   probe = Probe.new
  #   scope.spawn { probe.tick }                     # another fiber, which shows that the loop turns
  #   scope.spawn { probe.watch { reader.gets }; probe.finish }
  #   probe.seen.parked                              # => ["io_read"]
  #
  # Whether the fiber left the loop's thread to others is counted exactly, by the
  # fiber switches back into it, and filed under the scheduler's method it was in
  # at that time. How long the others had to stand still is the longest gap
  # between two ticks. A busy machine makes gaps too, and so the part of a gap in
  # which the thread was asleep is measured as well (IdleClock).
  class Probe
    # What was seen of one call: seconds it took, the longest gap in seconds, the
    # longest sleep within a gap in seconds, whether it left the thread to others
    # at all, the scheduler's methods it did so in, the class of the exception it
    # raised.
    Seen = Struct.new(:elapsed, :gap, :asleep, :left, :parked, :error)

    # Seconds between two ticks.
    TICK = 0.005

    # Scheduler methods that run the caller's block, in which what parks is the block.
    CARRIERS = %i[timeout_after nil_if_late fiber].freeze

    # Called by a hook to give others their turn, in the middle of work on the loop's thread.
    TURN = :between_steps

    # A method is named if it parked for this part of the call's time, and for this many seconds: whether a mutex happens
    # to be taken for a moment is nothing to tell, and on a slow machine no moment is short.
    WORTH_NAMING = 0.25
    LONG_ENOUGH = Stage::WAIT / 4

    # One call of a method of the scheduler.
    Hook = Struct.new(:name, :start, :parked)

    def initialize
      @stack = []
      @hooks = []
      @gap = @asleep = 0.0
    end

    # @return [Exception, nil] what ended the body
    attr_reader :error

    # Runs in a fiber of its own until finish is called.
    def tick
      until @finished
        sleep TICK
        note_gap if @watching
      end
    end

    # Calls the block when the call begins.
    def on_start(&block)
      @on_start = block
    end

    # Watches one call.
    # @return [Object] the block's value
    def watch(&call)
      raise "a row measures one call only" if @started
      @fiber = Fiber.current
      @scheduler = Fiber.scheduler
      @idle_clock = IdleClock.new
      trace = TracePoint.new(:c_call, :call, :c_return, :return, :fiber_switch) { |event| record(event) }
      trace.enable(target_thread: Thread.current) { timed(&call) }
    end

    # Ends the ticking; an exception that ended the body is kept.
    def finish(error = nil)
      @error = error
      @finished = true
    end

    # @return [Seen]
    def seen
      raise @error || "the row has no measure { }" unless @started
      Seen.new(elapsed: @elapsed, gap: @gap, asleep: @asleep, left: !!@left, parked:, error: @error&.class&.name)
    end

    private

    def timed
      @on_start&.call
      @idle = @idle_clock.now
      @last = @started = now
      @watching = true
      yield
    ensure
      note_gap
      @watching = false
      @elapsed = now - @started
    end

    # Reading the idle clock lets other threads run, and so no moment may lie between two gaps.
    def note_gap
      idle, time = @idle_clock.now, now
      @gap = [@gap, time - @last].max
      @asleep = [@asleep, idle - @idle].max
      @idle, @last = idle, time
    end

    # A method of the scheduler called by the fiber under watch is a hook; those
    # that a hook calls in turn are its own affair.
    def record(event)
      case event.event
      when :fiber_switch
        come_back if watched?
      when :call, :c_call
        @stack.push(Hook.new(event.callee_id, now, false)) if ours?(event)
      else
        leave(@stack.pop) if ours?(event)
      end
    end

    def come_back
      @left = true
      hook = @stack.find { |call| call.name == TURN } || @stack.find { |call| !CARRIERS.include?(call.name) }
      hook.parked = true if hook
    end

    def leave(hook)
      @hooks << [hook.name.to_s, now - hook.start] if hook&.parked
    end

    # @return [Array<String>] where it parked for long, or if nowhere, all
    def parked
      times = @hooks.each_with_object(Hash.new(0.0)) { |(name, seconds), sum| sum[name] += seconds }
      long = times.select { |_name, seconds| seconds >= [WORTH_NAMING * @elapsed, LONG_ENOUGH].max }
      (long.empty? ? times : long).keys.sort
    end

    def ours?(event) = event.self.equal?(@scheduler) && watched?

    def watched? = @watching && Fiber.current.equal?(@fiber)

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
