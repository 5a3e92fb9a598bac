# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/loops"
require "support/served"

# Role and shard of child fibers. No database is needed for that: test/integration has some.
class ConnectedToTest < Minitest::Test
  include NeverBlockTest::Loops
  include NeverBlockTest::Served

  def setup
    super
    skip "activerecord is not among the gems here" unless Gem.loaded_specs.key?("activerecord")
    require "active_record"
    require "neverblock/shards"
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
  end

  def teardown
    super
  ensure # a loop refuses to begin where other threads have state by thread
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber if defined?(ActiveSupport::IsolatedExecutionState)
  end

  def test_a_child_has_the_role_and_the_shard_of_its_parent
    in_loop do
      on(shard: :eu, role: :reading) do
        assert_equal %i[eu reading], NB.spawn { here }.value
        assert_equal %i[eu reading], Fiber.new { here }.resume
        assert_equal %i[eu reading], Enumerator.new { |values| values << here }.next
        assert_equal [%i[eu reading]] * 2, NB.concurrently(1..2) { here }
        assert NB.spawn { records.current_preventing_writes }.value
        assert_equal %i[eu reading], NB.spawn { NB.spawn { here }.value }.value
      end
      assert_equal default, NB.spawn { here }.value
    end
  end

  # A child that looks for the first time when its parent has left the block, or has chosen otherwise.
  def test_a_child_keeps_the_choice_of_its_birth
    in_loop do
      go_on = Thread::Queue.new
      late = on(shard: :eu) { NB.spawn { go_on.pop && here } }
      other = on(shard: :us) { NB.spawn { go_on.pop && here } }
      none = NB.spawn { go_on.pop && here }
      on(shard: :asia) do
        3.times { go_on << true }
        assert_equal [%i[eu writing], %i[us writing], default], [late, other, none].map(&:value)
      end
    end
  end

  def test_a_child_s_changes_are_its_own
    in_loop do
      on(shard: :eu) do
        there, go_on = Thread::Queue.new, Thread::Queue.new
        child = NB.spawn { [on(shard: :us, role: :reading) { (there << true) && go_on.pop && here }, here] }
        there.pop
        assert_equal %i[eu writing], here
        sibling = NB.spawn { here }.value
        go_on << true
        assert_equal [%i[eu writing], [%i[us reading], %i[eu writing]]], [sibling, child.value]
      end
      assert_equal default, here
    end
  end

  def test_nested_blocks_and_errors_in_them
    in_loop do
      on(shard: :eu) do
        on(role: :reading) { assert_equal %i[eu reading], NB.spawn { here }.value }
        assert_raises(KeyError) { on(shard: :us) { raise KeyError } }
        assert_equal %i[eu writing], NB.spawn { here }.value
      end
      records.connected_to_many(first_class, shard: :eu, role: :reading) do
        assert_equal [%i[eu reading], default], NB.spawn { [[first_class.current_shard, first_class.current_role], here] }.value
      end
      assert_equal default, NB.spawn { here }.value
    end
  end

  def test_a_prohibition_holds_in_children
    in_loop do
      on(shard: :eu) do
        records.prohibit_shard_swapping do
          NB.spawn do
            assert_predicate records, :shard_swapping_prohibited?
            assert_raises(ArgumentError) { on(shard: :us) { flunk } }
            assert_equal %i[eu reading], on(role: :reading) { here }
            records.prohibit_shard_swapping(false) { assert_equal %i[us writing], NB.spawn { on(shard: :us) { here } }.value }
            assert_raises(ArgumentError) { on(shard: :us) { flunk } }
            assert_raises(ArgumentError) { NB.spawn { on(shard: :us) { flunk } }.value }
          end.value
        end
        refute_predicate records, :shard_swapping_prohibited?
        assert_equal %i[us writing], NB.spawn { on(shard: :us) { here } }.value
      end
    end
  end

  # A thread of a pool that was started in a request outlives it.
  def test_threads_inherit_nothing
    in_loop do
      pool = on(shard: :eu) do
        records.prohibit_shard_swapping { Thread.new { [here, Fiber.new { here }.resume, records.shard_swapping_prohibited?] } }
      end
      assert_equal [default, default, nil], pool.value
      assert_equal default, on(shard: :eu) { NB.offload { here } }
    end
  end

  # As ActionController::Live does: the action goes on when the request has left the block.
  def test_a_fiber_that_shares_a_request_s_state_keeps_its_shard
    skip "Active Support shares with a block from 8.1 on" if ActiveSupport.version < Gem::Version.new("8.1")
    in_loop do
      go_on = Thread::Queue.new
      request = Fiber.current
      action = on(shard: :eu) do
        NB.spawn do
          on(shard: :asia) do
            shared = ActiveSupport::IsolatedExecutionState.share_with(request) do
              go_on.pop
              [here, NB.spawn { here }.value, on(shard: :us) { here }]
            end
            [shared, here, NB.spawn { here }.value]
          end
        end.tap { |task| pass_until("the action to share") { go_on.num_waiting == 1 } }
      end
      assert_equal default, here
      go_on << true
      assert_equal [[%i[eu writing], %i[eu writing], %i[us writing]], %i[asia writing], %i[asia writing]], action.value
      assert_equal default, here
    end
  end

  # Before Rails 8.1 the state is copied, and no block given.
  def test_a_fiber_that_copies_a_request_s_state_keeps_its_shard
    skip "Active Support 8.1 has it with a block only" if ActiveSupport.version >= Gem::Version.new("8.1")
    in_loop do
      request = Fiber.current
      go_on = Thread::Queue.new
      action = on(shard: :eu) do
        NB.spawn { ActiveSupport::IsolatedExecutionState.share_with(request) && go_on.pop && [here, NB.spawn { here }.value] }.tap { pass_until("the action to share") { go_on.num_waiting == 1 } }
      end
      go_on << true
      assert_equal [[%i[eu writing]] * 2, default], [action.value, here]
    end
  end

  # Begun before the patch was applied, or by code that sets Active Record's own state.
  def test_a_stack_that_is_active_record_s_own_is_taken_over
    in_loop do
      entry = {role: nil, shard: :eu, prevent_writes: false, klasses: [records]}
      ActiveSupport::IsolatedExecutionState[:active_record_connected_to_stack] = Concurrent::Array.new([entry])
      assert_equal %i[eu writing], here
      assert_equal %i[eu writing], NB.spawn { here }.value
      records.connected_to_stack.pop
      assert_equal default, NB.spawn { here }.value
    end
  end

  def test_nothing_is_left_behind
    in_loop do
      before = Fiber.current.storage
      on(shard: :eu) { records.prohibit_shard_swapping { here } }
      assert_equal [before, default], [Fiber.current.storage, here]
    end
  end

  def test_by_thread_it_is_rails_own
    ActiveSupport::IsolatedExecutionState.isolation_level = :thread
    standalone do
      fiber = Fiber.new { Fiber.yield && here }
      fiber.resume
      on(shard: :eu) { assert_equal %i[eu writing], fiber.resume(true) }
      assert_instance_of Concurrent::Array, records.connected_to_stack
    end
  end

  # What a request chooses and never takes back is gone with it.
  def test_the_choice_ends_with_the_request
    app = lambda do |env|
      before = [here, NB.spawn { here }.value, records.shard_swapping_prohibited?]
      records.connecting_to(shard: :eu, role: :reading)
      ActiveSupport::IsolatedExecutionState[:active_record_prohibit_shard_swapping] = true
      after = [here, NB.spawn { here }.value]
      [200, {}, ["#{before.inspect} #{after.inspect}"]]
    end
    serve(app)
    bodies = (connect << get * 5).answers(5).map(&:body)
    assert_equal ["#{[default, default, nil].inspect} #{[%i[eu reading], %i[eu reading]].inspect}"], bodies.uniq
  end

  private

  def records = ActiveRecord::Base

  def on(...) = records.connected_to(...)

  def here = [records.current_shard, records.current_role]

  def default = %i[default writing]

  def first_class
    @first_class ||= Class.new(ActiveRecord::Base) do
      self.abstract_class = true
      self.connection_class = true
    end
  end
end
