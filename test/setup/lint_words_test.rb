# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require_relative "../../rakelib/words"

# `rake lint:words` reports old names and phrases.
class LintWordsTest < Minitest::Test
  def test_the_project_has_none_of_the_table
    assert_empty Lint::Words.new.findings
  end

  def test_a_planted_word_is_found_with_its_place_and_the_better_one
    assert_equal ["lib/a.rb:2: \"obituary\": write exit_report (rakelib/words.yml)"],
      findings([{"old" => "obituary", "better" => "exit_report"}], "lib/a.rb" => "# fine\ndef obituary = 1\n")
  end

  def test_whole_words_count_in_their_case
    table = [{"old" => "Kind", "better" => "ValueType"}, {"old" => "@pause", "better" => "@backoff"}]
    assert_empty findings(table, "lib/a.rb" => "Kinds, kind, DataKind, my@pauses\n")
    assert_equal 2, findings(table, "lib/a.rb" => "::Kind.new(@pause)\n").size
  end

  def test_a_regular_expression_is_one
    table = [{"old" => '/\bis no (\w+) from 1 on/', "better" => "must be a positive integer"}]
    assert_equal 1, findings(table, "ext/a.c" => "rb_raise(error, \"is no count from 1 on\");\n").size
  end

  def test_a_word_counts_in_the_folders_that_its_row_names
    table = [{"old" => "Order", "better" => "ControlCommand", "in" => %w[lib/cli lib/cli.rb benchmark]}]
    files = %w[lib/cli/a.rb lib/cli.rb benchmark/a.rb lib/client.rb docs/a.md lib/b.rb].to_h { |path| [path, "Order\n"] }
    assert_equal %w[benchmark/a.rb lib/cli.rb lib/cli/a.rb], findings(table, files).map { |line| line[/\A[^:]+/] }
  end

  def test_code_scripts_and_pages_are_read_and_nothing_else
    table = [{"old" => "obituary", "better" => "exit_report"}]
    files = {"bin/run" => "#!/bin/sh\nobituary\n", "sig/a.rbs" => "obituary\n", "docs/a.md" => "obituary\n", "ext/a.h" => "obituary\n",
             "lib/a.so" => "obituary", "bin/data" => "obituary", "CHANGELOG.md" => "obituary\n", "rakelib/words.yml" => "obituary\n"}
    assert_equal %w[bin/run docs/a.md ext/a.h sig/a.rbs], findings(table, files).map { |line| line[/\A[^:]+/] }
  end

  def test_a_row_that_lacks_something_is_refused
    [{"old" => "a"}, {"old" => "", "better" => "b"}, {"old" => "a", "better" => "b", "from" => "lib"}].each do |row|
      error = assert_raises(ArgumentError) { Lint::Words.new([row]) }
      assert_match(/#{Regexp.escape(row.inspect)} needs old: and better:/, error.message)
    end
  end

  private

  def findings(table, files)
    Dir.mktmpdir do |root|
      files.each do |path, text|
        FileUtils.mkdir_p(File.dirname(File.join(root, path)))
        File.write(File.join(root, path), text)
      end
      Lint::Words.new(table).findings(root)
    end
  end
end
