# frozen_string_literal: true

# slow: it starts servers (60 s)

require "test_helper"
require "fileutils"
require "neverblock/server"
require "neverblock/server/cluster/supervisor_table"
require "support/operated_app"
require "support/serve_process"
require "support/watched_table"

# SupervisorTable's actions in real processes: in each state, each signal and each child's end. QUIT changes nothing, so
# each state has it before a TERM. During the exec of a
# handover: test/programs/supervision_test.rb
class SupervisionTableTest < Minitest::Test
  include NeverBlockTest::WatchedTable

  TABLE = NeverBlock::Server::Cluster::SupervisorTable
  SIGNALS = %w[TERM INT USR1 USR2 HUP TTIN TTOU].freeze
  ENDS = ["template ended", "worker ended", "worker asked to end", "sidecar ended"].freeze
  CONFIG = <<~RUBY
    workers 2
    bind "tcp://127.0.0.1:0"
    health "unix://\#{Dir.pwd}/health"
    access_log :common, to: "access.log"
    drain_delay 600
    sidecar File.exist?("patient") ? "./patient" : "sleep 12345"
  RUBY
  # A sidecar that ends slowly, which delays the handover as long as the file "hold" exists.
  PATIENT = "#!/bin/sh\ntrap 'touch asked; while [ -e hold ]; do sleep 0.02; done; exit' TERM\nwhile :; do sleep 0.02; done\n"
  # The app loads as long as the file "gate" exists.
  APP = "File.write('loads', 'x', mode: 'a')\nsleep 0.01 while File.exist?('gate')\n#{NeverBlockTest::OperatedApp.text}".freeze

  TABLE.states.each do |state|
    events = (state == "booting") ? SIGNALS : SIGNALS + ENDS # the only child is the template that loads
    events += ["load failed"] unless ["serving", "handing over"].include?(state) # two loads would have to overlap
    events.each do |event|
      action = TABLE.cell(event, state).first
      next if action == NeverBlock::Server::Machine::NEVER
      define_method(:"test_#{event}_in_the_state_#{state}") do
        in_state(state) do |served|
          assert_backtraces(served, state) if event == "TERM"
          before = served.workers
          subject = send(:"cause_#{event.downcase.tr(" ", "_")}", served)
          send(:"assert_#{action.tr(" ", "_")}", served, subject, before, state)
          finish(served, state)
        end
      end
    end
  end

  private

  # ---- states ----
  def in_state(state)
    files = {"gate" => ("" if state == "booting"), **((state == "handing over") ? {"patient" => PATIENT, "hold" => ""} : {})}
    NeverBlockTest::ServeProcess.open(APP, config: CONFIG, files:) do |served|
      if state == "booting" then loads(served, 1)
      else
        served.addresses
        served.until_true("a sidecar") { sidecar(served) }
        send(:"come_to_#{state.tr(" ", "_")}", served)
      end
      yield served
    end
  end

  def come_to_serving(_served) = nil

  def come_to_reloading(served, signal = "USR1")
    FileUtils.touch("#{served.folder}/gate")
    served.signal(signal)
    loads(served, 2)
  end

  def come_to_restarting(served) = come_to_reloading(served, "USR2")

  def come_to_handing_over(served)
    served.signal("USR2")
    served.until_true("the wait for its sidecar") { served.errors.include?("makes way") && File.exist?("#{served.folder}/asked") }
  end

  def come_to_draining(served)
    served.signal(:TERM)
    served.until_true("its drain") { stats(served)["state"] == "draining" }
  end

  def finish(served, state)
    return unless served.running?
    open_gate(served)
    served.addresses
    served.until_true("the new program") { served.errors.scan("info: NeverBlock ").size >= 2 } if state == "handing over"
    served.signal(:TERM) unless state == "draining"
    cut_delay(served)
    served.wait
    assert_match(/info: stopped/, served.errors)
  end

  # A signal that arrives before an earlier one of its kind was delivered is merged with it.
  def cut_delay(served)
    served.until_true("its drain", ended: true) { !served.running? || stats(served)["state"] == "draining" }
    served.signal(:TERM) if served.running?
  rescue Errno::ESRCH
    nil # there was nothing to wait for
  end

  # ---- observed effects ----
  SIGNALS.each do |name|
    define_method(:"cause_#{name.downcase}") do |served|
      FileUtils.mv("#{served.folder}/access.log", "#{served.folder}/access.log.1") if name == "HUP"
      served.signal(name)
      name
    end
  end

  def cause_template_ended(served)
    templates = titled(served, /: template/)
    present = templates.min_by { |pid| File.read("/proc/#{pid}/stat").split(") ").last.split[19].to_i } # the older one: another may be loading
    present.tap { |pid| Process.kill(:KILL, pid) }
  end

  def cause_worker_ended(served) = served.workers.first.tap { |pid| Process.kill(:KILL, pid) }

  def cause_worker_asked_to_end(served) = served.workers.first.tap { |pid| Process.kill(:TERM, pid) }

  def cause_sidecar_ended(served) = sidecar(served).tap { |pid| Process.kill(:KILL, pid) }

  def cause_load_failed(served)
    loading = titled(served, /: template/).max_by { |pid| File.read("/proc/#{pid}/stat").split(") ").last.split[19].to_i }
    Process.kill(:KILL, loading)
  end

  # ---- expected effects ----
  def assert_backtraces(served, state)
    served.signal(:QUIT)
    expected = (state == "booting") ? titled(served, /./) : served.workers
    served.until_true("backtraces of #{expected}") { (expected - served.errors.scan(/\[(\d+)\] backtrace: runs/).flatten.map(&:to_i)).empty? }
  end

  def assert_drain(served, _, before, state)
    cut_delay(served)
    open_gate(served)
    assert_equal 0, served.wait.exitstatus, served.errors
    served.until_true("the end of all", ended: true) { before.none? { |pid| File.exist?("/proc/#{pid}") } }
    assert_equal 1, served.errors.scan("info: NeverBlock ").size + ((state == "booting") ? 1 : 0)
  end

  def assert_escalate(served, *)
    assert_equal 0, served.wait.exitstatus, served.errors
  end

  def assert_later(served, event, _, state)
    served.until_true("the log line") { served.errors.include?("the app is loaded once more, when this has been done") }
    open_gate(served)
    loads(served, (state == "booting") ? 2 : 3)
    served.until_true("the new workers") { served.errors.scan("2 of 2 workers have been replaced").size >= ((state == "booting") ? 1 : 2) }
    served.until_true("its other program") { served.errors.scan("makes way").size == (["restarting", "handing over"].include?(state) ? 2 : 1) } if event == "USR2"
  end

  def assert_load(served, _, before, _)
    served.until_true("the new workers") { served.errors.include?("2 of 2 workers have been replaced") && (served.workers & before).empty? }
    answers(served)
  end

  def assert_ignore(served, *, state)
    return if state == "draining" # checked at the end
    open_gate(served)
    served.until_true("the new workers") { served.errors.include?("2 of 2 workers have been replaced") }
    answers(served)
  end

  def assert_reopen_logs(served, *) = served.until_true("the log") { File.exist?("#{served.folder}/access.log") }

  def assert_add_worker(served, _, _, state) = assert_workers(served, 3, state)

  def assert_remove_worker(served, _, _, state) = assert_workers(served, 1, state)

  def assert_workers(served, count, state)
    open_gate(served) if state == "booting"
    served.until_true("#{count} workers") { stats(served)["workers"].count { |worker| worker["state"] == "serving" } == count }
  end

  def assert_report_exit(served, victim, *)
    served.until_true("the log line") { served.errors.match?(/worker \d \[#{victim}\] ended \(.*SIGKILL.*\); another one is started/) }
    served.until_true("another one") { served.workers.size == 2 && !served.workers.include?(victim) }
    answers(served)
  end

  def assert_replace_worker(served, victim, *)
    served.until_true("another one") { served.workers.size == 2 && !served.workers.include?(victim) }
  end

  def assert_start_again(served, victim, *)
    served.until_true("another one") { sidecar(served)&.!=(victim) }
    assert_match(/sidecar sleep 12345 ended \(.*SIGKILL.*\); it is started again/, served.errors)
  end

  def assert_give_up(served, *)
    assert_equal 1, served.wait.exitstatus
    assert_match(/^neverblock: its process has ended/, served.errors)
  end

  def assert_keep_old(served, _, before, _)
    served.until_true("the log line") { served.errors.include?("can't be loaded again; the old one stays: its process has ended") }
    assert_equal before.sort, served.workers.sort
    answers(served)
  end

  # ---- observations ----
  def open_gate(served) = FileUtils.rm_f(%w[gate hold].map { |name| "#{served.folder}/#{name}" })

  def answers(served) = assert_equal("first", served.body("/"))

  def sidecar(served) = titled(served, /\Asleep\0|patient/).first
end
