# frozen_string_literal: true

module NeverBlockTest
  # When each step of a program of sleeps, limits and channels ends, computed from a list of events, without a loop. It
  # is the oracle of VirtualTimeRandomTest.
  #
  #   TimeModel.new([[[:sleep, 5], [:push, 0]], [[:pop, 0, 9]]]).run   # => [[[:slept, 5], [:pushed, 5]], [[:popped, 5]]]
  class TimeModel
    # What ends a wait at a time. It is void if the wait has ended before.
    Event = Struct.new(:time, :order, :wait, :cause)
    Wait = Struct.new(:fiber, :over)
    private_constant :Event, :Wait

    # @param program [Array<Array>] the steps of each task
    def initialize(program)
      @logs = program.map { [] }
      @items = Hash.new(0)
      @readers = {} # channel => Wait
      @events = []
      @order = @now = 0
      program.each_with_index { |steps, task| at(0, Wait.new(Fiber.new { perform(steps, task, []) })) }
    end

    # @return [Array<Array>] the results of each task's steps, with their times
    def run
      while (event = @events.min_by { |candidate| [candidate.time, candidate.order] })
        @events.delete(event)
        next if event.wait.over
        @now = event.time
        event.wait.over = true
        event.wait.fiber.resume(event.cause)
      end
      @logs
    end

    private

    def at(time, wait, cause = nil) = @events << Event.new(time, @order += 1, wait, cause)

    # limits: pairs of a time and the tag to throw then.
    def perform(steps, task, limits)
      steps.each do |kind, argument, more|
        result = case kind
        when :sleep then wait(argument, limits) && :slept
        when :push then push(argument) && :pushed
        when :pop then pop(argument, more, limits) ? :popped : :nothing
        when :limit then limit(argument, more, task, limits) ? :in_time : :late
        end
        @logs[task] << [result, @now]
      end
    end

    def limit(seconds, steps, task, limits)
      tag = Object.new
      catch(tag) { perform(steps, task, limits + [[@now + seconds, tag]]) }
    end

    def push(channel)
      @items[channel] += 1
      at(@now, @readers[channel], :item) if @readers[channel]
      true
    end

    def pop(channel, seconds, limits)
      wait(seconds, limits, channel) unless @items[channel].positive?
      (@items[channel] -= 1) if @items[channel].positive?
    end

    def wait(seconds, limits, channel = nil)
      pending = Wait.new(Fiber.current)
      time, tag = [[@now + seconds, :over], *limits].min_by(&:first)
      at(time, pending, tag)
      @readers[channel] = pending if channel
      cause = Fiber.yield
      @readers.delete(channel)
      throw cause unless %i[over item].include?(cause)
      true
    end
  end
end
