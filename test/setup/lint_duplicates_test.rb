# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require_relative "../../rakelib/duplicates"

# `rake lint:duplicates` reports duplicated code.
class LintDuplicatesTest < Minitest::Test
  TWELVE = (1..12).map { |number| "call_#{number}(x)" }

  def setup = @root = Dir.mktmpdir("neverblock")

  def teardown = FileUtils.remove_entry(@root)

  def test_twelve_lines_in_two_files
    write "lib/one.rb", "# one\n\n#{TWELVE.join("\n")}\none\n"
    write "lib/two.rb", "two\n#{TWELVE.join("\n")}\nthree\n"
    assert_equal ["lib/two.rb:2-13 stands also at lib/one.rb:3"], findings
  end

  def test_indentation_blank_lines_and_comments_are_no_difference
    write "ext/one.c", TWELVE.join("\n")
    write "ext/two.h", TWELVE.map { |line| "  #{line}\n\n/* two\n * more */\n// two\n" }.join
    write "benchmark/three.rb", TWELVE.map { |line| "  #{line}\n  # three\n" }.join
    assert_equal ["ext/one.c:1-12 stands also at benchmark/three.rb:1", "ext/two.h:1-56 stands also at benchmark/three.rb:1"], findings
  end

  def test_a_longer_one_is_one_finding_and_a_second_one_another
    lines = TWELVE + ["more", "still_more"]
    write "lib/one.rb", [*lines, "one", *TWELVE].join("\n")
    write "script/two.rb", [*lines, "two"].join("\n")
    assert_equal ["lib/one.rb:16-27 stands also at lib/one.rb:1", "script/two.rb:1-14 stands also at lib/one.rb:1"], findings
  end

  def test_eleven_lines_and_other_lines_between
    write "lib/one.rb", TWELVE.join("\n")
    write "lib/two.rb", TWELVE.first(11).join("\n")
    write "lib/three.rb", [*TWELVE.first(6), "other", *TWELVE.last(6)].join("\n")
    assert_empty findings
  end

  def test_tests_signatures_and_installed_gems_are_left_out
    %w[lib/one.rb test/unit/one_test.rb sig/one.rbs docs/one.md benchmark/vendor/one.rb].each { |path| write path, TWELVE.join("\n") }
    assert_empty findings
  end

  private

  def write(path, text)
    path = File.join(@root, path)
    FileUtils.mkdir_p(File.dirname(path))
    File.write(path, text)
  end

  def findings = Lint::Duplicates.new(root: @root).findings
end
