# frozen_string_literal: true

require "test_helper"
require "support/served_in_time"

# Which requests begin: while the processor is short, those that have begun go on first.
class ServerAdmissionTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  HANDFUL = 4 # of ext/neverblock/http/app/admission.c
  TURN = 0.0001 # seconds

  # Lets the loop go on without ever being idle; each turn takes its time.
  def spin_until
    until yield
      compute(TURN)
      NeverBlock.pass
    end
  end

  # The loop is busy, so time doesn't jump.
  def wait_until(what, &condition)
    ends = clock.elapsed + 600
    spin_until { clock.elapsed > ends || condition.call }
    assert condition.call, what
  end

  def ask(paths) = paths.map { |path| connect << get(path) }

  def statuses(wires) = wires.map { |wire| wire.answer.status }

  # Until the running requests have been seen to be runnable.
  def await_a_busy_loop(running = HANDFUL)
    wait_until("#{running} to begin") { server.stats[:in_flight] == running }
    turns = NeverBlock::Loops.all.sum { |loop| loop.statistics[:turns] }
    wait_until("the loop to turn") { NeverBlock::Loops.all.sum { |loop| loop.statistics[:turns] } > turns + 500 }
  end

  def test_requests_that_wait_all_begin
    begun = 0
    steps = gate
    serve do
      60.times { steps << 1 } if (begun += 1) == 60
      steps.pop
      [200, {}, []]
    end
    wires = ask(["/"] * 60)
    assert_equal [200] * 60, statuses(wires)
  end

  def test_requests_that_compute_begin_in_order_and_a_handful_at_a_time
    order = []
    running = most = 0
    released = false
    serve do |env|
      order << env["PATH_INFO"]
      most = [most, running += 1].max
      spin_until { released }
      spin_until { rand < 0.01 }
      running -= 1
      [200, {}, []]
    end
    wires = ask(["/first"] * HANDFUL)
    await_a_busy_loop
    rest = (10...50).map do |n|
      connect.tap { |wire| (wire << get("/#{n}")) && wait_until("its arrival") { server.stats.values_at(:in_flight, :queued).sum == HANDFUL + n - 9 } }
    end
    released = true
    assert_equal [200] * (HANDFUL + 40), statuses(wires + rest)
    assert_equal (10...50).map { |n| "/#{n}" }, order.drop(HANDFUL)
    assert_operator most, :<=, HANDFUL + server.stats[:let_in]
  end

  # No request begins in their place before fewer than a handful run.
  def test_requests_that_began_while_the_loop_had_time_and_compute_then
    waiting = true
    begun = ends = 0
    steps = gate
    serve do
      begun += 1
      steps.pop if waiting
      spin_until { ends > 0 && (ends -= 1) }
      [200, {}, []]
    end
    wires = ask(["/"] * 12)
    wait_until("all to begin") { begun == 12 }
    waiting = false
    12.times { steps << 1 }
    await_a_busy_loop(12)
    wires += ask(["/"] * 8)
    wait_until("their arrival") { server.stats.values_at(:in_flight, :ready).sum == 20 }
    (1..8).each do |ended|
      ends += 1
      wait_until("an end") { server.stats.values_at(:in_flight, :ready).sum == 20 - ended }
    end
    assert_operator begun - 12, :<=, server.stats[:let_in]
    ends = 12
    assert_equal [200] * 20, statuses(wires)
  end

  # If a running request waits for one that has not begun, the app still makes progress.
  def test_requests_that_wait_for_one_another_while_the_loop_is_busy
    begun = 0
    serve do
      begun += 1
      spin_until { begun == HANDFUL + 3 }
      [200, {}, []]
    end
    wires = ask(["/"] * HANDFUL)
    await_a_busy_loop
    wires += ask(["/"] * 3)
    assert_equal [200] * (HANDFUL + 3), statuses(wires)
    assert_equal [3, 3], server.stats.values_at(:held_back, :let_in)
  end

  def test_an_app_that_changes_from_computing_to_waiting
    computing = true
    begun = 0
    steps = gate
    serve do
      50.times { steps << 1 } if (begun += 1) == 50
      spin_until { !computing }
      steps.pop
      [200, {}, []]
    end
    wires = ask(["/"] * HANDFUL)
    await_a_busy_loop
    wires += ask(["/"] * (50 - HANDFUL))
    wait_until("one to be let in") { server.stats[:let_in] > 0 }
    assert_operator begun, :<, 50
    computing = false
    assert_equal [200] * 50, statuses(wires)
  end

  # A task that keeps the loop busy isn't a request: a handful begins at once, and all begin in the end.
  def test_a_busy_task_beside_requests_that_wait
    done = false
    serve do |env|
      NeverBlock::Task.current.scope.spawn { spin_until { done } } if env["PATH_INFO"] == "/busy"
      sleep 1
      [200, {}, []]
    end
    assert_equal 200, (connect << get("/busy")).answer.status
    assert_equal [200] * 20, statuses(ask(["/"] * 20))
  ensure
    done = true
  end
end
