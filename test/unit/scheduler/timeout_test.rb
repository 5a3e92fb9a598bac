# frozen_string_literal: true

# engines: every - the back end waits until the deadline

require "test_helper"
require "support/runs"
require "support/virtual_time"

class TimeoutTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  class Own < StandardError; end

  def expired(seconds = 1, klass = nil, &block) = raised { Timeout.timeout(seconds, *klass, &block) }

  # ---- NeverBlock.timeout ----
  def test_returns_the_blocks_value
    assert_equal :value, in_run { NeverBlock.timeout(10) { sleep 0.1 and :value } }
    assert_equal :value, NeverBlock.timeout(10) { :value }
  end

  def test_raises_our_timeout_error_which_is_a_timeout_error_of_ruby
    [-> { in_run { NeverBlock.timeout(0.01) { sleep } } }, -> { NeverBlock.timeout(0.01) { sleep } }].each do |call|
      error = raised(&call)
      assert_kind_of NeverBlock::TimeoutError, error
      assert_kind_of Timeout::Error, error
      assert_kind_of NeverBlock::Error, error
      assert_equal "execution expired after 0.01 s", error.message
    end
  end

  def test_nil_zero_and_infinity_are_no_limit
    [nil, 0, 0.0, Float::INFINITY].each do |seconds|
      assert_equal :value, in_run { NeverBlock.timeout(seconds) { sleep 0.1 and :value } }
      assert_equal :value, NeverBlock.timeout(seconds) { :value }
    end
  end

  def test_bad_seconds
    ["1", :soon, -1, -0.001, Float::NAN, Complex(1, 1), []].each do |seconds|
      error = assert_raises(ArgumentError) { NeverBlock.timeout(seconds) { flunk "it ran" } }
      assert_match(/timeout: .* is not a number of seconds, 0 or more, or nil for no limit/, error.message)
    end
    assert_raises(ArgumentError) { NeverBlock.timeout(1) }
  end

  def test_any_number_is_accepted
    [1r / 100, 0.01, 1e-9].each { |seconds| assert_kind_of NeverBlock::TimeoutError, raised { in_run { NeverBlock.timeout(seconds) { sleep } } } }
    assert_equal :value, in_run { NeverBlock.timeout(1 << 40) { sleep 0.1 and :value } }
  end

  # ---- Timeout.timeout ----
  def test_timeout_timeout
    in_run do
      assert_equal [Timeout::Error, "execution expired"], expired { sleep }.then { |error| [error.class, error.message] }
      assert_equal 10, Timeout.timeout(10) { |seconds| seconds }
      assert_equal [Timeout::Error, "too slow"], raised { Timeout.timeout(1, nil, "too slow") { sleep } }.then { |error| [error.class, error.message] }
      assert_equal [Own, "too slow"], raised { Timeout.timeout(1, Own, "too slow") { sleep } }.then { |error| [error.class, error.message] }
      assert_kind_of ArgumentError, raised { Timeout.timeout(-1) { sleep } } if RUBY_VERSION >= "3.4"
    end
  end

  # R11 of the runtime's review: it raised RangeError. So do Ruby's other waits, but not its Timeout.
  def test_an_infinite_or_huge_timeout_or_nan_means_no_limit
    huge = [Float::INFINITY, Float::NAN, 1e20, 2**80, Rational(10**30)]
    huge.each { |seconds| assert_equal :value, in_run { Timeout.timeout(seconds) { sleep(0.1) && :value } }, seconds.inspect }
    (huge - [Float::NAN]).each do |seconds|
      [-> { NeverBlock.timeout(seconds) { :value } }, -> { NeverBlock.move_on_after(seconds) { :value } },
        -> { NeverBlock.timeout_at(seconds) { :value } }].each do |call|
        assert_equal :value, call.call, seconds.inspect # outside of loops
        assert_equal :value, in_run { call.call }, seconds.inspect
      end
      assert_equal :value, in_run { |scope| scope.spawn { :value }.join(seconds).value }
    end
  end

  # The time until a deadline may be negative. Later versions of the gem refuse that before they call us.
  def test_a_negative_limit_has_passed
    in_run do
      [-1, -0.5, -1r, -Float::INFINITY].each do |seconds|
        assert_raises(Timeout::Error) { Fiber.scheduler.timeout_after(seconds, Timeout::Error, "late") { sleep } }
      end
    end
  end

  # `rescue Exception` gets it, as with threads: transactions roll back then. But it is raised again afterwards.
  def test_the_error_without_a_class_cannot_be_kept_inside
    in_run do
      log = []
      error = expired do
        begin
          sleep
        rescue # a rescue of errors doesn't even get it
          log << :error
        rescue Exception => error # standard:disable Lint/RescueException
          log << error.class
        ensure
          log << :ensure
        end
        log << :went_on
        sleep
        log << :went_further
      end
      assert_kind_of Timeout::Error, error
      assert_equal [Timeout::ExitException, :ensure, :went_on], log
    end
  end

  # The inner timeout fires in the ensure block that the outer one runs.
  def test_a_swallowed_timeout_is_not_lost_to_an_inner_one
    log = []
    in_run do
      [Timeout::Error, Class.new(StandardError)].each do |error|
        expired(2) do
          begin
            sleep
          rescue Exception # standard:disable Lint/RescueException -- it is raised again
            log << :swallowed
          end
          begin
            Timeout.timeout(3, error) do
              sleep
            ensure
              sleep 10
            end
          rescue error
            log << :inner
          end
          log << :never
        end
      end
    end
    assert_equal %i[swallowed swallowed], log
  end

  def test_the_value_of_a_block_that_swallowed_the_error_does_not_count
    in_run do
      error = expired do
        sleep
      rescue Exception # standard:disable Lint/RescueException
        "as if nothing had been"
      end
      assert_kind_of Timeout::Error, error
    end
  end

  # Like PG::Connection#transaction and Active Record's, which take a throw for the regular end of the block.
  def test_a_transaction_is_rolled_back
    in_run do
      done = []
      transaction = lambda do |&block|
        failed = false
        block.call
      rescue Exception # standard:disable Lint/RescueException
        failed = true
        raise
      ensure
        done << (failed ? :rollback : :commit)
      end
      expired { transaction.call { sleep } }
      raised { Timeout.timeout(1) { transaction.call { sleep } } }
      assert_equal %i[rollback rollback], done
    end
  end

  # The timeout gem from 0.6 on raises an exception of its own if no class was given; an application may require any
  # version.
  def test_the_class_of_later_versions_of_the_gem_cannot_be_kept_inside
    error = in_run do
      raised do
        passed = Timeout::ExitException.new("execution expired")
        Fiber.scheduler.timeout_after(1, passed, "execution expired") do
          sleep
        rescue Exception # standard:disable Lint/RescueException
          nil # swallowed
        end
      end
    end
    assert_instance_of Timeout::Error, error
    assert_equal "execution expired", error.message
  end

  def test_the_error_without_a_class_cannot_be_rescued_by_retry_loops
    in_run do
      tries = 0
      error = expired do
        tries += 1
        sleep
      rescue Timeout::Error, NeverBlock::Error
        retry
      end
      assert_kind_of Timeout::Error, error
      assert_equal 1, tries
    end
  end

  def test_a_given_class_is_raised_inside_and_can_be_rescued
    in_run do
      value = Timeout.timeout(1, Own) do
        sleep
      rescue Own
        sleep 0.1
        :rescued
      end
      assert_equal :rescued, value
      assert_kind_of Own, expired(1, Own) { sleep }
    end
  end

  def test_ensures_may_wait
    in_run do
      log = []
      assert_kind_of Timeout::Error, expired { begin; sleep; ensure; sleep(2) && log << :ensure; end }
      assert_equal [:ensure], log
    end
  end

  def test_an_error_of_an_ensure_replaces_it
    in_run { assert_equal "ensure", expired { begin; sleep; ensure; raise "ensure"; end }.message }
  end

  def test_break_return_throw_and_errors_leave_it
    in_run do
      assert_equal 1, Timeout.timeout(60) { break 1 }
      assert_equal 1, returns
      assert_equal 1, catch(:out) { Timeout.timeout(60) { throw :out, 1 } }
      assert_equal "own", expired(60) { sleep(0.1) && raise("own") }.message
    end
  end

  def returns = Timeout.timeout(60) { return 1 }

  def test_never_fires_after_its_block
    in_run do
      100.times { Timeout.timeout(2) { nil } }
      sleep 10
      100.times { raised { Timeout.timeout(2) { raise "no" } } }
      sleep 10
      assert_equal 0, Fiber.scheduler.statistics[:timers]
    end
  end

  def test_a_block_that_ends_at_its_deadline_returns_or_times_out_and_nothing_comes_later
    in_run do |scope|
      outcomes = [-1e-6, 0, 1e-6].product([false, true]).map do |difference, held|
        scope.spawn { held && NB.pass && hold(2) } # both are due when the loop looks
        value = Timeout.timeout(1) { sleep(1 + difference) && :value }
        [difference, held, value]
      rescue Timeout::Error
        [difference, held, :expired]
      ensure
        sleep 5
      end
      assert_equal [:value, :expired], outcomes.values_at(0, 4).map(&:last)
      assert_empty outcomes.map(&:last) - [:value, :expired]
    end
  end

  def test_a_block_that_has_ended_at_its_deadline_returns
    in_run do
      value = Timeout.timeout(50) do
        hold(80)
        :value
      end
      assert_equal :value, value
      sleep 20
    end
  end

  slow "ten thousand timeouts"
  def test_ten_thousand_at_once
    on_thread do
      counts = NeverBlock.run do |scope|
        Array.new(10_000) { |i|
          scope.spawn do
            Timeout.timeout(i.even? ? 1 : 60) { sleep(i.even? ? nil : 0.1) }
            :value
          rescue Timeout::Error
            :expired
          end
        }.map(&:value).tally
      end
      assert_equal({expired: 5_000, value: 5_000}, counts)
      assert_nothing_left NeverBlock::Scheduler.kept
    end
  end

  # ---- with other functions ----
  def test_around_a_nested_run_cancels_its_tasks
    in_run do
      log = []
      error = expired do
        NeverBlock.run do |scope|
          scope.spawn do
            sleep
          ensure
            sleep 0.2
            log << :ensure
          end
        end
      end
      assert_kind_of Timeout::Error, error
      assert_equal [:ensure], log
    end
  end

  def test_around_the_functions
    gate = Thread::Queue.new
    in_run(exit: :cancel) do
      assert_kind_of Timeout::Error, expired { NeverBlock.concurrently(1..) { sleep } }
      assert_kind_of Timeout::Error, expired { NeverBlock.race(-> { sleep }) }
      assert_kind_of Timeout::Error, expired { NB::Semaphore.new(1).tap(&:acquire).acquire }
      assert_kind_of Timeout::Error, expired { NB.spawn { sleep }.value }
      assert_kind_of Timeout::Error, expired(0.01) { NB.offload { gate.pop } }
      assert_kind_of Timeout::Error, expired { Thread::Queue.new.pop }
      assert_kind_of Timeout::Error, expired { IO.pipe.first.read }
    end
  ensure
    gate.close
  end

  def test_does_not_reach_tasks_spawned_inside
    in_run do |scope|
      task = nil
      assert_kind_of Timeout::Error, expired { (task = scope.spawn { sleep 5 and :unharmed }) && sleep }
      assert_equal :unharmed, task.value
    end
  end

  def test_a_cancellation_passes_through_unchanged
    in_run do |scope|
      task = parked(scope.spawn { Timeout.timeout(60) { sleep } })
      task.cancel
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      task = parked(scope.spawn { Timeout.timeout(60, Own) { sleep } })
      task.cancel
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
    end
  end

  def test_shield_defers_only_outer_timeouts
    in_run do
      log = []
      error = expired(0.5) do
        NB.shield do
          assert_kind_of NeverBlock::TimeoutError, raised { NeverBlock.timeout(1) { sleep } }
          sleep 0.5
          log << :shielded
        end
        sleep
        log << :never
      end
      assert_kind_of Timeout::Error, error
      assert_equal [:shielded], log
    end
  end

  # ---- Enumerators ----
  def test_a_wait_inside_an_enumerator
    in_run do
      values = Enumerator.new { |yielder| yielder << 1 && sleep }
      error = raised do
        NeverBlock.timeout(1) { 2.times { values.next } }
      end
      assert_kind_of NeverBlock::TimeoutError, error
    end
  end

  def test_a_timeout_inside_an_enumerator
    in_run do
      values = Enumerator.new do |yielder|
        Timeout.timeout(1) { sleep }
      rescue Timeout::Error
        yielder << :expired
      end
      assert_equal :expired, values.next
    end
  end

  # ---- the slow frame ----
  def slow_part = sleep(10)

  def test_its_backtrace_has_the_place_of_the_block
    [proc { Timeout.timeout(1) { slow_part } }, proc { NeverBlock.timeout(1) { slow_part } }].each do |limited|
      error = assert_raises(Timeout::Error) { NeverBlock.run(&limited) }
      assert_match(/slow_part/, error.backtrace.join("\n"))
    end
  end

  # ---- outside a loop ----
  def test_outside_a_loop_no_rescue_inside_swallows_it
    swallowed = false
    error = assert_raises(NeverBlock::TimeoutError) do
      NeverBlock.timeout(0.05) do
        Thread::Queue.new.pop
      rescue => swallowed # Net::HTTP does so, and repeats the request
        nil
      end
    end
    refute swallowed
    assert_equal "execution expired after 0.05 s", error.message
  end

  def test_outside_a_loop_the_blocks_own_timeout_error_is_unchanged
    mine = Timeout::Error.new("a client's")
    assert_same mine, assert_raises(Timeout::Error) { NeverBlock.timeout(5) { raise mine } }
    assert_equal 7, NeverBlock.timeout(5) { 7 }
  end
end
