# frozen_string_literal: true

require "test_helper"
require_relative "../../support/delay_proxy"
require_relative "../../support/records"

# After a server has ended its connections, or was down, the adapter behaves like Active Record's own: repeatable
# statements run again, and health checks are truthful.
class PostgresRestartTest < Minitest::Test
  include NeverBlockTest::Records

  def test_finds_after_all_connections_were_ended
    with_items(connections: 4) do |items|
      100.times { |n| items.create!(name: "item #{n}") }
      3.times do
        opened(items)
        end_connections
        assert_equal (1..40).map { |n| "item #{n - 1}" }, NB.concurrently(1..40, limit: 40) { |n| items.find(n).name }
      end
    end
  end

  # A transaction that has not begun on the server can begin on another connection.
  def test_writes_after_all_connections_were_ended
    with_items(connections: 4) do |items|
      opened(items)
      end_connections
      items.first # notices the end
      NB.concurrently(1..20, limit: 20) { |n| items.transaction { items.create!(name: "item #{n}") } }
      assert_equal 20, items.count
    end
  end

  def test_the_server_s_words_are_told
    with_database(connections: 1) do |database|
      in_loop do
        task = NB.spawn { database.exec("select pg_sleep(60)") }
        pass_until("the statement to run") { active("%pg_sleep%") == 1 }
        end_connections
        error = assert_raises(NeverBlock::Postgres::OutcomeUnknown) { task.value }
        assert_match(/terminating connection due to administrator command/, error.message)
      end
    end
  end

  def test_health_checks_of_a_server_that_is_gone
    reason = NeverBlockTest::DelayProxy.missing and skip reason
    NeverBlockTest::DelayProxy.open(to: NeverBlockTest::Database.server.socket) do |proxy|
      with_items(connections: 3, host: "127.0.0.1", port: proxy.port) do |items|
        items.with_connection do |adapter|
          assert_predicate adapter, :active?
          proxy.refuse
          proxy.cut
          NeverBlockTest.wait_until("the end of the connection") { !adapter.active? }
          assert_raises(ActiveRecord::ConnectionNotEstablished) { adapter.verify! }
          assert_raises(ActiveRecord::ConnectionNotEstablished) { adapter.reconnect! }
          assert_raises(ActiveRecord::ConnectionNotEstablished, ActiveRecord::ConnectionFailed) { items.count }
          proxy.resume
          adapter.verify!
          assert_predicate adapter, :active?
          assert_equal 0, items.count
        end
      end
    end
  end

  private

  # Opens as many real connections as allowed.
  def opened(items)
    NB.concurrently(1..4, limit: 4) { items.transaction { items.connection.select_value("select pg_sleep(0.01)") } }
  end

  def end_connections = ask("select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'nb_#{name[0, 50]}'")
end
