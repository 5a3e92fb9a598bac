# frozen_string_literal: true

# slow: it starts servers (5 s)

require "test_helper"
require "support/operated"

# The logs of a server in operation: opened again after they were renamed, and what the app prints.
class OperationsLogsTest < Minitest::Test
  include NeverBlockTest::Operated

  [0, 2].each do |workers|
    define_method(:"test_hup_opens_the_logs_again_with_#{workers}_workers") do
      serve(workers, "access_log :common, to: 'access.log'\n") do |served|
        log = "#{served.folder}/access.log"
        served.get("/")
        served.until_true("a line") { File.size(log) > 0 }
        File.rename(log, "#{log}.1")
        served.signal(:HUP)
        served.until_true("a new file") { File.exist?(log) }
        served.until_true("a line in it") { served.get("/") && File.size(log) > 0 }
      end
    end

    # The folder was renamed, as by a rotation of the whole folder.
    define_method(:"test_reopen_tells_how_it_went_with_#{workers}_workers") do
      serve(workers, "access_log :common, to: 'log/access.log'\ncontrol 'control.sock'\n", files: {"log/.keep" => ""}) do |served|
        old, log = %w[log.1/access.log log/access.log].map { |name| "#{served.folder}/#{name}" }
        served.until_true("readiness") { probe("/readyz").first == 200 }
        File.rename(log, "#{log}.1")
        assert_equal ["reopen: the logs have been opened again\n", 0], served.order("reopen")
        assert_path_exists log
        File.rename("#{served.folder}/log", "#{served.folder}/log.1")
        output, status = served.order("reopen")
        assert_match(%r{\Aneverblock: reopen: the log log/access.log can't be written: No such file[^\n]*Its old file stays open\n\z}, output)
        assert_equal 1, status
        served.signal(:HUP)
        served.until_true("the error log") { served.errors.scan("Its old file stays open").size == 2 * ((workers == 0) ? 1 : workers + 2) } # in each process
        before = File.size(old)
        served.until_true("a line where it was") { served.get("/") && File.size(old) > before }
        assert_predicate served, :running?
      end
    end
  end

  [0, 1].each do |workers|
    define_method(:"test_what_the_app_prints_is_written_at_once_with_#{workers}_workers") do
      serve(workers) do |served|
        served.get("/print")
        served.until_true("what was printed") { served.output.include?("printed\n") }
      end
    end
  end
end
