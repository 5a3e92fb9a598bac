# frozen_string_literal: true

require "test_helper"

# All times of lib/ and ext/ are of one clock, or a virtual clock would move only some of them.
class ClockReadsTest < Minitest::Test
  READS = /clock_gettime|gettimeofday|Time\.now\b|Process\.clock|[^_]time\(NULL\)/

  # The clock itself, a program of its own, and a reading of processor time.
  SEAM = {"ext/neverblock/engine/clock.c" => 1, "ext/neverblock/http/protocol/fuzz/driver.c" => 1,
          "lib/neverblock/runtime/processor_share.rb" => 1}.freeze

  def test_only_the_clock_reads_the_time
    reads = Dir.glob("{lib,ext,exe}/**/*.{rb,c,h}", base: NeverBlockTest::ROOT).to_h { |path| [path, reads_of(path)] }
    assert_equal SEAM, reads.select { |_, count| count.positive? }
  end

  private

  def reads_of(path)
    File.foreach(File.join(NeverBlockTest::ROOT, path)).count { |line| !line.match?(%r{\A\s*(#|/?\*)}) && line.match?(READS) }
  end
end
