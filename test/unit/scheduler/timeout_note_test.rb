# frozen_string_literal: true

require "test_helper"
require "support/loops"

# Notes that code adds to a timeout's exception on its way.
class TimeoutNoteTest < Minitest::Test
  include NeverBlockTest::Loops

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
      error = assert_raises(NeverBlock::TimeoutError) { NB.timeout(0.01) { note.call("(half done)") } }
      assert_equal "execution expired after 0.01 s (half done)", error.message
      error = assert_raises(Timeout::Error) { Timeout.timeout(0.01) { note.call("(half done)") } }
      assert_equal "execution expired (half done)", error.message
      error = assert_raises(NeverBlock::TimeoutError) { NB.timeout(0.01) { note.call("(half done)") { nil } } }
      assert_equal "execution expired after 0.01 s (half done)", error.message
      error = assert_raises(NeverBlock::TimeoutError) { NB.timeout(0.01) { sleep } }
      assert_equal "execution expired after 0.01 s", error.message
    end
  end
end
