# frozen_string_literal: true

require "test_helper"
require "support/loops"
require "neverblock/postgres" if Gem.loaded_specs.key?("pg")

# When the catalogue is read, and which statements wait for that.
class PostgresCatalogueTest < Minitest::Test
  include NeverBlockTest::Loops

  SLY = [["1255", "20000", nil, nil, "f", nil, "sly", "function sly()"], ["1259", "1", "1255", "20000", "f", "relation", "sales", "view sales"]].freeze
  Answer = Struct.new(:values) do
    def getvalue(row, column) = values[row][column]
  end

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    @mark, @removed, @begins, @things, @asked, @logged, @later = "a", 0, "t", [], [], [], []
    @gate = nil
    @classifier = NeverBlock::Postgres::Classifier.new
    @catalogue = NeverBlock::Postgres::Catalogue.new(shareable: [], log: @logged.method(:<<), later: ->(&block) { @later << block }) { |sql, _session_defaults| answer(sql) }
  end

  def test_it_is_asked_once_and_an_unchanged_one_is_not_read_again
    in_loop do
      3.times { assert_nil doubt }
      assert_equal %i[revision question], @asked
      @catalogue.outdate
      2.times { assert_nil doubt }
      assert_equal %i[revision question revision], @asked
      @catalogue.outdate
      @mark, @things = "a b", SLY
      assert_match(/uses view sales, which calls function sly/, doubt)
      assert_equal %i[revision question revision revision beginning question], @asked
      assert_equal 1, @logged.size
      doubt
      assert_equal 1, @logged.size, "each reason is told once"
    end
  end

  def test_a_change_with_which_nothing_comes_to_leave_session_state_leaves_all_as_it_is
    @things = SLY
    in_loop do
      assert doubt
      @catalogue.outdate
      @mark, @begins = "a b", "f"
      assert doubt
      assert_equal %i[revision question revision beginning], @asked
      refute_predicate @catalogue, :wanted?
    end
  end

  # A view that is dropped is doubted until the catalogue was read whole in the background.
  def test_what_is_gone_is_forgotten_in_the_background
    @things = SLY
    in_loop do
      assert doubt
      @catalogue.outdate
      @removed, @begins, @things = 1, "f", []
      assert doubt
      assert_predicate @catalogue, :wanted?
      doubt
      @later.shift.call
      assert_nil doubt
      assert_equal %i[revision question revision beginning revision revision question], @asked
      refute_predicate @catalogue, :wanted?
    end
  end

  def test_all_wait_for_one_answer
    in_loop do
      @gate = Thread::Queue.new
      tasks = Array.new(10) { NB.spawn { doubt } }
      pass_until("the question") { @asked == %i[revision] }
      @gate.close
      assert_equal [nil] * 10, tasks.map(&:value)
      assert_equal %i[revision question], @asked
    end
  end

  # The snapshot may have been taken before the definition.
  def test_a_definition_while_it_is_asked
    in_loop do
      @gate = Thread::Queue.new
      before = NB.spawn { doubt }
      pass_until("the question") { @asked.size == 1 }
      @catalogue.outdate
      after = NB.spawn { doubt }
      pass_until("the question") { @asked.size == 2 }
      @mark, @things = "a b", SLY
      @gate.close
      before.value
      assert after.value
      assert doubt
      assert_equal %i[revision revision], @asked.first(2)
    end
  end

  def test_when_it_has_expired_others_go_on_meanwhile
    in_loop do
      assert_nil doubt
      @catalogue.expire
      @mark, @things = "a b", SLY
      3.times { assert_nil doubt }
      assert_equal [1, %i[revision question]], [@later.size, @asked]
      @later.shift.call
      assert doubt
      refute_predicate @catalogue, :wanted?
    end
  end

  def test_a_holder_of_a_connection_waits_for_nothing
    assert_match(/not known/, held)
    @catalogue.refresh { |sql| answer(sql) }
    assert_nil held
    assert_match(/not known/, held(altering: true))
    assert_nil held("set a to b", altering: true)
    @catalogue.expire
    assert_match(/not known/, held) # outside of a loop no task runs in the background
    in_loop { assert_nil held }
    assert_equal 1, @later.size
  end

  def test_where_it_cannot_be_read_every_statement_is_doubtful_until_it_can
    in_loop do
      @error = PG::QueryCanceled.new("ERROR:  canceling statement due to statement timeout\n")
      assert_equal "the catalogue could not be read: ERROR:  canceling statement due to statement timeout", doubt("select 1")
      @error = nil
      assert doubt("select 1")
      assert_equal 1, @later.size
      @later.shift.call
      assert_nil doubt("select 1")
    end
  end

  def test_an_error_of_the_connection_reaches_all_waiters
    in_loop do
      @error = PG::ConnectionBad.new("no server")
      assert_raises(PG::ConnectionBad) { doubt }
      @error = nil
      assert_nil doubt
      @catalogue.expire
      doubt
      @error = PG::ConnectionBad.new("no server")
      @later.shift.call
      assert_match(/could not be read again.*no server/, @logged.last)
      assert_nil doubt
    end
  end

  private

  def answer(sql)
    kind = {"with of(" => :revision, "with built_in(" => :beginning}.find { |start, _| sql.start_with?(start) }&.last || :question
    @asked << kind
    @gate&.pop
    raise @error if @error
    Answer.new({revision: [["700", "pg_depend", 10 - @removed, @mark, "0", "16400 16401"]], beginning: [[@begins]], question: @things}[kind])
  end

  def doubt(sql = "select * from sales") = @catalogue.doubt(sql, @classifier.call(sql), NeverBlock::Postgres::SessionDefaults::EMPTY)

  def held(sql = "select * from sales", **options) = @catalogue.doubt_held(sql, @classifier.call(sql), NeverBlock::Postgres::SessionDefaults::EMPTY, **options)
end
