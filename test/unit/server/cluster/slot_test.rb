# frozen_string_literal: true

require "test_helper"
require "support/loops"
require "support/virtual_time"
require "neverblock/server"
require "neverblock/server/cluster/slot"

# A numbered place for a worker: its process, and what happens when that ends or is replaced.
class ClusterSlotTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  # Seconds within which {#started} sees a worker.
  SOON = 0.1

  # A process that becomes ready, or ends, when the test says so.
  class Worker
    attr_reader :name, :stops

    def initialize(name)
      @name = name
      @state = Thread::Queue.new
      @end = Thread::Queue.new
      @stops = 0
    end

    def ready!
      @ready = true
      @state.close
    end

    def end!
      @state.close
      @end.close
    end

    def ready? = @ready == true

    def wait_state = @state.pop

    def wait_end = @end.pop

    def exit_report = "#{@name} ended"

    def stop = (@stops += 1) && true

    def to_s = @name
  end

  # Stands for Workers: starts what the test has at hand.
  class Workers
    attr_reader :started, :said, :ends, :retired
    attr_accessor :coming

    def initialize
      @started, @said, @ends, @retired, @coming = [], [], [], [], []
    end

    def template = :template

    def start(_slot, template)
      worker = @coming.shift
      worker = Worker.new("worker #{@started.size}") if worker.nil?
      worker && [worker, template].tap { |one| @started << one }.first
    end

    def await(worker)
      worker.wait_state
      worker.ready?
    end

    def ended(worker) = @ends << worker

    def retire(worker, **options) = @retired << [worker, options]

    def say(message, as: :info) = @said << [as, message]
  end

  def setup
    @workers = Workers.new
    @slot = NeverBlock::Server::Cluster::Slot.new(0, @workers)
  end

  def test_a_worker_that_ends_has_a_successor
    in_loop(exit: :cancel) do
      NB.spawn { @slot.keep }
      first = started(1)
      first.ready!
      assert_same first, @slot.worker
      first.end!
      second = started(2)
      assert_equal [[first], second], [@workers.ends, @slot.worker]
      assert_in_delta 0, clock.elapsed, SOON
      second.end! # before it was ready: the next one comes after a pause
      assert_same started(3), @slot.worker
      assert_in_delta 0.5, clock.elapsed, SOON
      third = @slot.worker
      third.ready!
      @slot.close
      third.end!
      pass_until("the end") { @workers.ends.size == 2 }
      assert_equal 3, @workers.started.size
    end
  end

  def test_one_that_can_not_be_started_is_tried_again_after_a_pause
    in_loop(exit: :cancel) do
      @workers.coming = [false, false]
      NB.spawn { @slot.keep }
      started(1)
      assert_in_delta 0.5 + 1, clock.elapsed, SOON
    end
  end

  def test_the_new_one_serves_before_the_old_one_is_told_to_end
    in_loop(exit: :cancel) do
      old, replacement, fresh = replacing
      assert_equal [:another, [], old], [@workers.started.last.last, @workers.retired, @slot.worker]
      fresh.ready!
      assert_equal [true, fresh], [replacement.value, @slot.worker]
      assert_equal [[old, {keepalive_grace: NeverBlock::Server::Cluster::Slot::KEEPALIVE_GRACE}]], @workers.retired
      old.end!
      NB.pass
      assert_empty @workers.ends, "it was replaced"
    end
  end

  def test_the_old_one_goes_on_if_the_new_one_does_not_become_ready
    in_loop(exit: :cancel) do
      old, replacement, fresh = replacing
      fresh.end!
      assert_equal [false, old, []], [replacement.value, @slot.worker, @workers.retired]
      assert_equal [[:error, "worker 1 ended; worker 0 goes on"]], @workers.said
      @workers.coming = [false]
      refute @slot.replace(:another), "it can't even be started"
    end
  end

  def test_a_slot_that_is_closed_meanwhile
    in_loop(exit: :cancel) do
      old, replacement, fresh = replacing
      assert_same old, @slot.close
      fresh.ready!
      assert_equal [false, [[fresh, {}]]], [replacement.value, @workers.retired]
      refute @slot.replace(:another)
      assert_equal [true, 1], [@slot.stop, old.stops]
    end
  end

  def test_an_empty_slot_is_stopped_at_once
    assert @slot.stop
  end

  private

  # @return [Worker] the last of so many
  def started(count)
    pass_until("worker #{count - 1}") { @workers.started.size == count }
    @workers.started.last.first
  end

  # @return [Array(Worker, NeverBlock::Task, Worker)] the one that serves, the replacement, and the one that was started
  def replacing
    [serving, NB.spawn { @slot.replace(:another) }, started(2)]
  end

  def serving
    NB.spawn { @slot.keep }
    started(1).tap(&:ready!)
  end
end
