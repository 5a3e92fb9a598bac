# frozen_string_literal: true

# slow: it starts servers (15 s)

require "test_helper"
require "support/operated"
require "support/accounting"

# Commands and signals to a running server, other than its end: status, reload, restart.
class OperationsCommandsTest < Minitest::Test
  include NeverBlockTest::Operated

  [0, 2].each do |workers|
    define_method(:"test_commands_with_#{workers}_workers") do
      serve(workers, "control 'control.sock'\n") do |served|
        assert_equal 0o600, File.stat("#{served.folder}/control.sock").mode & 0o777
        assert_match(/^serving, pid #{served.pid}, version #{NeverBlock::VERSION}, at tcp:/, served.command("status"))
        assert_equal "serving", JSON.parse(served.command("status", "--json"))["state"]
        assert_equal ["stop: stopped\n", 0], served.order("stop")
        refute_predicate served, :running?
        assert_equal 0, served.wait.exitstatus
        assert_match(/no server answers at control.sock/, served.command("status"))
      end
    end

    %w[reload restart].each do |command|
      define_method(:"test_#{command}_waits_until_the_new_app_serves_with_#{workers}_workers") do
        serve(workers, "control 'control.sock'\n") do |served|
          File.write("#{served.folder}/config.ru", "sleep 0.5\n#{NeverBlockTest::OperatedApp.text("second")}")
          said = (workers == 0) ? "the app has been loaded" : "2 of 2 workers have been replaced"
          assert_equal ["#{command}: #{said}\n", 0], served.order(command)
          assert_equal "second", served.body("/")
          assert_equal({result: "loaded", message: said}, stats[:load].except(:at))
          assert_equal ["#{command}: begun; the error log will have the result\n", 0], served.order(command, "--no-wait")
        end
      end

      define_method(:"test_#{command}_tells_why_the_app_can_not_be_loaded_with_#{workers}_workers") do
        serve(workers, "control 'control.sock'\n") do |served|
          File.write("#{served.folder}/config.ru", "raise 'no way'")
          output, status = served.order(command)
          assert_equal 1, status
          next assert_match(/neverblock: #{command}: the server has ended\. Its error log/, output) if workers == 0
          assert_match(/neverblock: #{command}: the app can't be loaded again; the old one stays: config\.ru can't be loaded.*no way/m, output)
          assert_match(/\Aserving, .*\nthe last load failed \(\d{4}-\S+Z\): .*no way/, served.command("status"))
          assert_equal 1, metrics["neverblock_last_load_failed"]
        end
      end
    end
  end

  %w[USR1 USR2].each do |name|
    define_method(:"test_#{name}_starts_a_single_process_anew_and_loses_nothing") do
      serve(0) do |served|
        slow = Thread.new { served.get("/until?#{served.folder}/go") }
        served.until_true("the request") { requests(:in_flight) == 1 }
        accounting = NeverBlockTest::Accounting.new(served.port, clients: 4).start
        served.until_true("the old app's responses") { accounting.bodies.key?("first") }
        File.write("#{served.folder}/config.ru", NeverBlockTest::OperatedApp.text("second"))
        served.signal(name)
        served.until_true("its wait for the request") { served.errors.include?("starting anew") }
        File.write("#{served.folder}/go", "")
        served.until_true("the new app's answers") { accounting.bodies.key?("second") }
        accounting.stop
        assert_empty accounting.lost
        assert_equal %w[first second], accounting.bodies.keys
        assert_match(/first\z/, slow.value)
        served.stop
      end
    end
  end

  def test_commands_while_the_app_is_loaded_anew
    serve(2, "control 'control.sock'\n") do |served|
      File.write("#{served.folder}/config.ru", "File.write('loading', '')\nsleep 0.01 until File.exist?('go')\n#{NeverBlockTest::OperatedApp.text("second")}")
      orders = Array.new(2) { Thread.new { served.order("reload") } }
      served.until_true("the load") { File.exist?("#{served.folder}/loading") && served.errors.include?("loaded once more") }
      assert_equal "loading", stats[:load][:result]
      File.write("#{served.folder}/go", "")
      assert_equal [["reload: 2 of 2 workers have been replaced\n", 0]] * 2, orders.map(&:value)
      File.unlink("#{served.folder}/go")
      order = Thread.new { served.order("restart") }
      served.until_true("the load") { stats[:load][:result] == "loading" }
      served.signal(:TERM)
      assert_equal ["neverblock: restart: the server is being stopped\n", 1], order.value
      assert_equal 0, served.wait.exitstatus
    end
  end

  # It says so to a command and to a signal, unless it handles the signal itself.
  def test_a_program_with_a_server_in_it_can_not_be_started_again
    program = <<~RUBY
      require "neverblock/server"
      app = ->(_env) { [200, {}, ["own"]] }
      trap("USR2") { warn "its own" }
      exit(NeverBlock::Server.new(app, bind: "tcp://127.0.0.1:0", control: "control.sock").run)
    RUBY
    NeverBlockTest::ServeProcess.open("", command: ["-e", program], gems: false) do |served|
      served.addresses
      %w[reload restart].each do |command|
        assert_equal ["neverblock: #{command}: the program can't be started again; this one goes on: NeverBlock has not started it (Server#run). Stop it, and start it in its own way\n", 1], served.order(command, "--control", "control.sock")
        assert_equal "own", served.body("/")
      end
      %w[USR1 USR2].each { |name| served.signal(name) }
      served.until_true("the lines") { served.errors.scan("this one goes on").size == 3 && served.errors.include?("its own") }
      served.stop
    end
  end

  def test_workers_that_can_not_be_replaced_are_told
    serve(1, "control 'control.sock'\nafter_fork { raise 'no fork' if File.exist?('nofork') }\n") do |served|
      File.write("#{served.folder}/nofork", "")
      assert_equal ["neverblock: reload: 0 of 1 workers have been replaced; the error log tells why\n", 1], served.order("reload")
      Process.kill(:KILL, pids.first)
      served.until_true("its end") { pids.empty? }
      output, status = served.order("status")
      assert_equal 1, status
      assert_match(/\Adown, pid #{served.pid}/, output)
      File.unlink("#{served.folder}/nofork")
      served.until_true("another one") { served.order("status").last == 0 }
    end
  end

  def test_help_of_commands_tells_what_must_be_known
    %w[reload restart].each { |command| assert_match(/With workers 0 .*starts again: if the app can't be loaded, it ends\./m, NeverBlockTest::ServeProcess.command(Dir.pwd, command, "--help")) }
    assert_match(/--now +cancel running requests.*the command only waits/m, NeverBlockTest::ServeProcess.command(Dir.pwd, "stop", "--help"))
  end
end
