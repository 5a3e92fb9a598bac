# frozen_string_literal: true

# engines: every - the loop jumps instead of waiting in the kernel
require "test_helper"
require "neverblock/testing"
require "socket"
require "support/time_model"

# Random programs of sleeps, limits, queues, pipes and sockets: each step happens at the time, and has the result, that
# a small model of the program says. A failure names its seed; SEED=7 runs that program alone.
class VirtualTimeRandomTest < Minitest::Test
  include NeverBlockTest::Helpers

  PROGRAMS = 40
  CHANNELS = 4
  TASKS = 5

  # The channels of the program under test.
  KINDS = [
    -> { Thread::Queue.new.then { |queue| [->(limit) { queue.pop(timeout: limit) }, -> { queue << "x" }] } },
    -> { ends(*IO.pipe) },
    -> { ends(*UNIXSocket.pair) },
    -> { Thread::SizedQueue.new(1000).then { |queue| [->(limit) { queue.shift(timeout: limit) }, -> { queue.push("x", timeout: 1) }] } }
  ].freeze

  def self.ends(reader, writer)
    [->(limit) { reader.wait_readable(limit) && reader.readpartial(1) }, -> { writer.write("x") && writer.flush }]
  end

  def test_random_programs_keep_their_times
    (ENV["SEED"] ? [ENV["SEED"].to_i] : Array.new(PROGRAMS) { Random.new_seed % 1_000_000_000 }).each do |seed|
      program = program_of(Random.new(seed))
      assert_equal NeverBlockTest::TimeModel.new(program).run, run_program(program), "SEED=#{seed}"
    end
  end

  private

  # Times are in microseconds. There are so many that two events don't coincide.
  def program_of(random)
    Array.new(TASKS) { |task| steps(random, task, 2) }
  end

  # A channel has one reader, because two that wait for a descriptor wake together.
  def steps(random, task, depth)
    Array.new(random.rand(1..6)) do
      time = random.rand(1..5_000_000_000)
      case random.rand(10)
      when 0..3 then [:sleep, time]
      when 4..5 then [:push, random.rand(CHANNELS)]
      when 6..7 then (task < CHANNELS) ? [:pop, task, time] : [:sleep, time]
      else depth.zero? ? [:sleep, time] : [:limit, time, steps(random, task, depth - 1)]
      end
    end
  end

  def run_program(program)
    logs = program.map { [] }
    NeverBlock::Testing::VirtualClock.run do |clock, scope|
      channels = KINDS.map(&:call)
      program.zip(logs) do |steps, log|
        scope.spawn { perform(steps, channels) { |result| log << [result, (clock.elapsed * 1e6).round] } }
      end
    end
    logs
  end

  def perform(steps, channels, &log)
    steps.each do |kind, argument, more|
      case kind
      when :sleep then sleep(argument / 1e6) && log.call(:slept)
      when :push then channels[argument].last.call && log.call(:pushed)
      when :pop then log.call(channels[argument].first.call(more / 1e6) ? :popped : :nothing)
      when :limit then log.call((NeverBlock.move_on_after(argument / 1e6) { perform(more, channels, &log) || true }) ? :in_time : :late)
      end
    end
    true
  end
end
