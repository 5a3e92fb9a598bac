# frozen_string_literal: true

require "test_helper"
require_relative "../../support/database"
require_relative "../../support/delay_proxy"

# Several reads of one request in one round trip, with Sequel.
class PostgresSequelPipelineTest < Minitest::Test
  include NeverBlockTest::Database

  def setup
    super
    skip "sequel is not among the gems here" unless Gem.loaded_specs.key?("sequel")
    require "sequel"
  end

  slow "a database that is far away"
  def test_one_round_trip
    reason = NeverBlockTest::DelayProxy.missing and skip reason
    NeverBlockTest::DelayProxy.open(to: NeverBlockTest::Database.server.socket, delay: 0.01) do |proxy|
      with_sequel(port: proxy.port) do |db|
        reads = [-> { db[:things].where(n: 2).get(:n) }, -> { db[:things].count }, -> { db[:things].select_order_map(:n) }]
        reads.each(&:call)
        NeverBlock.pipeline(*reads)
        proxy.trips
        assert_equal [[2, 3, [1, 2, 3]], 1], [NeverBlock.pipeline(*reads), proxy.trips]
      end
    end
  end

  def test_inside_a_transaction_everything_is_in_it
    with_sequel(port: NeverBlockTest::Database.server.port) do |db|
      db.transaction(rollback: :always) do
        db[:things].insert(n: 4)
        assert_equal [4, 4], NeverBlock.pipeline(-> { db[:things].count }, -> { db[:things].max(:n) })
        NeverBlock.pipeline(-> { db[:things].insert(n: 5) })
      end
      assert_equal [3, 1], NeverBlock.pipeline(-> { db[:things].count }, -> { db[:things].min(:n) })
      db.synchronize do
        db.run("create temporary table passing as select 7 as n")
        assert_equal [7], NeverBlock.pipeline(-> { db[:passing].get(:n) })
      end
    end
  end

  private

  def with_sequel(port:)
    in_loop do
      db = Sequel.connect(adapter: "neverblock_postgres", host: "127.0.0.1", port:, user: "postgres", database: "postgres", connections: 3, driver_options: {sslmode: "disable"})
      db.create_table!(:things) { Integer :n }
      db[:things].import([:n], [[1], [2], [3]])
      yield db
    ensure
      db&.disconnect
      Sequel::DATABASES.delete(db)
    end
  end
end
