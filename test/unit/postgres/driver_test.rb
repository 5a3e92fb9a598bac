# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require "neverblock/postgres/driver"

# Releases of pg that lack support for pipelines are refused when they are loaded, not at the first statement.
class PostgresDriverTest < Minitest::Test
  include NeverBlockTest::Helpers

  def test_releases_that_will_do
    %w[1.6.0 1.7.0 2.0].each { |version| assert_nil NeverBlock::Postgres::Driver.check(version) }
  end

  def test_older_ones_are_refused_with_the_remedy
    %w[1.5.9 0.21].each do |version|
      message = assert_raises(LoadError) { NeverBlock::Postgres::Driver.check(version) }.message
      assert_match(/needs the gem pg 1\.6 or later, .* this is pg #{Regexp.escape(version)}: run `bundle update pg --conservative`/, message)
    end
  end

  {
    "the plain API" => 'require "neverblock/postgres"',
    "Active Record" => 'require "neverblock/active_record"; ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", database: "nowhere").lease_connection',
    "Sequel" => 'require "sequel"; Sequel.connect("neverblock-postgres:///nowhere")'
  }.each do |name, code|
    slow "it is a process of its own"
    define_method("test_#{name.tr(" ", "_")}_says_it") do
      %w[sequel activerecord pg].each { |gem| skip "#{gem} is not among the gems here" unless Gem.loaded_specs.key?(gem) }
      outcome = run_ruby(<<~RUBY, gems: true)
        require "pg"
        PG.send(:remove_const, :VERSION)
        PG::VERSION = "1.5.9"
        #{code}
      RUBY
      refute outcome.status.success?
      assert_match(/this is pg 1\.5\.9: run `bundle update pg --conservative`/, outcome.stderr)
    end
  end

  def test_none_at_all
    outcome = run_ruby('require "neverblock/postgres"')
    refute outcome.status.success?
    assert_match(/needs the gem pg 1\.6 or later, and there is none: run `bundle add pg`/, outcome.stderr)
  end
end
