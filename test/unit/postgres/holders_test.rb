# frozen_string_literal: true

require "test_helper"

# The description of connections' holders.
class PostgresHoldersTest < Minitest::Test
  include NeverBlockTest::Helpers

  Connection = Struct.new(:head, :idle?, :plain?, :heard)
  Holder = Struct.new(:purpose, :sql, :owner, :loop, :held_since, :lease?, :alone?)

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
  end

  def test_a_fiber_of_a_loop
    held = described = nil
    line = __LINE__ + 2
    NeverBlock.run do |scope|
      scope.spawn(name: "holder") { (held = lease(owner: Fiber.current)) && sleep }
      NeverBlock.pass until held
      described = holders([connection(heard: now - 2), held]).first
      scope.cancel
    end
    place = "#{__FILE__}:#{line}"
    assert_equal({state: "leased", purpose: "BEGIN", statement: "select 1", task: "holder", spawned_at: place, at: place, ended: false}, described.except(:age, :rests))
    assert_operator described[:age], :>=, 3
    assert_operator described[:rests], :>=, 2
  end

  def test_a_fiber_that_has_ended_and_one_that_is_not_known
    ended = NeverBlock.run { NeverBlock.spawn { Fiber.current }.value }
    first, second = holders([connection, lease(owner: ended)], [connection, lease(owner: nil)])
    assert_equal [true, nil, nil], first.values_at(:ended, :at, :spawned_at)
    assert_equal [false, nil], second.values_at(:ended, :at)
    assert_match(/whose fiber has ended/, words([first]))
    refute_match(/ended/, words([second]))
  end

  def test_a_thread
    gate = Thread::Queue.new
    thread = Thread.new { gate.pop }
    line = __LINE__ - 1
    wait_until("its wait") { gate.num_waiting == 1 }
    assert_equal "#{__FILE__}:#{line}", holders([connection, lease(owner: thread, loop: nil)]).first[:at]
  ensure
    gate << true
    thread.join
  end

  # The oldest first; a holder that belongs to the pool itself has no age.
  def test_the_order
    restoring = Holder.new("one that is being restored", nil, nil, nil, nil, false, false)
    alone = Holder.new("a statement alone", "select 2", nil, nil, now - 9, false, true)
    found = holders([connection, restoring], [connection, lease(owner: nil)], [connection(idle: false), alone])
    assert_equal %w[alone leased restoring], found.map { |holder| holder[:state] }
    assert_match(/\A3 of 4 are held \(a statement alone, for \d+\.\d s, by select 2; BEGIN, for \d+\.\d s, which has been idle for \d+\.\d s after select 1; one that is being restored\)\z/, words(found, 4))
  end

  # The app's code has the connection: what it does with it is unknown.
  def test_user_code_is_not_idle
    assert_nil holders([connection(plain: true), lease(owner: nil)]).first[:rests]
    assert_nil holders([connection(idle: false), lease(owner: nil)]).first[:rests]
  end

  def test_the_running_statement_precedes_the_last_one
    running = Struct.new(:sql).new("commit")
    assert_equal "commit", holders([connection(idle: false, head: running), lease(owner: nil)]).first[:statement]
  end

  def test_no_message_names_hundreds
    holdings = Array.new(50) { [connection, lease(owner: nil)] }
    many = holders(*holdings)
    assert_equal 50, many.size
    assert_equal 20, words(many, 60).scan("BEGIN").size
    assert_match(/; and 30 more\)\z/, words(many, 60))
    assert_equal "0 of 60 are held", words([], 60)
  end

  def test_texts_of_any_bytes
    running = ->(sql) { holders([connection(idle: false, head: Struct.new(:sql).new(sql)), lease(owner: nil)]).first[:statement] }
    assert_equal "select '?' from x", running.call("select '\xFF'\n  from x".b)
    assert_equal "select 'é'", running.call("select 'é'".encode("UTF-16LE"))
    assert_equal ["a" * 200, "é" * 200], [running.call("a" * 10_000_000), running.call("é" * 10_000)]
    assert_predicate running.call("é".b * 500), :valid_encoding?
  end

  private

  def connection(head: nil, idle: true, plain: false, heard: 0.0) = Connection.new(head, idle, plain, heard)

  def lease(owner:, loop: NeverBlock::Scheduler.current) = Holder.new("BEGIN", "select 1", owner, loop, now - 3, true, false)

  def holders(*holdings) = NeverBlock::Postgres::Holders.new(holdings).to_a

  def words(holders, size = 1) = NeverBlock::Postgres::Holders.words(holders, size)
end
