# frozen_string_literal: true

require "test_helper"
require_relative "../../bin/lib/vendor/gemfile"

# The line that bin/vendor writes into a Gemfile.
class VendorGemfileTest < Minitest::Test
  PATH = "vendor/gems/neverblock"
  LINE = %(gem "neverblock", path: "#{PATH}")

  def test_the_line_is_added_at_the_end
    assert_equal %(gem "rack"\n\n#{LINE}\n), with(%(gem "rack"\n))
    assert_equal %(gem "rack"\n\n#{LINE}\n), with(%(gem "rack"))
    assert_equal %(# gem "neverblock"\n\n#{LINE}\n), with(%(# gem "neverblock"\n)), "a comment is no line of it"
    assert_equal %(gem "neverblocked"\n\n#{LINE}\n), with(%(gem "neverblocked"\n))
  end

  def test_the_second_time_nothing_changes
    ["gem \"rack\"\n", "group :production do\n  gem 'neverblock', '~> 0.2', require: false\nend\n"].each do |text|
      assert_equal with(text), with(with(text)), text
    end
  end

  def test_versions_and_other_sources_go_and_the_rest_stays
    {%(gem "neverblock") => LINE,
     %(gem("neverblock", "~> 0.1", ">= 0.1.6")) => %(gem("neverblock", path: "#{PATH}")),
     %(gem "neverblock", path: "../neverblock") => LINE,
     %(gem "neverblock", git: "https://example.org/n", branch: "main", tag: "v1", require: false) => "#{LINE}, require: false",
     %(gem "neverblock", "0.2", :require => false, :github => "a/b") => "#{LINE}, :require => false",
     %(gem "neverblock",\n  "0.2",\n  groups: [:web] # where\n) => "#{LINE}, groups: [:web] # where\n",
     %(gem "neverblock", **options) => "#{LINE}, **options"}.each do |before, after|
      assert_equal after, with(before)
    end
    assert_equal %(gem 'neverblock', path: "#{PATH}" if web?), with("gem 'neverblock', '0.2' if web?")
  end

  def test_all_around_the_line_stays
    around = ["# Füße\nsource \"https://rubygems.org\"\n\ngroup :web do\n  ", "   # the server\n  gem \"rack\"\nend\n"]
    assert_equal around.join(LINE), with(around.join('gem "neverblock", "~> 0.2"'))
  end

  def test_what_is_ambiguous_is_refused
    assert_match(/has neverblock 2 times, in the lines 1, 2\.$/, refusal(%(gem "neverblock"\ngem "neverblock", "1"\n)))
    assert_match(/line 2 is in a block of `git`, and so has a source already\.$/, refusal(%(git "https://example.org" do\n  gem "neverblock"\nend\n)))
    assert_match(/not valid Ruby: line 1: .*\.\nCorrect it first/, refusal("gem (\n"))
  end

  private

  def with(text) = Vendor::Gemfile.new(text).with("neverblock", PATH)

  def refusal(text) = assert_raises(Vendor::Refused) { with(text) }.message
end
