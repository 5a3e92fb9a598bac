# frozen_string_literal: true

require "test_helper"

# The native threads of the pools.
class NativeThreadsTest < Minitest::Test
  include NeverBlockTest::Helpers

  # Of futex(2): the limit of the wait is a time of the wall clock. A step of that clock would change the length of the wait.
  REALTIME = 0x100

  def test_an_idle_one_waits_by_the_clock_that_only_goes_forward
    skip "only Linux tells what a thread waits for" unless File.readable?("/proc/self/syscall")
    waits = assert_ruby(<<~RUBY)
      require "neverblock"
      NeverBlock.run do |scope|
        gate, opener = IO.pipe
        waiter = scope.spawn { Process.wait(spawn("read line; true", in: gate), Process::WUNTRACED) }
        NB.pass until waiter.waits_for.to_s.include?("native thread")
        opener.puts
      end
      look = -> do
        (Dir["/proc/self/task/*"] - ["/proc/self/task/\#{Process.pid}"]).filter_map do |task|
          _, _, operation, _, limit = File.read("\#{task}/syscall").split
          operation if limit && limit.hex > 0 && operation.hex & 0x7f == 9 # FUTEX_WAIT_BITSET
        rescue SystemCallError # it has ended
        end
      end
      Thread.pass until (found = look.call).any?
      puts found
    RUBY
    refute_empty waits
    assert_empty waits.split.reject { |operation| (operation.hex & REALTIME).zero? }
  end
end
