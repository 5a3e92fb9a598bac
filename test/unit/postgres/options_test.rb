# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "yaml"

# The table of PostgreSQL's options: the values that it accepts, and that documentation and signatures are complete.
class PostgresOptionsTest < Minitest::Test
  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
    require "neverblock/postgres/databases"
  end

  def test_values_from_code
    {
      connections: "3", multiplex: "all", max_waiting: 0, timeout: -1, max_age: -1, idle_timeout: "5", keepalive: Float::NAN, query_timeout: true,
      min_connections: 1.5, pool_jitter: 1.5, pgbouncer: :statement, session_connections: 0, session_url: 5, audit: "true", audit_settings: [1],
      shareable_functions: [nil], name: 5, log: "log", warm: 1
    }.each do |name, value|
      message = "PostgreSQL's configuration: #{name}: #{value.inspect} is not #{option(name).type.words}. For example: #{option(name).example}"
      assert_equal message, refusal { NeverBlock::Postgres.new("postgresql:///", name => value) }
    end
  end

  def test_options_that_there_are_not
    {
      {conections: 3} => "conections: 3 is not an option. Did you mean connections:? For example: connections: 20",
      {checkout_timeout: 3} => "checkout_timeout: 3 is not an option. Did you mean timeout:? For example: timeout: 10",
      {colour: :red} => "colour: :red is not an option. There are connections:, min_connections:, multiplex:, "
    }.each { |options, reason| assert_includes refusal { NeverBlock::Postgres.new("postgresql:///", **options) }, "PostgreSQL's configuration: #{reason}" }
  end

  # Other keys of database.yml and of Sequel's options are accepted.
  def test_options_that_are_misspelt_in_a_configuration
    assert_equal "PostgreSQL's configuration: mulitplex: \"all\" is not an option. Did you mean multiplex:? For example: multiplex: all", refusal { read(mulitplex: "all") }
    assert_equal "PostgreSQL's configuration: checkout_timout: 3 is not an option. Did you mean checkout_timeout:? For example: checkout_timeout: 10", refusal { read(checkout_timout: 3) }
    others = %i[adapter database username host port pool max_connections timeout reaping_frequency prepared_statements variables schema_search_path
      replica migrations_paths statement_limit advisory_locks connect_timeout read_timeout query_cache max_threads connection_limit pool_timeout
      connect_sqls after_connect servers shard shards name log warm] + PG::Connection.conndefaults_hash.keys
    assert_empty read(**others.to_h { |name| [name, "x"] })
  end

  def test_options_that_can_t_be_together
    {
      {min_connections: 13} => "min_connections: 13 is more than connections: 12. Raise that, or lower this",
      {session_url: "x"} => 'session_url: "x" is for pgbouncer: :transaction, and that is nil: say so',
      {audit: true, pgbouncer: :transaction} => "audit: true reads session state, and with pgbouncer: :transaction sessions are not ours"
    }.each do |options, reason|
      assert_includes refusal { NeverBlock::Postgres.new("postgresql:///", **options) }, reason
      assert_includes refusal { read(**options) }, reason
    end
  end

  def test_every_example_and_default_can_be
    options.each_value do |option|
      assert_equal [option.default], [option.take(option.default)], option.name
      given = eval(option.example[/: (.*)/, 1], binding, __FILE__, __LINE__) # standard:disable Security/Eval -- of the table
      option.take(given)
      assert_equal({option.name => option.take(given)}, {option.name => option.read(YAML.load(option.yaml).fetch(option.key.to_s))}) if option.key
    end
  end

  def test_true_and_false_where_a_limit_is_meant
    assert_equal({keepalive: 600, max_age: 0, query_timeout: 0}, read(keepalive: true, max_age: "false", query_timeout: false))
    assert_equal({idle_timeout: 300, keepalive: 600}, NeverBlock::Postgres::Options::ACTIVE_RECORD)
  end

  # Each with its default.
  def test_the_reference_has_every_option
    documented = source("lib/neverblock/postgres.rb").scan(/^ +# @option options \[[^\]]+\] :(\w+)(?: \((.+?)\))? \S/).to_h
    assert_equal options.keys, documented.keys.map(&:to_sym), "@option of NeverBlock::Postgres#initialize"
    documented.delete("log")
    documented.each { |name, default| assert_equal option(name.to_sym).type.show(option(name.to_sym).default), default, name }
  end

  def test_the_signature_has_every_option
    signature = source("sig/postgres.rbs")[/untyped target,\n(.*?)^ +\) -> void/m, 1]
    assert_equal options.keys, signature.scan(/^ +\?(\w+):/).flatten.map(&:to_sym)
  end

  private

  def options = NeverBlock::Postgres::Options::ALL

  def option(name) = options.fetch(name)

  def read(**config) = NeverBlock::Postgres::Options.read(config)

  def refusal(&) = assert_raises(NeverBlock::ConfigurationError, &).message

  def source(path) = File.read(File.join(NeverBlockTest::ROOT, path))
end
