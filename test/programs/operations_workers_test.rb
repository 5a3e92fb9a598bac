# frozen_string_literal: true

# slow: it starts servers (5 s)

require "test_helper"
require "support/operated"
require "support/accounting"

# Workers in operation: their replacement after many requests, and how they share what comes.
class OperationsWorkersTest < Minitest::Test
  include NeverBlockTest::Operated

  def test_workers_are_recycled_after_so_many_requests
    serve(2, "recycle requests: 50\n") do |served|
      before = pids
      accounting = NeverBlockTest::Accounting.new(served.port).start
      served.until_true("others") { pids.size == 2 && (pids & before).empty? }
      accounting.stop
      assert_empty accounting.lost
      assert_match(/worker \d \[\d+\] has answered \d+ requests: it is replaced/, served.errors)
    end
  end

  def test_a_full_worker_takes_no_connections_while_another_has_room
    serve(2, "max_in_flight 3\nqueue limit: 100, max_wait: 30\n") do |served|
      held = Array.new(6) do |count|
        served.connect.tap do |socket|
          socket << "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"
          served.until_true("the request") { requests(:in_flight, :queued) == count + 1 }
        end
      end
      assert_equal [3, 3], stats[:workers].map { |worker| worker.dig(:stats, :in_flight) }
      waiting = served.connect # both are full now: so both accept
      waiting << "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
      served.until_true("its place in a queue") { requests(:queued) == 1 }
      held.each(&:close)
      waiting.close
      served.signal(:TERM)
      served.until_true("no readiness") { probe("/readyz").first == 503 }
      served.signal(:TERM)
      served.wait
    end
  end
end
