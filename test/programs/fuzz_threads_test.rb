# frozen_string_literal: true

# chaos: random programs for 20 s, and planted defects (10 s)

require "test_helper"
require "rbconfig"
require_relative "../fuzz/threads/plants"

# Random programs under threads and under fibers, on one engine: see test/fuzz/threads. A failure prints its seed, the
# smallest program and both results.
class FuzzThreadsTest < Minitest::Test
  include NeverBlockTest::Helpers

  # The same programs each time, so that a failure points to the change; `rake fuzz:threads` begins at a random seed.
  PROGRAMS = Integer(ENV.fetch("NEVERBLOCK_FUZZ_PROGRAMS", "100"))
  FROM = Integer(ENV.fetch("NEVERBLOCK_FUZZ_SEED", "1"))

  def test_random_programs_do_the_same_under_fibers_as_under_threads
    output, status = fuzz("PROGRAMS" => PROGRAMS.to_s, "FROM" => FROM.to_s)
    assert_predicate status, :success?, output
    assert_match(/^\d+ runs, \d+ operations, 0 seeds failed$/, output)
  end

  # A comparison that finds nothing might not work.
  def test_planted_defects_are_found
    output, status = fuzz("PLANTS" => "1")
    assert_predicate status, :success?, output
    assert_match(/^\d+ planted defects, 0 faults of the checks$/, output)
  end

  def test_the_text_of_a_program_runs_under_threads_and_under_fibers
    Dir.mktmpdir do |folder|
      program = File.join(folder, "program.rb")
      File.write(program, NeverBlockFuzz::Text.new(NeverBlockFuzz::StrandsPlants::ALL.first.plan).program)
      [["threads"], []].each do |arguments|
        output, status = Open3.capture2e(RbConfig.ruby, *library, program, *arguments, chdir: NeverBlockTest::ROOT)
        assert_predicate status, :success?, output
        assert_equal ["step 1: 1", "step 2: #<IOError: stream closed in another thread>", "step 3: nil"], output.lines(chomp: true).sort
      end
    end
  end

  private

  def fuzz(variables)
    engine = ENV["NEVERBLOCK_ENGINE"].to_s.split(",").first
    Open3.capture2e({"ENGINE" => engine, **variables}, RbConfig.ruby, "-w", *library, "test/fuzz/threads/run.rb", chdir: NeverBlockTest::ROOT)
  end

  def library = [*ENV["NEVERBLOCK_TEST_LIBRARY"]&.then { |folder| "-I#{folder}" }, "-Ilib"]
end
