# frozen_string_literal: true

# slow: it starts servers

require "test_helper"
require "fileutils"
require "neverblock/server"
require "support/operated_app"
require "support/serve_process"
require "support/watched_table"

# RunnerTable's actions in a single process: in each state, each signal and the end of a sidecar. QUIT, TTIN and TTOU
# change nothing, so each state has them before a TERM.
class RunnerTableTest < Minitest::Test
  include NeverBlockTest::WatchedTable

  TABLE = NeverBlock::Server::RunnerTable
  # The configuration is read as long as the file "slow" exists.
  CONFIG = <<~RUBY
    File.write("reads", "x", mode: "a")
    sleep 0.01 while File.exist?("slow") # real: the test's process removes it
    bind "tcp://127.0.0.1:0"
    health "unix://\#{Dir.pwd}/health"
    access_log :common, to: "access.log"
    sidecar "sleep 12345"
    drain_delay 600
  RUBY
  # The app loads as long as the file "gate" exists.
  APP = "File.write('loads', 'x', mode: 'a')\nsleep 0.01 while File.exist?('gate')\n#{NeverBlockTest::OperatedApp.text}".freeze

  # The names of signals, and the sidecar's end.
  events = %w[TERM INT USR1 USR2 HUP] + ["sidecar ended"]
  events.product(TABLE.states).each do |event, state|
    action = TABLE.cell(event, state).first
    next if action == NeverBlock::Server::Machine::NEVER
    define_method("test_#{event}_in_the_state_#{state}".tr(" ", "_")) do
      in_state(state) do |served|
        assert_unchanged(served, state) if event == "TERM"
        subject = (event == "sidecar ended") ? sidecar(served).tap { |pid| Process.kill(:KILL, pid) } : event
        FileUtils.mv("#{served.folder}/access.log", "#{served.folder}/access.log.1") if event == "HUP" && state != "booting"
        served.signal(event) if subject == event
        send(:"assert_#{action.tr(" ", "_")}", served, subject, state)
        finish(served, state)
      end
    end
  end

  private

  # ---- states ----
  def in_state(state)
    NeverBlockTest::ServeProcess.open(APP, config: CONFIG, files: {"gate" => ("" if state == "booting")}) do |served|
      loads(served, 1)
      unless state == "booting"
        served.addresses
        served.until_true("a sidecar") { sidecar(served) }
        send(:"come_to_#{state.tr(" ", "_")}", served)
      end
      yield served
    ensure
      @held&.close
    end
  end

  def come_to_serving(_served) = nil

  def come_to_checking(served)
    FileUtils.touch("#{served.folder}/slow")
    before = reads(served)
    served.signal(:USR1)
    served.until_true("the check") { reads(served) > before }
  end

  # The server waits for a request as long as there is no file "done".
  def come_to_starting_anew(served)
    @held = served.connect
    @held << "GET /until?#{served.folder}/done HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    served.until_true("the request") { stats(served)["workers"].first.dig("stats", "in_flight") == 1 }
    served.signal(:USR1)
    served.until_true("its state") { served.errors.include?("starting anew") }
  end

  def come_to_draining(served)
    served.signal(:TERM)
    served.until_true("its state") { stats(served)["state"] == "draining" }
  end

  def finish(served, state)
    return unless served.running?
    FileUtils.touch("#{served.folder}/done")
    FileUtils.rm_f("#{served.folder}/slow")
    served.until_true("the new program") { served.errors.scan("info: NeverBlock ").size == 2 } if ["checking", "starting anew"].include?(state)
    served.signal(:TERM) unless state == "draining"
    cut_delay(served)
    assert_equal 0, served.wait.exitstatus, served.errors
    assert_match(/info: stopped$/, served.errors)
  end

  # A signal that arrives before an earlier one of its kind was delivered is merged with it.
  def cut_delay(served)
    served.until_true("its drain") { stats(served)["state"] == "draining" }
    served.signal(:TERM)
  end

  # ---- expected effects ----
  def assert_unchanged(served, state)
    %w[TTIN TTOU QUIT].each { |name| served.signal(name) }
    place = (state == "booting") ? "config.ru:" : "runner.rb"
    served.until_true("its backtrace") { served.errors.match?(/backtrace: runs \| .*#{place}/) }
    return unless TABLE.cell("TTIN", state).first == "refuse workers"
    served.until_true("its words") { served.errors.scan(/TT\w+(?= has no effect: a single process has no workers)/).sort == %w[TTIN TTOU] }
  end

  def assert_end_at_once(served, name, _)
    assert_equal Signal.list.fetch(name), served.wait.termsig
  end

  def assert_drain(served, _, state)
    cut_delay(served) if %w[serving checking].include?(state)
    FileUtils.touch("#{served.folder}/done")
    assert_equal 0, served.wait.exitstatus, served.errors
    assert_equal 1, served.errors.scan("info: NeverBlock ").size
  end

  def assert_escalate(served, *) = assert_equal(0, served.wait.exitstatus, served.errors)

  def assert_later(served, *)
    File.unlink("#{served.folder}/gate")
    loads(served, 2)
    served.until_true("its other program") { served.errors.scan("info: NeverBlock ").size == 2 }
  end

  def assert_check(served, *)
    served.until_true("its other program") { served.errors.scan("info: NeverBlock ").size == 2 }
    assert_equal "first", served.body("/")
  end

  # The configuration may have changed after it was read.
  def assert_check_again(served, *)
    before = reads(served)
    File.write("#{served.folder}/config/neverblock.rb", "nonsense\n", mode: "a")
    FileUtils.rm("#{served.folder}/slow")
    served.until_true("its refusal") { served.errors.include?("error: the program can't be started again; this one goes on: config/neverblock.rb:8: there is no directive nonsense") }
    assert_equal [before + 1, 1], [reads(served), served.errors.scan("info: NeverBlock ").size]
    File.write("#{served.folder}/config/neverblock.rb", CONFIG)
    served.signal(:USR1)
  end

  # An ignored event has no effect.
  def assert_ignore(served, _, state)
    FileUtils.rm_f("#{served.folder}/gate")
    served.until_true("its service") { served.errors.include?("info: NeverBlock ") } if state == "booting"
    return if state == "starting anew"
    assert_equal "first", served.body("/")
    assert_equal 1, served.errors.scan("info: NeverBlock ").size
  end

  def assert_reopen_logs(served, *) = served.until_true("the log") { File.exist?("#{served.folder}/access.log") }

  def assert_start_again(served, victim, _)
    served.until_true("another one") { sidecar(served)&.!=(victim) }
    assert_match(/sidecar sleep 12345 ended \(.*SIGKILL.*\); it is started again/, served.errors)
  end

  # ---- observations ----
  def reads(served) = File.size("#{served.folder}/reads")

  def sidecar(served) = titled(served, /\Asleep\0/).first
end
