# frozen_string_literal: true

require "test_helper"
require_relative "../../support/table_locks"

# The diagrams at the top of Statement and PipelinedConnection: each arrow is taken, and no other transition occurs.
class PostgresStatesTest < Minitest::Test
  include NeverBlockTest::Database
  include NeverBlockTest::TableLocks

  STATEMENT = {
    unplaced: %i[placed done abandoned], placed: %i[sent unplaced done abandoned], sent: %i[done placed unplaced abandoned],
    abandoned: %i[done] # its answer arrived anyway, and was dropped
  }.freeze
  CONNECTION = {
    shared: %i[alone leased upkeep broken], alone: %i[shared upkeep broken], leased: %i[shared upkeep broken], upkeep: %i[shared broken]
  }.freeze

  # Records each change of state by the methods that make one.
  module Walk
    def self.of(methods)
      Module.new do
        define_method(:walked) { @walked ||= [] }
        methods.each do |name|
          define_method(name) do |*arguments, **options|
            before = state
            options.empty? ? super(*arguments) : super(*arguments, **options)
          ensure
            walked << [before, state] if before != state
          end
        end
      end
    end

    STATEMENT = of(%i[connection= sent_at= finish abandon displace resend?])
    CONNECTION = of(%i[holder= break_off])
  end

  def setup
    super
    ask("create schema if not exists states; create table if not exists states.locked as select 1 as n")
    @walked = {statement: [], connection: []}
  end

  def test_a_statement_walks_each_arrow_of_its_diagram_and_no_other
    private_methods(false).grep(/\Astatement_/).sort.each { |scenario| in_loop { send(scenario) } }
    assert_equal arrows(STATEMENT), @walked[:statement].flat_map(&:walked).uniq.sort
  end

  def test_a_connection_walks_each_arrow_of_its_diagram_and_no_other
    private_methods(false).grep(/\Aconnection_/).sort.each { |scenario| in_loop { send(scenario) } }
    assert_equal arrows(CONNECTION), @walked[:connection].flat_map(&:walked).uniq.sort
  end

  private

  def statement_that_is_answered
    with_multiplexer { |multiplexer| assert_equal "1", one(multiplexer.run(statement("select 1"))) }
  end

  def statement_that_gets_no_place
    with_multiplexer(-> { raise PG::ConnectionBad, "no server" }) do |multiplexer|
      assert_raises(PG::ConnectionBad) { NB.pipeline(-> { multiplexer.run(statement("select 1")) }, -> { 1 }) }
    end
  end

  def statement_whose_connection_is_lost_before_it_is_sent
    with_multiplexer do |multiplexer, connection|
      task = NB.spawn { one(multiplexer.run(statement("select 2"))) }
      NB.pass until connection.depth == 1
      connection.break_off(PG::ConnectionBad.new("gone"))
      assert_equal "2", task.value
    end
  end

  def statement_whose_name_is_gone
    with_multiplexer do |multiplexer, connection|
      run = -> { one(multiplexer.run(statement("select $1::int", ["3"], key: "three"))) }
      run.call
      connection.plain.exec("deallocate all")
      assert_equal "3", run.call
    end
  end

  def statement_that_others_wait_for
    with_multiplexer do |multiplexer, connection|
      reader = nil
      locked("states.locked", "access exclusive") do
        reader = NB.spawn { one(multiplexer.run(statement("select n from states.locked"))) }
        pass_until("its wait for the lock") { waiting == 1 }
        assert_equal "4", one(multiplexer.run(statement("select 4")))
      end
      assert_equal "1", reader.value
      assert_equal 1, multiplexer.stats[:displaced]
    end
  end

  def statement_that_is_given_up_in_a_queue
    with_multiplexer do |multiplexer|
      lease = multiplexer.lease(NeverBlock::Postgres::SessionDefaults::EMPTY, purpose: "a test")
      task = NB.spawn { multiplexer.run(statement("select 5")) }
      pass_until("its wait") { multiplexer.stats[:queued] == 1 }
      task.cancel
      assert_kind_of NeverBlock::Cancelled, outcome(task)
      lease.give_back
    end
  end

  def statement_that_is_given_up_before_it_is_sent
    with_multiplexer do |multiplexer, connection|
      task = NB.spawn { multiplexer.run(statement("select 6")) }
      NB.pass until connection.depth == 1
      task.cancel
      assert_kind_of NeverBlock::Cancelled, outcome(task)
      assert_predicate connection, :idle?
    end
  end

  def statement_that_is_given_up_when_it_runs
    with_multiplexer do |multiplexer, connection|
      task = NB.spawn { multiplexer.run(statement("select pg_sleep(60)")) }
      pass_until("its run") { connection.head&.sent? }
      task.cancel
      assert_kind_of NeverBlock::Cancelled, outcome(task)
      pass_until("its end") { connection.idle? && connection.holder.nil? }
    end
  end

  # The lease's session state is lost with its connection.
  def statement_of_a_lease_whose_connection_is_gone
    with_multiplexer do |multiplexer, connection|
      lease = multiplexer.lease(NeverBlock::Postgres::SessionDefaults::EMPTY, purpose: "a test")
      terminate(connection)
      connection.probe_next
      assert_raises(PG::ConnectionBad) { lease.run(statement("select 7")) }
      lease.give_back
    end
  end

  def connection_that_is_shared_and_lost
    with_multiplexer { |_multiplexer, connection| connection.break_off(PG::ConnectionBad.new("gone")) }
  end

  def connection_of_a_statement_alone
    with_multiplexer do |multiplexer, connection|
      multiplexer.run(statement("select 1", alone: true))
      assert_equal :shared, connection.state
      task = NB.spawn { multiplexer.run(statement("select pg_sleep(60)", alone: true, kind: :write)) }
      pass_until("its run") { connection.head&.sent? }
      terminate(connection)
      assert_kind_of NeverBlock::Postgres::OutcomeUnknown, outcome(task)
    end
  end

  def connection_of_a_statement_that_may_have_left_something
    with_multiplexer do |multiplexer, connection|
      multiplexer.run(statement("select 1", alone: true, doubt: "a function"))
      pass_until("its upkeep") { connection.suspect.nil? && connection.state == :shared }
    end
  end

  def connection_of_a_lease
    with_multiplexer do |multiplexer, connection|
      lease = -> { multiplexer.lease(NeverBlock::Postgres::SessionDefaults::EMPTY, purpose: "a test") }
      lease.call.give_back
      assert_equal :shared, connection.state
      lease.call.tap { |one| one.leave_state("SET x") }.give_back
      pass_until("its upkeep") { connection.state == :shared }
      one = lease.call
      connection.break_off(PG::ConnectionBad.new("gone"))
      one.give_back
    end
  end

  def connection_that_was_not_looked_at_for_long
    with_multiplexer do |multiplexer, connection|
      connection.audited_at -= NeverBlock::Postgres::Janitor::INTERVAL + 1
      multiplexer.run(statement("select 1"))
      pass_until("the look") { connection.state == :shared && connection.audited_at > now - 30 }
    end
  end

  def connection_that_can_t_be_restored
    with_multiplexer do |multiplexer, connection|
      lease = multiplexer.lease(NeverBlock::Postgres::SessionDefaults::EMPTY, purpose: "a test")
      lease.leave_state("SET x")
      terminate(connection)
      lease.give_back
      pass_until("its end") { connection.state == :broken }
    end
  end

  # @yieldparam multiplexer [NeverBlock::Postgres::Multiplexer] of one connection
  # @yieldparam connection [NeverBlock::Postgres::PipelinedConnection, nil] an open connection, if possible
  def with_multiplexer(connect = nil)
    target = url
    multiplexer = NeverBlock::Postgres::Multiplexer.new(connect || -> { PG.connect(target) }, connections: 1, log: @logged.method(:<<))
    unless connect
      multiplexer.verify
      @walked[:connection] << (connection = multiplexer.pool.connections.first.extend(Walk::CONNECTION))
    end
    yield multiplexer, connection
  ensure
    multiplexer&.close
  end

  def statement(sql, params = [], **options)
    NeverBlock::Postgres::Statement.allocate.extend(Walk::STATEMENT).set_up(sql, params, session_defaults: NeverBlock::Postgres::SessionDefaults::EMPTY, judged: true, **options).tap { |one| @walked[:statement] << one }
  end

  def terminate(connection)
    pid = connection.pid
    ask("select pg_terminate_backend(#{pid})")
    pass_until("its end") { ask("select count(*) from pg_stat_activity where pid = #{pid}") == "0" }
  end

  def arrows(table) = table.flat_map { |from, states| states.map { |to| [from, to] } }.sort
end
