# frozen_string_literal: true

require "test_helper"
require "neverblock/active_record/release"

# The adapter refuses releases of Active Record that it was never tested with.
class PostgresActiveRecordReleaseTest < Minitest::Test
  include NeverBlockTest::Helpers

  def test_tested_ones_are_taken
    %w[7.2.0 7.2.4 8.0.5.2 8.1.0.rc1 8.1.4].each { |version| assert_nil check(version) }
  end

  def test_others_are_refused_with_the_remedy
    %w[7.1.5 8.2.0.alpha 9.0.0].each do |version|
      message = assert_raises(NeverBlock::ConfigurationError) { check(version) }.message
      assert_match(/not tested with Active Record #{version}, but with 7.2, 8.0 and 8.1\. .*NEVERBLOCK_UNTESTED_RAILS=1/, message)
      assert_nil check(version, {"NEVERBLOCK_UNTESTED_RAILS" => "1"})
    end
  end

  # Requires the adapter as Active Record does.
  slow "it loads Active Record in a process of its own"
  def test_the_adapter_is_not_loaded
    skip "activerecord is not among the gems here" unless Gem.loaded_specs.key?("activerecord")
    output = run_ruby(<<~RUBY, gems: true)
      require "neverblock/active_record"
      def ActiveRecord.gem_version = Gem::Version.new("8.9.1")
      begin
        ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", database: "nowhere").lease_connection
      rescue NeverBlock::ConfigurationError => error
        puts error.message
      end
    RUBY
    assert_match(/not tested with Active Record 8\.9\.1/, output.stdout, output.stderr)
  end

  private

  def check(version, environment = {}) = NeverBlock::ActiveRecordRelease.check(Gem::Version.new(version), environment)
end
