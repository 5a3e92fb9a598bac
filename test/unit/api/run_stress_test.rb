# frozen_string_literal: true

# engines: every - random runs on each back end
# chaos: random programs

require "test_helper"
require "support/runs"
require "support/virtual_time"

# Random programs made of the API's functions, with random failures, cancellations and timeouts. Each must end with an
# error that was raised on purpose, or none; every ensure that was entered has run, every lock is free, and nothing is
# left in the loop.
class RunStressTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  PROGRAMS = 150

  class Planned < StandardError; end

  # One random program.
  class Program
    EXPECTED = [Planned, Timeout::Error, NeverBlock::Cancelled, StopIteration].freeze

    attr_reader :entered, :left, :mutex, :semaphore, :pool

    def initialize(seed)
      @random = Random.new(seed)
      @entered = @left = 0
      @mutex, @semaphore, @pool = Thread::Mutex.new, NB::Semaphore.new(2), NB::FiberPool.new(3)
      @queue = Thread::Queue.new
      @tasks = []
    end

    def call = NeverBlock.run(exit: pick(:wait, :cancel)) { |scope| act(scope, 4) }

    private

    def pick(*choices) = choices[@random.rand(choices.size)]

    def act(scope, depth)
      @entered += 1
      @random.rand(1..3).times { step(scope, depth) }
      depth
    ensure
      begin
        wait if @random.rand < 0.3 # an outer timeout may end this one, too
      ensure
        @left += 1
      end
    end

    def step(scope, depth)
      return wait if depth.zero?
      deeper = proc { act(scope, depth - 1) }
      case @random.rand(20)
      when 0, 1, 2 then @tasks << scope.spawn(&deeper)
      when 3 then @tasks << @pool.spawn(&deeper)
      when 4, 5 then NeverBlock.run(exit: pick(:wait, :cancel)) { |inner| act(inner, depth - 1) }
      when 6 then NeverBlock.timeout(@random.rand * 0.004, &deeper)
      when 7 then Timeout.timeout(@random.rand * 0.004, Planned, &deeper)
      when 8 then NB.shield(&deeper)
      when 9 then NeverBlock.concurrently(1..3, limit: 2) { deeper.call }
      when 10 then NeverBlock.race(deeper, -> { wait })
      when 11 then @mutex.try_lock ? locked(&deeper) : wait # a lock is its fiber's: an Enumerator would wait for its own task
      when 12 then @semaphore.acquire(timeout: 0.002, &deeper)
      when 13 then Enumerator.new { |yielder| 2.times { yielder << deeper.call } }.then { |values| @random.rand(1..2).times { values.next } }
      when 14 then @tasks.sample(random: @random)&.cancel
      when 15 then @tasks.sample(random: @random)&.then { |task| task.join(0.002) unless task == NeverBlock::Task.current }
      when 16 then raise Planned, "planned"
      when 17 then NB.offload { Thread.pass }
      when 18 then NeverBlock.run(on_error: ->(_) { wait }) { |inner| inner.spawn(&deeper) }
      when 19 then catch(:out) { NeverBlock.run { |inner| inner.spawn(&deeper) && wait && throw(:out) } }
      end
    rescue Planned, Timeout::Error
      raise if @random.rand < 0.3
    end

    def locked
      yield
    ensure
      @mutex.unlock
    end

    def wait
      case @random.rand(6)
      when 0 then sleep 0
      when 1 then sleep @random.rand * 0.002
      when 2 then NB.pass
      when 3 then @queue.pop(timeout: 0.001)
      when 4 then (@queue << 1) && sleep(0.0001)
      when 5 then IO.select(nil, nil, nil, 0.0005)
      end
      true
    end
  end

  # The same seed is the same program with the same times.
  def test_random_programs = check_all

  # Timers fire here between runnable tasks too.
  def test_random_programs_in_real_time
    clock.stop
    check_all
  end

  def check_all
    seeds = ENV["NEVERBLOCK_SEED"] ? [Integer(ENV["NEVERBLOCK_SEED"])] : (1..PROGRAMS)
    on_thread do
      seeds.each { |seed| check(seed) }
    end
  end

  def check(seed)
    program = Program.new(seed)
    error = raised { program.call }
    message = "NEVERBLOCK_SEED=#{seed}"
    [error, *(error.errors if error.respond_to?(:errors))].compact.each do |one|
      assert Program::EXPECTED.any? { |kind| kind === one }, "#{message}: #{one.full_message(highlight: false)}"
    end
    assert_equal program.entered, program.left, message
    refute_predicate program.mutex, :locked?, message
    assert_equal 2, program.semaphore.available, message
    assert_equal({running: 0, queued: 0}, program.pool.stats.slice(:running, :queued), message)
    assert_nothing_left NeverBlock::Scheduler.kept
    assert_nil Fiber.scheduler, message
  end
end
