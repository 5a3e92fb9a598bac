# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "neverblock/server/cluster/launch"
require "neverblock/server/cluster/trial"
require "support/runs"

# A process that reads the configuration of the next program. Here it is a script that uses the other end of Trial.
class ClusterTrialTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  Trial = NeverBlock::Server::Cluster::Trial

  def test_nothing_is_wrong
    assert_nil trial("[]")
  end

  def test_mistakes
    assert_equal "a.rb:1: one\na.rb:2: two", trial('["a.rb:1: one", "a.rb:2: two"]')
  end

  def test_an_error
    assert_equal "a.rb:3: no such directive", trial('raise NeverBlock::ConfigurationError, "a.rb:3: no such directive"')
    assert_match(/\ASyntaxError: .*unexpected/m, trial('eval(")")'))
  end

  def test_what_the_present_program_has_open_is_known
    assert_equal "/run/a.sock", trial("held.values", held: {control: "/run/a.sock"})
  end

  # A pipe takes no more without a reader.
  def test_a_long_text_is_cut
    assert_equal 32 << 10, trial('["x" * 1_000_000]').bytesize
  end

  def test_a_process_that_ends_without_a_word
    assert_match(/\Athe process that reads its configuration has ended \(pid \d+ exit 3\)\. The standard error may have the reason\z/, trial("exit!(3)"))
    assert_match(/No such file/, in_run { Trial.new(NeverBlock::Server::Cluster::Launch.new(["/no/such/program"]), 60).call })
  end

  # As an app may do.
  def test_a_process_that_is_reaped_elsewhere
    [nil, "a.rb:1: one"].each do |mistake|
      before = trap(:CHLD, "IGNORE")
      assert_equal [mistake], [trial([*mistake].inspect)]
    ensure
      trap(:CHLD, before)
    end
  end

  # Otherwise the next program would end as well, and nothing would be left.
  def test_a_configuration_that_ends_the_process
    assert_match(/\Athe process that reads its configuration has ended \(pid \d+ exit 0\)\./, trial("exit"))
  end

  # Starts a process that never ends.
  class Endless
    attr_reader :pid

    def spawn(_variables, _ios) = @pid = Process.spawn("sleep", "1000")
  end

  def test_a_process_that_takes_too_long_is_killed
    endless = Endless.new
    assert_equal "its configuration was not read within 0.1 s (boot_timeout)", in_run { Trial.new(endless, 0.1).call }
    wait_until("its end") { ended?(endless.pid) }
  end

  # As when the server is stopped.
  def test_a_process_whose_trial_is_cancelled_is_killed
    endless = Endless.new
    in_run do |scope|
      task = scope.spawn { Trial.new(endless, 60).call }
      parked(task)
      task.cancel
      raised { task.join }
    end
    wait_until("its end") { ended?(endless.pid) }
  end

  def test_a_process_that_is_no_trial
    assert_nil Trial.handed({})
  end

  private

  def trial(block, held: {})
    script = <<~RUBY
      require "neverblock"
      require "neverblock/server"
      require "neverblock/server/cluster/trial"
      trial = NeverBlock::Server::Cluster::Trial
      handed = trial.handed(ENV)
      abort("it is inherited") if ENV.key?(trial::VARIABLE)
      exit(trial.tell(handed) { |held| #{block} })
    RUBY
    launch = NeverBlock::Server::Cluster::Launch.new([RbConfig.ruby, "-I", File.join(NeverBlockTest::ROOT, "lib"), "-e", script])
    in_run { Trial.new(launch, 60).call(held) }
  end

  def ended?(pid)
    Process.kill(0, pid)
    false
  rescue Errno::ESRCH
    true
  end
end
