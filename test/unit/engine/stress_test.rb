# frozen_string_literal: true

# engines: every - random waits on each back end
# chaos: waits that are disturbed at random

require "test_helper"

# Every kind of wait at once, disturbed at random: test/support/stress.rb. A failure's message has its seed.
class EngineStressTest < Minitest::Test
  include NeverBlockTest::Helpers

  def test_everything_at_random
    seed = Integer(ENV.fetch("NEVERBLOCK_STRESS_SEED", rand(100_000)))
    assert_match(/\Asurvived \d+ waits\n\z/, run_stress(5, seed), "seed #{seed}")
  end

  # The same way each time, so that a regression shows.
  def test_a_known_seed
    assert_match(/\Asurvived \d+ waits\n\z/, run_stress(2, 1))
  end

  private

  def run_stress(seconds, seed)
    outcome = run_ruby("ARGV.replace(%w[#{seconds} #{seed}]); $PROGRAM_NAME = #{program.dump}; load #{program.dump}", limit: seconds + 40)
    assert outcome.status.success?, "seed #{seed}: #{outcome.status}\n#{outcome.stderr[0, 4000]}"
    outcome.stdout
  end

  def program = File.join(NeverBlockTest::ROOT, "test", "support", "stress.rb")
end
