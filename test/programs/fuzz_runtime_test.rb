# frozen_string_literal: true

# chaos: random programs for 20 s, and planted defects (50 s)

require "test_helper"
require "rbconfig"

# Random programs of the runtime, on one engine: see test/fuzz/runtime. A failure prints its seed and the command that
# reruns it.
class FuzzRuntimeTest < Minitest::Test
  include NeverBlockTest::Helpers

  # CI begins at the same seed each time, so that a failure points to the change; `rake fuzz:runtime` begins at a random
  # one.
  SECONDS = Integer(ENV.fetch("NEVERBLOCK_FUZZ_SECONDS", "20"))
  FROM = Integer(ENV.fetch("NEVERBLOCK_FUZZ_SEED", "31"))

  # A seed fails if at least AGAIN of TIMES reruns fail as well: interrupts from other threads strike at random moments,
  # and programs run beside other tests. Other failures are printed only.
  TIMES = 3
  AGAIN = 2

  def test_random_programs
    engine = engines[FROM % engines.size]
    output, _ = fuzz("SECONDS" => SECONDS.to_s, "FROM" => FROM.to_s, "ENGINE" => engine)
    runs = output[/^(\d+) runs, \d+ operations, \d+ seeds failed$/, 1]
    refute_nil runs, output
    seeds = output.scan(/^seed (\d+) failed/).flatten
    puts "fuzz:runtime: #{runs} programs on #{engine}, seeds from #{FROM}, failed once: #{seeds.join(", ")}"
    assert_operator seeds.size, :<=, [Integer(runs) / 100, 3].max, output
    failing = seeds.select { |seed| TIMES.times.count { !fuzz("SEED" => seed, "ENGINE" => engine).last.success? } >= AGAIN }
    assert_empty failing, output
  end

  # A check that finds nothing might not work.
  def test_each_check_finds_its_planted_defect
    output, status = fuzz("PLANTS" => "1", "ENGINE" => "epoll")
    assert_predicate status, :success?, output
    assert_match(/^\d+ planted defects, 0 faults of the checks$/, output)
  end

  def test_a_seed_always_makes_the_same_program
    plans = Array.new(2) { fuzz("PLAN" => "1", "SEED" => "7").first }
    assert_equal(*plans)
    assert_match(/\A1\. root /, plans.first)
  end

  private

  def engines
    @engines ||= ENV["NEVERBLOCK_ENGINE"].to_s.split(",").then { |asked| asked.empty? ? ENGINES : asked }.select do |engine|
      run_ruby("require 'neverblock'; NeverBlock.run { sleep 0 }", engine:).status.success?
    end
  end

  def fuzz(variables)
    command = [RbConfig.ruby, "-w", *ENV["NEVERBLOCK_TEST_LIBRARY"]&.then { |folder| "-I#{folder}" }, "-Ilib", "test/fuzz/runtime/run.rb"]
    Open3.capture2e(variables, *command, chdir: NeverBlockTest::ROOT)
  end
end
