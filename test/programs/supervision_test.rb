# frozen_string_literal: true

# slow: it starts servers

require "test_helper"
require "fileutils"
require "json"
require "support/operated_app"
require "support/serve_process"

# What ends a server, what does not, and what heals it: with workers and without.
class SupervisionTest < Minitest::Test
  [0, 2].each do |workers|
    define_method(:"test_a_log_that_can_not_be_opened_again_is_written_to_further_on_with_#{workers}_workers") do
      logs = {"log/access.log" => "", "log/error.log" => ""}
      serve(workers, "access_log :common, to: 'log/access.log'\n", files: logs) do |served|
        File.rename("#{served.folder}/log", "#{served.folder}/log.old")
        served.signal(:HUP)
        saying = /error: a log can't be opened again, and the file that was open is written to further on: the log log\/access.log can't be written: No such file/
        served.until_true("what is said of it, by each process") { served.errors.scan(saying).size == ((workers == 0) ? 1 : workers + 1) }
        served.until_true("a line in the old file") { served.get("/") && File.size("#{served.folder}/log.old/access.log") > 0 }
        FileUtils.mkdir("#{served.folder}/log")
        served.signal(:HUP)
        served.until_true("a line in the new file") { served.get("/") && File.size?("#{served.folder}/log/access.log") }
        served.stop
      end
    end
  end

  private

  def serve(workers, more = "", app: NeverBlockTest::OperatedApp.text, **)
    NeverBlockTest::ServeProcess.open(app, config: "workers #{workers}\nbind 'tcp://127.0.0.1:0'\n#{more}", **) do |served|
      served.addresses
      yield served
    end
  end
end
