# frozen_string_literal: true

require "test_helper"
require "support/loops"

# One holder at a time, whatever happens to the others.
class PostgresFairLockTest < Minitest::Test
  include NeverBlockTest::Loops
  include NeverBlockTest::Helpers

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
    @lock = NeverBlock::Postgres::FairLock.new
    @gate = Thread::Queue.new
    @log = []
  end

  def test_fibers_take_it_one_after_the_other
    in_loop do
      tasks = Array.new(5) { |number| NB.spawn { enter(number) } }
      pass_until("the first") { @log == [0] }
      5.times do |number|
        @gate << number
        pass_until("the next") { @log.size == [number + 2, 5].min }
      end
      assert_equal [0, 1, 2, 3, 4], tasks.map(&:value)
      assert_equal [0, 1, 2, 3, 4], @log.sort
      refute @lock.locked?
    end
  end

  def test_one_that_is_cancelled_leaves_it_to_the_others
    in_loop do
      taker, waiter, last = Array.new(3) { |number| NB.spawn { enter(number) } }
      pass_until("the first") { @log == [0] }
      [waiter, taker].each do |task|
        task.cancel
        pass_until("its end") { !task.alive? }
      end
      @gate << 2
      assert_equal 2, last.value
      assert_equal [0, 2], @log
      refute @lock.locked?
    end
  end

  def test_an_error_of_the_block_gives_it_back
    assert_raises(IndexError) { @lock.synchronize { raise IndexError } }
    assert_equal 7, @lock.synchronize { 7 }
  end

  def test_threads_and_fibers_exclude_each_other
    inside = most = visits = 0
    visit = lambda do |_|
      @lock.synchronize do
        most = [most, inside += 1].max
        sleep 0 # lets others run
        visits += 1
        inside -= 1
      end
    end
    threads = Array.new(4) { Thread.new { 200.times(&visit) } }
    in_loop { Array.new(10) { NB.spawn { 50.times(&visit) } }.each(&:value) }
    threads.each(&:join)
    assert_equal [1, 1_300], [most, visits]
  end

  # The exception may strike anywhere in it: each time the thread that takes the lock has used up its time slice.
  slow "many threads that are interrupted"
  def test_a_thread_that_is_interrupted_leaves_it_to_the_others
    10.times do
      interrupted = Thread.new { loop { @lock.synchronize { @log.clear } } }
      interrupted.report_on_exception = false
      Thread.pass until @lock.locked? || !interrupted.alive?
      interrupted.raise(IndexError)
      assert_raises(IndexError) { interrupted.join }
      assert_equal 1, @lock.synchronize { 1 }
    end
  end

  private

  def enter(number)
    @lock.synchronize { (@log << number) && @gate.pop }
  end
end
