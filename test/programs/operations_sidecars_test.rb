# frozen_string_literal: true

# slow: it starts servers (5 s)

require "test_helper"
require "support/operated"

# Programs that a server runs beside its workers.
class OperationsSidecarsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Operated

  [0, 1].each do |workers|
    define_method(:"test_sidecars_with_#{workers}_workers") do
      serve(workers, "sidecar %q(sh -c 'echo $$ $RACK_ENV >> pids; exec sleep 60')\n") do |served|
        path = "#{served.folder}/pids"
        served.until_true("its start") { File.exist?(path) && File.read(path).lines.size == 1 }
        assert_match(/\A\d+ development\n\z/, File.read(path))
        Process.kill(:KILL, File.read(path).to_i)
        served.until_true("its next start") { File.read(path).lines.size == 2 }
        served.stop
        assert_raises(Errno::ESRCH) { Process.kill(0, File.read(path).lines.last.to_i) }
        assert_match(/warn: sidecar sh -c .* ended \(.*SIGKILL.*\); it is started again/, served.errors)
      end
    end

    # As with a worker: no process is left behind.
    define_method(:"test_a_killed_server_takes_its_sidecar_along_with_#{workers}_workers") do
      skip "this system does not tell a process of its parent's end" unless RUBY_PLATFORM.include?("linux")
      serve(workers, "sidecar %q(sh -c 'echo $$ >> pids; exec sleep 60')\n") do |served|
        path = "#{served.folder}/pids"
        served.until_true("its start") { File.exist?(path) && File.read(path).lines.size == 1 }
        served.signal(:KILL)
        served.until_true("its end") { ended?(File.read(path).to_i) }
      end
    end

    define_method(:"test_a_sidecar_that_is_not_there_with_#{workers}_workers") do
      serve(workers, "control 'control.sock'\nsidecar 'bin/none'\n") do |served|
        served.until_true("a word of it") { served.errors.include?("error: sidecar bin/none can't be started: No such file or directory") }
        assert_match(/^  sidecar +down +bin\/none, \d restarts; the last time \(.*\) it can't be started: No such file/, served.order("status").first)
        assert_match(/200 OK/, served.get("/"))
        served.stop
      end
    end
  end

  def test_a_sidecar_is_started_anew_with_a_single_process
    serve(0, "sidecar %q(sh -c 'echo $$ >> pids; exec sleep 60')\n") do |served|
      path = "#{served.folder}/pids"
      served.until_true("its start") { File.exist?(path) && File.read(path).lines.size == 1 }
      served.signal(:USR2)
      served.until_true("its next start") { File.read(path).lines.size == 2 }
      assert_raises(Errno::ESRCH) { Process.kill(0, File.read(path).lines.first.to_i) }
      served.stop
    end
  end
end
