# frozen_string_literal: true

require "test_helper"

# The connection that each kind of statement gets.
class PostgresSharingPolicyTest < Minitest::Test
  # A text of each kind: whether it runs without a lease; whether it shares with `multiplex: :reads`, and with `:all`;
  # which session state it may leave outside of a transaction.
  TEXTS = {
    "select 1" => [:read, true, true, true, false], "insert into t values (1)" => [:write, true, false, true, false],
    "create table t (n int)" => [:write, true, false, true, false], "select pg_advisory_xact_lock(1)" => [:transactional, true, false, true, false],
    "set local a.b to '1'" => [:transactional, true, false, true, false], "select current_setting('a.b')" => [:looking, false, false, true, true],
    "begin" => [:begin, false, false, true, false], "commit" => [:commit, true, false, true, false], "rollback" => [:rollback, true, false, true, false],
    "" => [:empty, true, false, true, false], "declare c cursor for select 1" => [:cursor, false, false, true, false],
    "declare c cursor with hold for select 1" => [:cursor, false, false, true, true], "copy t to stdout" => [:copy, false, false, true, false],
    "set a.b to '1'" => [:set, false, false, true, true], "reset a.b" => [:reset, false, false, true, true], "discard all" => [:discard, false, false, true, true],
    "prepare p as select 1" => [:prepare, false, false, true, true], "execute p" => [:execute, false, false, true, true], "deallocate p" => [:deallocate, false, false, true, false],
    "listen a" => [:listen, false, false, true, true], "unlisten a" => [:unlisten, false, false, true, true], "select f()" => [:session, false, false, true, true],
    "select 1; select 2" => [:session, false, false, true, true]
  }.freeze

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
  end

  TEXTS.each do |sql, (kind, placed, read, all, lasting)|
    define_method("test_#{sql.gsub(/\W+/, "_")}") do
      classification = classify(sql)
      reads, everything = %i[reads all].map { |share| policy(share) }
      assert_equal [kind, placed, read, all, lasting],
        [classification.kind, reads.placed?(classification), reads.shares?(classification, nil), everything.shares?(classification, nil), reads.lasting?(classification, sql, false)]
    end
  end

  def test_every_kind_is_in_the_table
    assert_equal NeverBlock::Postgres::SharingPolicy::KINDS.keys.sort, TEXTS.values.map(&:first).uniq.sort
  end

  def test_doubtful_statements_never_share
    TEXTS.each_key { |sql| %i[reads all].each { |share| refute policy(share).shares?(classify(sql), "it uses a view") } }
  end

  def test_reading_a_transaction_s_session_leaves_no_state
    refute policy(:reads).lasting?(classify("select current_setting('a.b')"), "select current_setting('a.b')", true)
  end

  def test_nothing_is_placed_without_a_lease_where_nothing_shares
    TEXTS.each_key { |sql| refute policy(false).placed?(classify(sql)) }
  end

  private

  def policy(share) = NeverBlock::Postgres::SharingPolicy.new(share)

  def classify(sql) = (@classifier ||= NeverBlock::Postgres::Classifier.new).call(sql)
end
