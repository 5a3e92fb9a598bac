# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/puma_files"

# What hooks in such files have been given.
FROM_PUMA_TOLD = [] # standard:disable Style/MutableConstant

# The hooks of a Puma configuration, which run where ours do.
class ServerFromPumaHooksTest < Minitest::Test
  include NeverBlockTest::PumaFiles

  def test_hooks_get_what_puma_gives_them
    reading(<<~RUBY) do |configuration|
      before_fork { |*given| FROM_PUMA_TOLD << [:before_fork, given] }
      on_worker_boot { |*given| FROM_PUMA_TOLD << [:boot, given] }
      before_worker_boot(:pool) { |number, data| FROM_PUMA_TOLD << [:keyed, number, data]; data[:made] = number }
      before_worker_shutdown("pool") { |number, data| FROM_PUMA_TOLD << [:shutdown, number, data] }
      before_worker_shutdown { |*given| FROM_PUMA_TOLD << [:shutdown, given] }
    RUBY
      configuration.call_hooks(:before_fork)
      configuration.call_hooks(:after_fork, 3)
      configuration.call_hooks(:before_worker_exit, 3)
    end
    assert_equal [[:before_fork, [nil]], [:boot, [3]], [:keyed, 3, {made: 3}], [:shutdown, 3, {made: 3}], [:shutdown, [3]]], FROM_PUMA_TOLD
  ensure
    FROM_PUMA_TOLD.clear
  end

  def test_a_hook_that_fails_is_told_of_and_passed_over
    reading("before_fork { raise 'no index' }\nbefore_fork { FROM_PUMA_TOLD << true }") do |configuration|
      _, err = capture_io { configuration.call_hooks(:before_fork) }
      assert_match(/\Aneverblock: config\/puma\.rb:1: before_fork \{ \} failed, and is passed over: .*no index \(RuntimeError\)/, err)
      assert_equal [true], FROM_PUMA_TOLD
    end
  ensure
    FROM_PUMA_TOLD.clear
  end
end
