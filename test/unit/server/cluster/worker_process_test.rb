# frozen_string_literal: true

require "test_helper"
require "support/loops"
require "support/virtual_time"
require "neverblock/server"
require "neverblock/server/cluster/worker_process"
require "neverblock/server/cluster/channel"

# The supervisor's view of a worker: its state by its messages, and its end. The other end of the channel stands for it.
class ClusterWorkerProcessTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  Slot = Struct.new(:number)
  Template = Struct.new(:ended?)

  def test_its_state
    in_loop do
      worker = worker()
      assert_equal [:starting, false, "worker 3"], [worker.state, worker.wait_ready(0), worker.to_s]
      worker.pid = 41
      worker.ready!
      assert_equal [:serving, true, "worker 3 [41]"], [worker.state, worker.wait_ready(0), worker.to_s]
      worker.leaving!
      assert_equal({number: 3, pid: 41, state: :leaving, stats: {}}, worker.to_h.except(:age))
      @other.close
      assert worker.wait_end
      refute worker.wait_ready(0), "it has ended"
      refute worker.tell({do: "stop"})
    end
  end

  def test_its_silence_does_not_count_what_the_supervisor_has_slept_through
    in_loop do
      worker = worker()
      worker.heard!({stats: {answered: 3}})
      clock.advance(10)
      assert_equal [10.0, {answered: 3}], [worker.silence, worker.stats]
      worker.excuse(8)
      assert_equal 2.0, worker.silence
      worker.excuse(60)
      assert_equal 0.0, worker.silence
      worker.heard!({event: "room"})
      assert_equal({answered: 3}, worker.stats)
    end
  end

  def test_it_is_told_to_stand_back_once
    in_loop do
      worker = worker()
      [true, true, false, false, true].each { |flag| worker.stand_back(flag) }
      assert_equal [true, false, true], Array.new(3) { @other.receive.first.fetch_values(:do, :flag) }.map(&:last)
    end
  end

  {nil => true, true => true, false => false}.each do |told, whole|
    define_method(:"test_whether_its_stop_has_cancelled_requests_when_it_has_told_#{told.inspect}") do
      in_loop do
        worker = worker(timeout: 60)
        stop = NB.spawn { worker.stop(keepalive_grace: 5) }
        assert_equal({do: "stop", timeout: 60, farewell: 5}, @other.receive.first)
        assert_equal :leaving, worker.state
        @other.send({event: "stopped", whole: told}.compact)
        @other.close
        assert_equal whole, stop.value
      end
    end
  end

  def test_its_requests_are_cancelled_by_another_stop
    in_loop do
      worker.escalate
      assert_equal({do: "stop", timeout: 0}, @other.receive.first)
    end
  end

  def test_one_that_does_not_end_is_killed
    in_loop do
      worker = worker(timeout: 0.01 - NeverBlock::Server::Cluster::WorkerProcess::GRACE)
      worker.pid = pid = Process.spawn(RbConfig.ruby, "--disable=gems", "-e", "sleep")
      reaper = NB.spawn { Process.wait2(pid).last.tap { @other.close } }
      refute worker.stop
      assert_equal Signal.list.fetch("KILL"), reaper.value.termsig
      worker.signal(:TERM) # it is gone: nothing happens
    end
  end

  def test_one_that_has_not_been_forked_yet_finds_its_channel_closed
    in_loop do
      worker = worker()
      assert worker.kill
      assert_nil @other.receive
    end
  end

  def test_its_logs_are_opened_again
    in_loop do
      worker = worker()
      answer = NB.spawn { worker.reopen_logs }
      assert_equal({do: "reopen"}, @other.receive.first)
      @other.send({event: "reopened", failures: ["the log a can't be written"]})
      assert_equal ["the log a can't be written"], answer.value
    end
  end

  def test_a_debugger_may_hold_it
    in_loop do
      worker = worker()
      refute_predicate worker, :debugged?
      worker.pid = Process.pid
      refute_predicate worker, :debugged?
      worker.heard!({stats: {debugger: true}})
      assert_predicate worker, :debugged?
    end
  end

  def test_its_end_in_words
    in_loop do
      worker = worker(template: Template.new(false))
      worker.pid = 41
      worker.failure = "no database"
      worker.status = "exit 1"
      assert_equal "worker 3 [41] ended (exit 1) before it was ready: no database", worker.exit_report
      worker = worker(template: Template.new(true))
      worker.ready!
      assert_equal "worker 3 ended", worker.exit_report
    end
  end

  private

  # In a loop. What it is told is received from @other, which is closed at its end.
  def worker(timeout: 60, template: nil)
    ours, @other = NeverBlock::Server::Cluster::Channel.pair
    NeverBlock::Server::Cluster::WorkerProcess.new(ours, slot: Slot.new(3), template:, timeout:).tap do |worker|
      Fiber.scheduler && NB.spawn(transient: true) { worker.listen { |message| worker.heard!(message) } }
    end
  end
end
