# frozen_string_literal: true

require "fileutils"
require_relative "report"

# The work of `rake coverage` around the tests, to find the lines and branches of lib/ and ext/ that they run:
#
#   rake coverage                           # the fast tests on one engine
#   rake coverage ALL=1                     # slow ones too
#   NEVERBLOCK_ENGINE=uring rake coverage   # another engine
#   TESTS=test/unit rake coverage           # some tests, as for `rake test:all`
#
# Ruby's Coverage counts lib/ in every process but those that a signal kills (recorder.rb). gcov counts the extension,
# which is compiled for it in tmp/SERIES-coverage. The files of a run:
#
#   tmp/coverage/table.md        # the table that is printed
#   tmp/coverage/uncovered.txt   # lines and branches that no test ran
#   tmp/coverage/ruby/           # the records of the processes
class CoverageRun
  FOLDER = File.join(ExtensionBuild::ROOT, "tmp", "coverage")
  RECORDS = File.join(FOLDER, "ruby")
  private_constant :FOLDER, :RECORDS

  def initialize = @build = ExtensionBuild.new(variant: "coverage", arguments: ["--enable-coverage"])

  # Forgets the last run, and compiles the extension.
  # @return [void]
  def prepare
    FileUtils.rm_rf(FOLDER)
    FileUtils.mkdir_p(RECORDS)
    @build.call
    FileUtils.rm_f(Dir[File.join(@build.folder, "*.gcda")])
  end

  # @return [String] the folder with the extension
  def library = @build.library

  # @return [Hash{String=>String}] for the tests. Tests that start a Ruby without gems pass NEVERBLOCK_TEST_RUBYOPT on.
  def environment
    recorder = "-r#{File.join(__dir__, "recorder")}"
    {"RUBYOPT" => "#{recorder} #{ENV["RUBYOPT"]}", "NEVERBLOCK_TEST_RUBYOPT" => recorder,
     "NEVERBLOCK_COVERAGE" => RECORDS}
  end

  # Writes and prints the report.
  # @return [void]
  def report
    report = CoverageReport.new(records: RECORDS, objects: @build.folder)
    File.write(File.join(FOLDER, "table.md"), "#{report.table}\n")
    File.write(File.join(FOLDER, "uncovered.txt"), report.uncovered.map { |line| "#{line}\n" }.join)
    puts "", report.table, "", "Lines and branches that no test ran: tmp/coverage/uncovered.txt", ""
  end
end
