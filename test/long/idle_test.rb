# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/long/idle"
require "support/long/record"

# Ten thousand idle connections.
class IdleTest < Minitest::Test
  COUNT = 10_000
  BYTES = 2_048

  def test_they_cost_little_and_all_answer_again
    needed = COUNT + 200
    limit = Process.getrlimit(:NOFILE).last
    skip "#{needed} open files are needed, and the hard limit (ulimit -Hn) is #{limit}" if limit < needed
    idle = NeverBlockTest::Idle.new(COUNT).call
    assert_equal [COUNT, COUNT], idle.values_at(:answered, :kept)
    assert_operator idle[:bytes], :<=, BYTES, "bytes of PSS a connection"
    NeverBlockTest::Record.add("idle", engine: NeverBlock.engine.name, **idle)
  end
end
