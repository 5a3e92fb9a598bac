# frozen_string_literal: true

# slow: it starts servers

require "test_helper"
require "support/serve_process"

# neverblock serve as process 1, in a PID namespace of its own, as in a container.
class FirstProcessTest < Minitest::Test
  NAMESPACE = %w[unshare --pid --fork --kill-child].freeze
  # Each request starts an orphan, a process whose parent ends at once. It waits for that, and reports its own end.
  APP = <<~'RUBY'
    run lambda { |env|
      system("(while kill -0 $$; do :; done 2>&-; echo ended >> orphans) &") if env["PATH_INFO"] == "/orphan"
      exit!(3) if env["PATH_INFO"] == "/exit"
      [200, {}, ["process #{Process.pid}"]]
    }
  RUBY

  def setup
    skip "this system lets us make no PID namespace: #{NAMESPACE.join(" ")} true has failed" unless system(*NAMESPACE, "true", out: File::NULL, err: File::NULL)
  end

  [0, 1].each do |workers|
    define_method(:"test_orphans_are_waited_for_with_#{workers}_workers") do
      serve(workers) do |served, first|
        5.times { assert_match(/process \d+\z/, served.get("/orphan")) }
        served.until_true("their ends") { File.exist?("#{served.folder}/orphans") && File.readlines("#{served.folder}/orphans").size == 5 }
        served.until_true("no zombie, instead of #{zombies(first)}") { zombies(first).empty? }
        Process.kill(:TERM, first)
        assert_equal 0, served.wait.exitstatus, served.errors
      end
    end
  end

  def test_signals_reach_the_server
    serve(0) do |served, first|
      before = served.body("/")
      refute_equal "process 1", before
      Process.kill(:USR2, first)
      served.until_true("the new start") { served.errors.scan("info: NeverBlock ").size == 2 }
      assert_equal before, served.body("/")
      Process.kill(:TERM, first)
      assert_equal 0, served.wait.exitstatus, served.errors
    end
  end

  def test_its_status_is_the_servers
    serve(0) do |served|
      served.get("/exit")
      assert_equal 3, served.wait.exitstatus
    end
  end

  private

  # @yieldparam served [ServeProcess] of unshare
  # @yieldparam first [Integer] the process ID, for us, of its process 1
  def serve(workers)
    library = [*NeverBlockTest::ServeProcess::LIBRARY, *NeverBlockTest::ServeProcess::RACK].flat_map { |path| ["-I", path] }
    ours = [RbConfig.ruby, "-w", "--disable=gems", "-rrbconfig", *library, File.join(NeverBlockTest::ROOT, "exe", "neverblock"), "serve", "-p", "0", "-w", workers.to_s]
    NeverBlockTest::ServeProcess.open(APP, command: ["-e", "exec(*ARGV)", *NAMESPACE, *ours], gems: false) do |served|
      served.addresses
      yield served, children(served.pid).first.first
    end
  end

  # @return [Array<Array(Integer, String)>] process IDs and states
  def children(parent)
    Dir["/proc/[0-9]*/stat"].filter_map do |path|
      state, of = File.read(path)[/\) (\S \d+)/, 1].split
      [path[/\d+/].to_i, state] if of.to_i == parent
    rescue Errno::ENOENT, Errno::ESRCH
      nil # the process has just ended
    end
  end

  def zombies(parent) = children(parent).select { |_, state| state == "Z" }
end
