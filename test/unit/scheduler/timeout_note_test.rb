# frozen_string_literal: true

require "test_helper"
require "support/loops"
require "support/virtual_time"

# Notes that code adds to a timeout's exception on its way.
class TimeoutNoteTest < Minitest::Test
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  # Unwound code may add the outcome of its work: a database client, the fate of its statement.
  def test_a_note_added_on_the_way_is_in_the_message
    note = lambda do |words, &swallow|
      begin
        sleep
      rescue NeverBlock::Scheduler::ScopeExit => error
        error.note = words
        raise unless swallow
      end
      sleep
    end
    in_loop do
      error = assert_raises(NeverBlock::TimeoutError) { NB.timeout(1) { note.call("(half done)") } }
      assert_equal "execution expired after 1 s (half done)", error.message
      error = assert_raises(Timeout::Error) { Timeout.timeout(1) { note.call("(half done)") } }
      assert_equal "execution expired (half done)", error.message
      error = assert_raises(NeverBlock::TimeoutError) { NB.timeout(1) { note.call("(half done)") { nil } } }
      assert_equal "execution expired after 1 s (half done)", error.message
      error = assert_raises(NeverBlock::TimeoutError) { NB.timeout(1) { sleep } }
      assert_equal "execution expired after 1 s", error.message
    end
  end
end
