# frozen_string_literal: true

require "test_helper"
require "support/fake_connections"

# The messages of one connection: notices, partial results, names, and the sent part of an interrupted exchange.
class PostgresWireTest < Minitest::Test
  include NeverBlockTest::FakeConnections

  Notice = Struct.new(:severity, :error_message) do
    def error_field(_field) = severity
  end

  # Keeps the callback that libpq would call.
  module Noticing
    def set_notice_receiver(&receiver) = @receiver = receiver

    def notice(severity, message) = @receiver.call(Notice.new(severity, message))
  end

  def setup
    super
    @pg = NeverBlockTest::FakePg.new
    @pg.extend(Noticing)
    @wire = NeverBlock::Postgres::Wire.new(@pg)
  end

  def test_a_statement_s_notices_go_to_its_listener
    in_loop do
      heard = []
      @wire.transmit(statement("select 1", notices: ->(notice) { heard << notice.error_message }))
      @pg.notice("NOTICE", "hello")
      assert_equal ["hello"], heard
    end
  end

  # No exception may pass through libpq.
  def test_an_error_of_a_listener_is_its_statement_s
    in_loop do
      @wire.transmit(one = statement("select 1", notices: ->(_) { raise IndexError, "heard" }))
      @pg.notice("NOTICE", "hello")
      assert_equal "heard", assert_raises(IndexError) { one.value }.message
    end
  end

  def test_notices_without_a_listener_are_written_as_libpq_does
    in_loop do
      @wire.transmit(statement("select 1"))
      _, written = capture_io { @pg.notice("NOTICE", "hello\n") }
      assert_equal "hello\n", written
    end
  end

  def test_notices_of_our_own_statements_are_dropped
    in_loop do
      @wire.transmit(NeverBlock::Postgres::Statement.orphan("ROLLBACK"))
      assert_empty capture_io { @pg.notice("WARNING", "there is no transaction") }.last
    end
  end

  def test_the_server_s_last_words_are_kept
    in_loop do
      @pg.notice("FATAL", "terminating connection")
      assert_equal "terminating connection", @wire.last_words
      assert_equal "terminating connection", assert_raises(PG::ConnectionBad) { @wire.look }.message
    end
  end

  def test_out_of_the_pipeline_notices_go_to_the_caller_s_listener
    in_loop do
      heard = []
      @wire.plain(->(notice) { heard << notice.error_message })
      assert_predicate @wire, :plain?
      @pg.notice("NOTICE", "hello")
      assert_equal ["hello"], heard
      @wire.pipeline
      refute_predicate @wire, :plain?
    end
  end

  # In a pipeline the next query's rows would be lost.
  def test_single_row_mode_is_ended_before_the_pipeline
    in_loop do
      @wire.plain
      @wire.partial = true
      @wire.pipeline
      assert_equal [""], @pg.sent
      @wire.plain
      @wire.pipeline
      assert_equal [""], @pg.sent, "once"
    end
  end

  def test_a_parameter_without_an_encoding_fails_its_statement_alone
    in_loop do
      @pg.define_singleton_method(:send_query_params) { |sql, *| raise EncodingError, "no text" if sql == "bad" }
      @wire.transmit(bad = statement("bad", "\xFF"))
      @wire.transmit(good = statement("good"))
      assert_raises(EncodingError) { bad.value }
      assert_nil good.value
      assert_equal [bad, good], @wire.sent, "the Sync of each is sent"
    end
  end

  def test_a_connection_that_can_t_send_is_lost
    in_loop do
      @pg.define_singleton_method(:send_query_params) { |*| raise PG::UnableToSend, "another command is in progress" }
      @wire.transmit(one = statement("select 1"))
      assert_raises(PG::UnableToSend) { one.value }
      @pg.close
      assert_raises(PG::UnableToSend) { @wire.transmit(statement("select 2")) }
    end
  end

  def test_a_refused_statement_is_not_sent
    in_loop do
      @wire.transmit(one = statement("select 1"), IndexError.new("refused"))
      assert_raises(IndexError) { one.value }
      assert_empty @pg.sent
    end
  end

  def test_how_far_an_interrupted_exchange_got
    in_loop do
      assert_equal :unsent, @wire.interrupted(one = statement("select 1"))
      one.ended_at = now
      assert_equal :torn, @wire.interrupted(one)
      @wire.transmit(sent = statement("select 2"))
      assert_equal :sent, @wire.interrupted(sent)
      @pg.define_singleton_method(:sync_flush) { false }
      assert_equal :torn, @wire.interrupted(sent)
    end
  end

  def test_names_that_were_given_up_are_deallocated_outside_of_transactions
    in_loop do
      @wire.transmit(statement("select $1", 1, key: "key"))
      @pg.answer
      @wire.receive(now, [])
      @wire.names.give_up("key")
      @pg.transaction_status = PG::PQTRANS_INTRANS
      @wire.tidy
      assert_empty @pg.sent.grep(/DEALLOCATE/)
      @pg.transaction_status = PG::PQTRANS_IDLE
      @wire.tidy
      assert_equal 1, @pg.sent.grep(/\ADEALLOCATE nb\d+\z/).size
    end
  end

  def test_discard_all_forgets_all_names
    in_loop do
      @wire.transmit(statement("select $1", 1, key: "key"))
      @wire.transmit(statement("DISCARD ALL"))
      @pg.answer
      @pg.answer(NeverBlockTest::FakePg::Result.new(PG::PGRES_COMMAND_OK, "DISCARD ALL"))
      @wire.receive(now, finished = [])
      assert_equal [2, true], [finished.size, @wire.names.empty?]
    end
  end
end
