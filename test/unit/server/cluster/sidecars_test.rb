# frozen_string_literal: true

require "test_helper"
require "support/loops"
require "neverblock/server"
require "neverblock/server/cluster/sidecars"

# All programs beside the workers, together.
class ClusterSidecarsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  # Stands for the Supervisor.
  class Supervisor
    def spawn(name, &) = NB.spawn(name:, &)

    def on(*) = nil

    def say(*, **) = nil

    def directory = Dir.pwd
  end

  def test_they_are_started_once_restarted_and_stopped
    Dir.mktmpdir("nb") do |folder|
      commands = %w[one two].map { |name| "sh -c 'echo $$ >> #{folder}/#{name}; exec sleep 12347'" }
      sidecars = NeverBlock::Server::Cluster::Sidecars.new({sidecar: commands, shutdown_timeout: 60}, Supervisor.new)
      pids = -> { %w[one two].flat_map { |name| File.exist?("#{folder}/#{name}") ? File.readlines("#{folder}/#{name}", chomp: true) : [] } }
      in_loop(exit: :cancel) do
        2.times { sidecars.start }
        pass_until("both") { pids.call.size == 2 }
        pass_until("what is known of them") { sidecars.stats.all? { |one| one[:state] == :running } }
        assert_equal(commands, sidecars.stats.map { |one| one[:command] })
        sidecars.restart
        pass_until("both once more") { pids.call.size == 4 }
        sidecars.stop
        pids.call.each { |pid| assert_raises(Errno::ESRCH) { Process.kill(0, pid.to_i) } }
        assert_nil sidecars.stop.first, "there are none any more"
      end
      assert_equal 4, pids.call.size
    end
  end
end
