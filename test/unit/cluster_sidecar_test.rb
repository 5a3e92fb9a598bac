# frozen_string_literal: true

# engines: one - it starts processes, without a loop

require "test_helper"
require "neverblock/server"
require "neverblock/server/cluster/sidecar"

# A program beside the workers; with a server it is in test/programs/operations_test.rb.
class ClusterSidecarTest < Minitest::Test
  # Hears what is said, and stands for a supervisor.
  class Supervisor
    attr_reader :said

    def initialize
      @said = Thread::Queue.new
    end

    def say(message) = @said << message

    def on(event, words) = @said << "#{event}: #{words}"

    def directory = Dir.pwd
  end

  slow "it waits for a program that rests"
  def test_one_that_rests_holds_no_end_up
    supervisor = Supervisor.new
    sidecar = NeverBlock::Server::Cluster::Sidecar.new("false", supervisor)
    NeverBlock.run(exit: :cancel) do |scope|
      scope.spawn { sidecar.keep }
      3.times { assert_match(/\Asidecar ended: sidecar false ended \(.*exit 1\)/, supervisor.said.pop(timeout: 20)) }
      NeverBlock.timeout(1) { sidecar.stop(60) } # it rests for two seconds now
    end
  end

  def test_a_program_that_is_not_there_is_told_of
    supervisor = Supervisor.new
    NeverBlock.run { NeverBlock::Server::Cluster::Sidecar.new("no-such-program", supervisor).keep }
    assert_match(/sidecar no-such-program can't be started: No such file/, supervisor.said.pop(timeout: 0))
  end
end
