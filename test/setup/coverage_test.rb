# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require_relative "../../rakelib/coverage/report"

# `rake coverage`: the records of processes, and the report made from them.
class CoverageTest < Minitest::Test
  RECORDER = File.join(NeverBlockTest::ROOT, "rakelib", "coverage", "recorder.rb")
  SOURCE = "def one(x)\n  if x\n    1\n  else\n    2\n  end\nend\n"

  def setup
    @root = File.realpath(Dir.mktmpdir("neverblock"))
    @records = File.join(@root, "records")
    FileUtils.mkdir_p([@records, File.join(@root, "lib", "neverblock", "deep"), File.join(@root, "ext", "neverblock"), File.join(@root, "rakelib", "coverage")])
    FileUtils.cp(RECORDER, File.join(@root, "rakelib", "coverage"))
    File.write(File.join(@root, "lib", "neverblock", "one.rb"), SOURCE)
    File.write(File.join(@root, "lib", "neverblock", "deep", "two.rb"), "def two\n  2\nend\n")
  end

  def teardown = FileUtils.rm_rf(@root)

  def test_lines_and_branches_of_a_process
    run_program("one(true)")
    assert_equal ["lib/neverblock/deep/two.rb:1-2", "lib/neverblock/one.rb:5", "lib/neverblock/one.rb:2 if else 5:4"], report.uncovered
    assert_equal ["| `lib/neverblock/` | 75.0 % | 50.0 % |", "| `lib/neverblock/deep/` | 0.0 % | – |", "| **lib/** | 50.0 % | 50.0 % |"], report.table.lines(chomp: true)[2, 3]
  end

  def test_processes_add_up
    run_program("one(true)")
    run_program("one(false)")
    assert_equal ["lib/neverblock/deep/two.rb:1-2"], report.uncovered
  end

  def test_a_forked_process_and_one_that_ends_at_once_are_recorded
    run_program("Process.wait(fork { one(true); exit! })\none(false)\nProcess.exit!(true)")
    assert_equal 2, Dir.children(@records).size
    assert_equal ["lib/neverblock/deep/two.rb:1-2"], report.uncovered
  end

  def test_a_process_that_loads_nothing_of_lib_leaves_no_record
    assert system({"NEVERBLOCK_COVERAGE" => @records}, RbConfig.ruby, "-r#{@root}/rakelib/coverage/recorder", "-e", "1")
    assert_empty Dir.children(@records)
  end

  def test_lines_of_the_extension
    skip "gcov is not installed here" unless system("gcov", "--version", out: File::NULL, err: File::NULL)
    source = File.join(@root, "ext", "neverblock", "three.c")
    File.write(source, "int main(int count, char **all) {\n    if (count > 1)\n        return 1;\n    return 0;\n}\n")
    assert system("cc --coverage -c #{source} -o three.o && cc --coverage three.o -o three && ./three", chdir: @records)
    assert_equal ["ext/neverblock/three.c:3", "ext/neverblock/three.c:2 branch 1"], report.uncovered.grep(/three/)
    assert_includes report.table, "| **ext/** | 75.0 % | 50.0 % |"
  end

  private

  def run_program(code)
    program = "require \"#{@root}/lib/neverblock/one\"\n#{code}"
    environment = {"NEVERBLOCK_COVERAGE" => @records, "RUBYOPT" => "-r#{@root}/rakelib/coverage/recorder"}
    assert system(environment, RbConfig.ruby, "--disable=gems", "-e", program)
  end

  def report = CoverageReport.new(records: @records, objects: @records, root: @root)
end
