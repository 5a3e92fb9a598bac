# frozen_string_literal: true

require "test_helper"
require "yaml"
require "neverblock/server"
require "support/doc_block"

# docs/sizing.md: its sums are those of its own example, and its defaults those of the code.
class SizingPageTest < Minitest::Test
  PAGE = File.read(File.join(NeverBlockTest::ROOT, "docs/sizing.md"))
  PROCESSES = 5 # four workers and one for jobs

  def test_the_defaults
    configuration = NeverBlock::Server::Configuration.new
    assert_equal [0, 1_000, 2.0], [configuration[:workers], configuration[:max_in_flight], configuration[:queue_max_wait]]
    assert_match(/^\| \[`workers`\].* \| `0`: one process \|/, PAGE)
    assert_match(/^\| \[`max_in_flight`\].* \| `1_000` \|/, PAGE)
    assert_match(/^\| `connections` \| `12` \|/, File.read(File.join(NeverBlockTest::ROOT, "docs/postgres.md")))
    assert_match(/^\| `connections` \| `12` \|/, File.read(File.join(NeverBlockTest::ROOT, "docs/mysql.md")))
  end

  def test_the_sums
    databases = YAML.safe_load(NeverBlockTest::DocBlock.in("docs/sizing.md", "yaml").first.code, aliases: true).fetch("production")
    assert_equal %w[primary cache queue cable], databases.keys
    assert_match(/^5 × 4 × 12 = #{PROCESSES * databases.size * 12} connections/, PAGE)
    each = databases.transform_values { |settings| settings.fetch("connections") }
    assert_equal "#{PROCESSES} processes: #{PROCESSES * each["primary"]}", PAGE[/connections: #{each["primary"]} +# (.*)/, 1]
    assert_match(/^That is #{PROCESSES * each.values.sum}, and PostgreSQL keeps three of its 100/, PAGE)
    assert_operator PROCESSES * each.values.sum, :<=, 100 - 3
  end

  def test_the_pages_that_speak_of_sizes_lead_here
    %w[docs/server.md docs/rails.md docs/operations.md docs/from-puma.md docs/from-falcon.md docs/configuration.md docs/README.md].each do |page|
      assert_includes File.read(File.join(NeverBlockTest::ROOT, page)), "](sizing.md", page
    end
  end
end
