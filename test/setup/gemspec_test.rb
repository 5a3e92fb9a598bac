# frozen_string_literal: true

require "test_helper"
require "rake"

# The gem's addresses: the project's host is given when the gem is built.
class GemspecTest < Minitest::Test
  ROOT = NeverBlockTest::ROOT
  FORGE = "https://forge.example/neverblock/neverblock"

  def test_the_addresses_are_those_of_the_forge_and_of_the_release
    gem = specification(FORGE)
    assert_equal FORGE, gem.homepage
    release = "v#{NeverBlock::VERSION}"
    assert_equal({"homepage_uri" => FORGE, "source_code_uri" => "#{FORGE}/tree/#{release}",
      "changelog_uri" => "#{FORGE}/blob/#{release}/CHANGELOG.md", "documentation_uri" => "#{FORGE}/blob/#{release}/docs/README.md",
      "bug_tracker_uri" => "#{FORGE}/issues"}, gem.metadata.select { |name, _| name.end_with?("_uri") })
  end

  def test_without_a_forge_there_are_none
    [nil, ""].each do |forge|
      gem = specification(forge)
      assert_nil gem.homepage
      assert_empty(gem.metadata.keys.grep(/_uri/))
    end
  end

  def test_the_forge_is_that_of_the_remote
    load File.join(ROOT, "rakelib", "package.rake")
    %w[https://forge.example/neverblock/neverblock.git git@forge.example:neverblock/neverblock.git
      ssh://git@forge.example:22/neverblock/neverblock https://token@forge.example/neverblock/neverblock/].each do |remote|
      assert_equal FORGE, send(:forge_of_origin, remote), remote
    end
    ["", "/srv/git/neverblock.git", "../neverblock", "file:///srv/never.block/x"].each { |remote| assert_nil send(:forge_of_origin, remote), remote }
  ensure
    Rake::Task.clear
  end

  private

  def specification(forge)
    before = ENV["NEVERBLOCK_FORGE"]
    ENV["NEVERBLOCK_FORGE"] = forge
    path = File.join(ROOT, "neverblock.gemspec")
    eval(File.read(path), TOPLEVEL_BINDING.dup, path) # standard:disable Security/Eval -- Gem::Specification.load keeps the first
  ensure
    ENV["NEVERBLOCK_FORGE"] = before
  end
end
