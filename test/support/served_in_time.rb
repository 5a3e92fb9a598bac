# frozen_string_literal: true

require_relative "served"
require_relative "virtual_loop"

module NeverBlockTest
  # {Served} for tests of time: the test, its server and its clients are fibers of one loop on a virtual clock. Limits
  # take no real time, and are exact.
  #
  #   class IdleTest < Minitest::Test
  #     include NeverBlockTest::Helpers
  #     include NeverBlockTest::ServedInTime
  #
  #     def test_an_idle_connection_is_closed
  #       serve(idle_timeout: 75)
  #       wire = connect << get
  #       wire.answer
  #       assert_after(75) { assert_predicate wire, :ended? }
  #     end
  #   end
  module ServedInTime
    include Served
    include VirtualLoop

    # Seconds for a client's reads and writes: longer than any limit of the server.
    LIMIT = 100_000
    # Seconds between two looks at a condition.
    LOOK = 0.05
    # Seconds by which times may be longer: the server looks for bytes once more before it gives up a client, and time is
    # real while bytes are on their way.
    SLACK = 0.1

    # @return [Wire] whose reads and writes wait for any limit of the server
    def connect(to = server, **) = super(to, limit: LIMIT, **)

    # @param seconds [Numeric, Range] the virtual time that the block must take
    # @return [Object] the block's value
    def assert_after(seconds)
      seconds = seconds..(seconds + SLACK) unless Range === seconds
      began = clock.elapsed
      value = yield
      assert_includes seconds, (clock.elapsed - began).round(5), "the time that passed"
      value
    end

    # Lets time pass while the loop is blocked, as an app does that computes.
    def compute(seconds) = NeverBlock::Clock.advance(seconds)

    # Lets time pass until the block is true.
    # @param limit [Numeric] seconds of virtual time
    # @return [Object] the block's value
    def wait_until(what = "the condition", limit: 600)
      ends = clock.elapsed + limit
      clock.settle
      until (value = yield)
        flunk "#{what} did not come true within #{limit} s" if clock.elapsed > ends
        sleep LOOK
      end
      value
    end
  end
end
