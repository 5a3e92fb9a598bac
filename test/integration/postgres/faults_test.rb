# frozen_string_literal: true

# slow: faults that last for a while (30 s)

require "test_helper"
require_relative "../../support/fault_cell"

# Any fault, at any stage of a statement: no wrong row, nothing applied twice, nothing lost that was confirmed, no hang,
# and the same client serves afterwards.
#
# Each cell of {STATES} × {FAULTS} is a test. It runs a shared read, an exclusive write and a transaction at once, each
# with a client, a role and a network of its own. A state or fault without its method fails.
class PostgresFaultsTest < Minitest::Test
  include NeverBlockTest::Database

  Cell = NeverBlockTest::FaultCell

  # The stage of the statement when the fault strikes.
  STATES = %i[queued outbox sent first_row before_sync in_part].freeze
  FAULTS = %i[nb_timeout ruby_timeout cancel fiber_kill thread_kill terminate cut silence limit].freeze
  KINDS = %i[read write lease].freeze

  SCHEMA = <<~SQL
    create table applied (nonce text);
    create function hold_at(gate bigint) returns bigint language plpgsql as
      $$ begin perform pg_advisory_xact_lock_shared(gate); return gate; end $$;
    #{KINDS.map { |kind| "create role nb_#{kind} login; grant all on applied to nb_#{kind};" }.join("\n")}
  SQL

  STATES.product(FAULTS) do |state, fault|
    define_method(:"test_#{state}_#{fault}") do
      KINDS.map { |kind| Thread.new { Cell.new(self, kind, state, fault).run }.tap { |thread| thread.report_on_exception = false } }.each(&:value)
    end
  end

  # At least four stages and four fates. The lists and the cell's methods match each other.
  def test_no_cell_is_missing
    assert_empty %i[queued sent first_row before_sync] - STATES
    assert_empty [%i[nb_timeout ruby_timeout], %i[cancel], %i[fiber_kill thread_kill], %i[terminate cut silence]].flatten - FAULTS
    methods = Cell.private_instance_methods(false)
    assert_equal STATES.map { |state| :"arrange_#{state}" }.sort, methods.grep(/\Aarrange_/).sort
    assert_equal FAULTS.map { |fault| :"fault_#{fault}" }.sort, methods.grep(/\Afault_(?!timeout)/).sort
    tests = self.class.runnable_methods
    assert_empty STATES.product(FAULTS).map { |state, fault| "test_#{state}_#{fault}" } - tests
  end

  def setup
    super
    skip NeverBlockTest::DelayProxy.missing if NeverBlockTest::DelayProxy.missing
    self.class.prepare
    @limit = limit(1)
  end

  # Restores the time limit for a connection's reset, which setup shortens.
  def run
    super
  ensure
    limit(@limit) if @limit
  end

  def limit(seconds)
    before = NeverBlock::Postgres::SessionReset::TIMEOUT
    NeverBlock::Postgres::SessionReset.send(:remove_const, :TIMEOUT)
    NeverBlock::Postgres::SessionReset.const_set(:TIMEOUT, seconds)
    before
  end

  # ROLLBACK cancels the interrupted statement first, and nothing confirms that.
  def test_rollback_on_a_silent_network
    proxy = self.class.prepare.fetch(:lease)
    proxy.resume
    in_loop do
      with_database(target: "postgresql://nb_lease@127.0.0.1:#{proxy.port}/postgres", connections: 2) do |database|
        connection = database.connection
        connection.exec("BEGIN")
        connection.exec("insert into applied values ('silent')")
        proxy.silence
        assert_raises(NeverBlock::TimeoutError) { NB.timeout(Cell::WAIT) { connection.exec("select 1") } }
        error = assert_raises(PG::ConnectionBad) { NB.timeout(20) { connection.exec("ROLLBACK") } }
        assert_match(/did not confirm within/, error.message)
        proxy.resume
        assert_equal "0", database.exec("select count(*) from applied where nonce = 'silent'").getvalue(0, 0)
      end
    end
  end

  # One network per kind, for all tests.
  def self.prepare
    @proxies ||= begin
      NeverBlockTest::Database.server.query("drop table if exists applied")
      NeverBlockTest::Database.server.query(SCHEMA)
      proxies = KINDS.to_h { |kind| [kind, NeverBlockTest::DelayProxy.new(to: NeverBlockTest::Database.server.socket)] }
      Minitest.after_run { proxies.each_value(&:close) }
      proxies
    end
  end
end
