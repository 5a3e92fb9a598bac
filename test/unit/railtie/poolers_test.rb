# frozen_string_literal: true

require "test_helper"

# Settings that are verified at boot, behind a PgBouncer. With one: test/programs/postgres_pgbouncer_sessions_test.rb.
class RailtiePoolersTest < Minitest::Test
  Config = Struct.new(:name, :configuration_hash, :connection) do
    def new_connection = (Exception === connection) ? raise(connection) : connection
  end

  # Stands for an adapter.
  class Connection
    attr_reader :log

    def initialize(error = nil)
      @error, @log = error, []
    end

    def select_value(sql) = (@log << sql) && @error && raise(@error)

    def disconnect! = @log << :disconnected
  end

  def setup
    skip "Active Record is not among the gems here" unless Gem.loaded_specs.key?("activerecord")
    require "active_record"
    require "neverblock"
    require "neverblock/railtie/poolers"
  end

  def test_each_database_behind_a_pooler_is_asked_once
    pooled, direct = Connection.new, Connection.new
    configs = [config("a", pooled, pgbouncer: :transaction), config("b", direct), config("c", direct, pgbouncer: "session")]
    assert_empty lines(configs)
    assert_equal [["select 1", :disconnected], []], [pooled.log, direct.log]
  end

  # It may come later than the app; its first request verifies them.
  def test_a_database_that_does_not_answer_is_told_of
    late, refused = Connection.new(ActiveRecord::StatementInvalid.new("gone\n")), ActiveRecord::ConnectionNotEstablished.new("refused")
    assert_equal %w[a b].zip(%w[gone refused]).map { |name, why|
      "database #{name}: settings made on connect could not be verified through PgBouncer; the first request verifies them: #{why}"
    }, lines([config("a", late, pgbouncer: "transaction"), config("b", refused, pgbouncer: "transaction")])
    assert_equal ["select 1", :disconnected], late.log
  end

  def test_a_setting_that_does_not_arrive_ends_the_boot
    wrong = Connection.new(NeverBlock::ConfigurationError.new("search_path does not arrive"))
    assert_raises(NeverBlock::ConfigurationError) { lines([config("a", wrong, pgbouncer: "transaction")]) }
    assert_includes wrong.log, :disconnected
  end

  private

  def config(name, connection, **options) = Config.new(name, options, connection)

  def lines(configs) = [].tap { |told| NeverBlock::Railtie::Poolers.verify(configs) { |line| told << line } }
end
