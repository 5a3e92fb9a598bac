# frozen_string_literal: true

require "test_helper"
require "support/virtual_time"
require "neverblock/server"
require "neverblock/server/cluster/sidecar"

# A program beside the workers; with a server it is in test/programs/operations_sidecars_test.rb.
class ClusterSidecarTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::VirtualTime

  # A stand-in for a supervisor: records the messages.
  class Supervisor
    attr_reader :said

    def initialize
      @said = Thread::Queue.new
    end

    def say(message, as: :info) = @said << message

    def on(event, words) = @said << "#{event}: #{words}"

    def directory = Dir.pwd
  end

  def test_a_sidecar_that_backs_off_does_not_delay_the_end
    supervisor = Supervisor.new
    sidecar = NeverBlock::Server::Cluster::Sidecar.new("false", supervisor)
    NeverBlock.run(exit: :cancel) do |scope|
      scope.spawn { sidecar.keep }
      3.times { assert_match(/\Asidecar ended: sidecar false ended \(.*exit 1\)/, supervisor.said.pop(timeout: 20)) }
      NeverBlock.timeout(1) { sidecar.stop(60) } # it backs off for two seconds now
    end
  end

  def test_a_program_that_is_not_there_is_told_of_and_started_when_it_is
    supervisor = Supervisor.new
    Dir.mktmpdir("nb") do |folder|
      program = "#{folder}/program"
      sidecar = NeverBlock::Server::Cluster::Sidecar.new(program, supervisor)
      NeverBlock.run(exit: :cancel) do |scope|
        scope.spawn { sidecar.keep }
        assert_match(/sidecar #{program} can't be started: No such file.*; it is tried again/, supervisor.said.pop(timeout: 20))
        File.write(program, "#!/bin/sh\nexit 3\n", perm: 0o755)
        assert_match(/\Asidecar ended: .* ended \(.*exit 3\)/, supervisor.said.pop(timeout: 20))
        sidecar.stop(60)
      end
    end
  end

  # Its number may belong to another process by then: it gets no signal.
  slow "it starts Ruby"
  def test_one_whose_status_the_app_has_taken_has_ended
    assert_equal <<~TEXT, assert_ruby(<<~RUBY)
      [:down, nil, "ended"]
      sidecar no/such/program can't be started: No such file or directory; it is tried again
    TEXT
      require "neverblock/server"
      require "neverblock/server/cluster/sidecar"
      trap("CHLD", "IGNORE") # the kernel reaps all
      told = Thread::Queue.new
      supervisor = Struct.new(:directory).new(Dir.pwd)
      supervisor.define_singleton_method(:on) { |*| told << true }
      NeverBlock.run(exit: :cancel) do |scope|
        sidecar = NeverBlock::Server::Cluster::Sidecar.new("true", supervisor)
        scope.spawn { sidecar.keep }
        told.pop
        p sidecar.to_h.values_at(:state, :pid, :failure)
        none = NeverBlock::Server::Cluster::Sidecar.new("no/such/program", supervisor)
        supervisor.define_singleton_method(:say) { |words, **| told << words }
        scope.spawn { none.keep }
        puts told.pop
      end
    RUBY
  end

  # The server's successor (USR2) would start a second one beside it.
  def test_one_that_is_stopped_while_it_starts_has_ended_then
    Dir.mktmpdir("nb") do |folder|
      supervisor = Supervisor.new
      supervisor.define_singleton_method(:directory) { # in the child, before its exec
        File.write("#{folder}/pid", Process.pid)
        File.read("#{folder}/go")
        folder
      }
      File.mkfifo("#{folder}/go")
      sidecar = NeverBlock::Server::Cluster::Sidecar.new("sleep 12345", supervisor)
      NeverBlock.run(exit: :cancel) do |scope|
        scope.spawn { sidecar.keep }
        wait_until("its process") { File.size?("#{folder}/pid") }
        stop = scope.spawn { sidecar.stop(60) }
        scope.spawn { File.write("#{folder}/go", "") }
        stop.join
        assert_raises(Errno::ESRCH) { Process.kill(0, File.read("#{folder}/pid").to_i) }
      end
    end
  end

  # At any moment: its process has the server's handlers until its exec.
  def test_a_sidecar_ends_if_its_server_is_killed_while_it_starts
    skip "the kernel tells no process of its parent's end" unless RUBY_PLATFORM.include?("linux")
    outcome = run_ruby(<<~RUBY)
      require "neverblock/server"
      require "neverblock/server/cluster/sidecar"
      trap("TERM") {}
      supervisor = Object.new
      def supervisor.directory # in the child, before its exec
        server = Process.ppid
        puts Process.pid
        $stdout.flush
        Process.kill(:KILL, server)
        Thread.pass while Process.ppid == server
        $stdout.reopen(File::NULL)
        $stderr.reopen(File::NULL)
        Dir.pwd
      end
      NeverBlock.run { NeverBlock::Server::Cluster::Sidecar.new("sleep 12345", supervisor).keep }
    RUBY
    pid = outcome.stdout.to_i
    wait_until("the end of the program") { ended?(pid) }
  ensure
    Process.kill(:KILL, pid) if pid&.positive? && File.exist?("/proc/#{pid}") && File.read("/proc/#{pid}/comm").start_with?("sleep")
  end
end
