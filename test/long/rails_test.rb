# frozen_string_literal: true

require "test_helper"
require "support/cluster/growth"
require "support/long/record"
require "support/rails_releases"

# The memory of a worker with a Rails app after 200,000 requests: pages from the database, JSON, sessions, waits.
class LongRailsTest < Minitest::Test
  REQUESTS = Integer(ENV.fetch("NEVERBLOCK_LONG_REQUESTS", "200000"))
  GROWTH = 4 << 20 # a leak of 21 bytes a request

  def test_a_worker_does_not_grow
    NeverBlockTest::RailsReleases.open do |releases|
      app = releases.app
      app.run("bin/rails", "runner", "5.times { |number| Note.create!(title: number.to_s) }")
      growth = NeverBlockTest::Growth.new(requests: REQUESTS, releases:).call
      assert_equal 0, growth.lost
      assert_operator growth.bytes, :<=, GROWTH, "bytes of PSS after #{growth.answered} requests"
      NeverBlockTest::Record.add("growth", Rails: app.version, requests: growth.answered, before: growth.before, after: growth.after)
    end
  end
end
