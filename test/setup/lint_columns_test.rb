# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require_relative "../../rakelib/columns"

# rake lint:columns: lines stay within 120 columns, files within 400 lines.
class LintColumnsTest < Minitest::Test
  def test_the_project_has_no_long_lines_and_no_long_files
    assert_empty Lint::Columns.new.findings
  end

  def test_a_planted_long_line_is_found_with_its_place_and_its_columns
    files = {"lib/a.rb" => "# fine\n#{"a" * 121}\n#{"a" * 120}\n"}
    assert_equal ["lib/a.rb:2: 121 columns, 120 are allowed"], findings(files)
  end

  def test_a_planted_long_file_is_found_with_its_lines
    files = {"ext/a.c" => "\n" * 401, "ext/b.c" => "\n" * 400}
    assert_equal ["ext/a.c: 401 lines, 400 are allowed"], findings(files)
  end

  def test_a_column_is_a_character
    assert_empty findings({"lib/a.rb" => "→" * 120})
    assert_equal 1, findings({"lib/a.rb" => "→" * 121}).size
  end

  def test_code_in_lib_and_ext_is_looked_at_and_nothing_else
    long = "a" * 121
    paths = %w[lib/a.rb lib/a/b.tt ext/a.c ext/b/a.h lib/a.so ext/corpus/request docs/a.md test/a.rb]
    files = paths.to_h { |path| [path, long] }
    assert_equal %w[ext/a.c ext/b/a.h lib/a.rb lib/a/b.tt], findings(files).map { |line| line[/\A[^:]+/] }.sort
  end

  private

  def findings(files)
    Dir.mktmpdir do |root|
      files.each do |path, text|
        FileUtils.mkdir_p(File.dirname(File.join(root, path)))
        File.write(File.join(root, path), text)
      end
      Lint::Columns.new.findings(root)
    end
  end
end
