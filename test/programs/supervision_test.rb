# frozen_string_literal: true

# slow: it starts servers

require "test_helper"
require "fileutils"
require "support/supervised"

# Events that end a server, events that don't, and recovery: with workers and without.
class SupervisionTest < Minitest::Test
  include NeverBlockTest::Supervised

  # Seconds after a program has announced its successor: before the exec, and in the successor's start.
  MOMENTS = [0, 0.005, 0.02, 0.05, 0.1, 0.2].freeze

  [0, 2].each do |workers|
    define_method(:"test_a_log_that_can_not_be_opened_again_is_written_to_further_on_with_#{workers}_workers") do
      logs = {"log/access.log" => "", "log/error.log" => ""}
      serve(workers, "access_log :common, to: 'log/access.log'\n", files: logs) do |served|
        File.rename("#{served.folder}/log", "#{served.folder}/log.old")
        served.signal(:HUP)
        saying = /error: the log log\/access.log can't be written: No such file.*Its old file stays open/
        served.until_true("what is said of it, by each process") { served.errors.scan(saying).size == ((workers == 0) ? 1 : workers + 2) }
        served.until_true("a line in the old file") { served.get("/") && File.size("#{served.folder}/log.old/access.log") > 0 }
        FileUtils.mkdir("#{served.folder}/log")
        served.signal(:HUP)
        served.until_true("a line in the new file") { served.get("/") && File.size?("#{served.folder}/log/access.log") }
        served.stop
      end
    end
  end

  # Workers that start afterwards write to the same files as the others.
  def test_workers_start_though_the_folder_of_the_logs_has_gone
    serve(2, "access_log :common, to: 'log/access.log'\nerror_log 'log/error.log'\n#{HEALTH}", files: {"log/.keep" => ""}, listens: false) do |served|
      FileUtils.mv("#{served.folder}/log", "#{served.folder}/log.gone")
      before = served.workers
      kill(before)
      served.until_true("others") { ready?(served) && served.workers.size == 2 && (served.workers & before).empty? }
      assert_match(/200/, ask(served, "/readyz"))
      served.signal(:TERM)
      assert_equal 0, served.wait.exitstatus
      assert_match(/warn: worker \d \[\d+\] ended/, File.read("#{served.folder}/log.gone/error.log"))
      assert_empty served.errors
    end
  end

  def test_workers_that_start_after_a_hup_write_to_the_new_log
    serve(1, "access_log :common, to: 'access.log'\n") do |served|
      FileUtils.mv("#{served.folder}/access.log", "#{served.folder}/access.log.1")
      served.signal(:HUP)
      served.until_true("the log") { File.exist?("#{served.folder}/access.log") && open_logs(template(served)) == ["#{served.folder}/access.log"] }
      kill(served.workers)
      served.until_true("a line of another one") { answers?(served) && File.size?("#{served.folder}/access.log") }
      served.stop
    end
  end

  def test_a_failing_before_worker_exit_is_told_and_costs_nothing
    serve(1, "before_worker_exit { raise 'no way' }\n") do |served|
      served.stop
      assert_match(/error: before_worker_exit of worker 0: RuntimeError: no way \|/, served.errors)
      assert_match(/info: stopped$/, served.errors)
    end
  end

  def test_the_end_of_the_supervisor_is_told
    serve(2) do |served|
      served.signal(:KILL)
      served.wait
      served.until_true("the log line", ended: true) { served.errors.match?(/error: the supervisor \[#{served.pid}\] has gone: 2 of its workers/) }
    end
  end

  # Nothing is reported about successors before they report.
  def test_log_lines_when_all_but_the_supervisor_are_killed
    serve(2) do |served|
      workers, all = served.workers, served.children
      kill(all)
      served.until_true("others") { served.errors.include?("2 of 2 workers have been replaced") }
      lines = served.errors.lines.grep(/another one is started|have been replaced/)
      workers.each { |pid| assert_equal 1, lines.grep(/warn: worker \d \[#{pid}\] ended; another one is started/).size, lines.join }
      assert_match(/2 of 2/, lines.last)
    end
  end

  def test_the_end_of_a_killed_template_is_logged_and_the_app_loaded_again
    serve(2) do |served|
      2.times do |count|
        served.until_true("both workers") { served.workers.size == 2 } # a worker that has just been forked still looks like the template
        template = template(served)
        Process.kill(:KILL, template)
        served.until_true("the log line") { served.errors.match?(/error: template \[#{template}\] ended \(.*SIGKILL.*\): .* the app is loaded again/) }
        served.until_true("the next one") { served.errors.scan("2 of 2 workers have been replaced").size == count + 1 }
        kill(served.workers)
        served.until_true("an answer") { answers?(served) }
      end
      served.stop
    end
  end

  def test_a_template_that_is_killed_where_the_app_can_not_be_loaded_is_followed_when_it_can
    serve(1) do |served|
      File.write("#{served.folder}/config.ru", "raise 'no way'")
      Process.kill(:KILL, template(served))
      served.until_true("two failures") { served.errors.scan("the app can't be loaded again; the old one stays").size > 1 }
      assert_equal "first", served.body("/")
      kill([served.body("/pid").to_i])
      File.write("#{served.folder}/config.ru", NeverBlockTest::OperatedApp.text("second"))
      served.until_true("an answer of the new app") { answers?(served, "second") }
      served.stop
    end
  end

  # The app's failure ends in the meantime.
  def test_workers_that_can_not_be_replaced_serve_on_and_are_replaced_when_they_can
    config = "recycle requests: 10\n#{HEALTH}after_fork { raise 'no fork' if File.exist?('nofork') }\n"
    serve(2, config) do |served|
      before = served.workers
      FileUtils.touch("#{served.folder}/nofork")
      served.until_true("two attempts, the second one later") do
        answers?(served)
        served.errors.scan(/worker \d \[\d+\] ended \(.*\) before it was ready: RuntimeError: no fork \(.*neverblock.rb:\d+.*\); worker \d \[(?:#{before.join("|")})\] goes on/).size > 1
      end
      %w[/livez /readyz].each { |path| assert_equal 200, probe(served, path) }
      File.unlink("#{served.folder}/nofork")
      served.until_true("others") { answers?(served) && (served.workers & before).empty? }
      served.stop
    end
  end

  def test_a_worker_that_can_not_be_replaced_is_still_watched
    config = "recycle requests: 10\nworker_timeout 1\n#{HEALTH}after_fork { raise 'no fork' if File.exist?('nofork') }\n"
    serve(1, config) do |served|
      FileUtils.touch("#{served.folder}/nofork")
      served.until_true("an attempt") { answers?(served) && served.errors.include?("goes on") }
      socket = served.connect
      socket << "GET /spin HTTP/1.1\r\nHost: a\r\n\r\n"
      served.until_true("its end") { served.errors.match?(/error: worker 0 \[\d+\] has been silent for/) }
      File.unlink("#{served.folder}/nofork")
      served.until_true("another one") { answers?(served) }
    ensure
      socket&.close
    end
  end

  %w[TERM INT].each do |name|
    define_method(:"test_#{name}_while_the_app_loads_first_ends_a_cluster") do
      booting do |served|
        children = served.children
        served.signal(name)
        assert_equal 0, served.wait.exitstatus
        assert_match(/info: stopped$/, served.errors)
        refute_path_exists "#{served.folder}/server.pid"
        served.until_true("the end of all", ended: true) { children.none? { |pid| File.exist?("/proc/#{pid}") } }
      end
    end
  end

  def test_signals_while_the_app_loads_first_are_obeyed
    booting do |served|
      FileUtils.mv("#{served.folder}/access.log", "#{served.folder}/access.log.1")
      %i[HUP TTIN USR1].each { |name| served.signal(name) }
      served.until_true("the log") { File.exist?("#{served.folder}/access.log") }
      served.until_true("what is said of the reload") { served.errors.include?("the app is loaded once more, when this has been done") }
      FileUtils.touch("#{served.folder}/go")
      served.until_true("the reload of three workers") { served.errors.include?("3 of 3 workers have been replaced") }
      served.stop
    end
  end

  def test_signals_while_a_single_process_loads_its_app
    booting(0) do |served|
      %i[HUP USR1].each { |name| served.signal(name) }
      FileUtils.touch("#{served.folder}/go")
      served.until_true("a new start") { served.errors.scan("info: NeverBlock ").size == 2 }
      assert_includes served.errors, "starting anew"
      served.stop
    end
  end

  def test_term_ends_a_single_process_while_it_loads_its_app
    booting(0) do |served|
      served.signal(:TERM)
      assert_equal Signal.list.fetch("TERM"), served.wait.termsig
      refute_path_exists "#{served.folder}/server.pid"
    end
  end

  def test_a_hup_while_a_single_process_ends_opens_its_logs_and_cuts_no_delay_short
    serve(0, "#{HEALTH}drain_delay 600\naccess_log :common, to: 'access.log'\n") do |served|
      served.signal(:TERM)
      served.until_true("its drain") { probe(served, "/readyz") == 503 }
      FileUtils.mv("#{served.folder}/access.log", "#{served.folder}/access.log.1")
      served.signal(:HUP)
      served.until_true("the log") { File.exist?("#{served.folder}/access.log") }
      assert_equal "first", served.body("/")
      served.stop # the second one
    end
  end

  def test_nothing_listens_where_no_worker_accepts
    serve(2) do |served|
      held = hold(served)
      served.signal(:TERM)
      served.until_true("the refusal of new connections") { refused?(served) }
      assert_nil held.wait_readable(0), "its end"
      FileUtils.touch("#{served.folder}/go")
      assert_match(/first\z/, held.read)
      assert_equal 0, served.wait.exitstatus
    end
  end

  def test_a_supervisor_that_is_killed_leaves_no_socket_behind
    serve(2) do |served|
      held = hold(served)
      served.signal(:KILL)
      served.wait
      served.until_true("the refusal of new connections", ended: true) { refused?(served) }
      FileUtils.touch("#{served.folder}/go")
      assert_match(/first\z/, held.read)
    end
  end

  %i[TERM KILL].each do |name|
    define_method(:"test_#{name}_while_the_app_is_loading_anew_leaves_no_socket_behind") do
      serve(2) do |served|
        File.write("#{served.folder}/config.ru", "File.write('loading', '')\nsleep 0.01 until File.exist?('go')")
        served.signal(:USR1)
        served.until_true("its load") { File.exist?("#{served.folder}/loading") }
        children = served.children
        served.signal(name)
        served.wait
        served.until_true("the refusal of new connections", ended: true) { refused?(served) }
        served.until_true("the end of all", ended: true) { children.none? { |pid| File.exist?("/proc/#{pid}") } }
      end
    end
  end

  def test_a_worker_that_stands_still_does_not_outlive_its_supervisor_for_long
    serve(1, "shutdown_timeout 0.1\n") do |served|
      socket = served.connect
      socket << "GET /spin HTTP/1.1\r\nHost: a\r\n\r\n"
      children = served.children
      worker = served.workers.first
      served.until_true("its work") { File.read("/proc/#{worker}/stat").split(") ").last.split[11].to_i > 20 }
      served.signal(:KILL)
      served.wait
      served.until_true("the end of all", ended: true) { children.none? { |pid| File.exist?("/proc/#{pid}") } }
    ensure
      socket&.close
    end
  end

  def test_term_wins_over_a_restart_that_is_loading
    serve(2, "drain_delay 1\n") do |served|
      File.write("#{served.folder}/config.ru", "File.write('loading', '')\nsleep 0.01 until File.exist?('go')\n#{NeverBlockTest::OperatedApp.text("second")}")
      served.signal(:USR2)
      served.until_true("its load") { File.exist?("#{served.folder}/loading") }
      served.signal(:TERM)
      FileUtils.touch("#{served.folder}/go")
      assert_equal 0, served.wait.exitstatus
      assert_match(/info: stopped$/, served.errors)
      refute_includes served.errors, "makes way"
    end
  end

  def test_term_wins_over_a_new_start_of_a_single_process
    %w[USR1 USR2].each do |name|
      serve(0) do |served|
        held = served.connect
        held << "GET /until?#{served.folder}/go HTTP/1.1\r\nHost: a\r\n\r\n"
        served.until_true("the request") { cmdline(served.pid) && answers?(served) }
        served.signal(name)
        served.until_true("the log line") { served.errors.include?("starting anew") }
        waiting = served.connect
        served.signal(:TERM)
        served.until_true("the refusal of new connections") { refused?(served) }
        FileUtils.touch("#{served.folder}/go")
        assert_equal 0, served.wait.exitstatus
        assert_match(/info: stopped$/, served.errors)
      ensure
        [held, waiting].each { |socket| socket&.close }
      end
    end
  end

  # At whatever moment of the exec it arrives. Ruby's own start occasionally loses a TERM (docs/operations.md): then
  # another one is sent.
  [0, 2].each do |workers|
    define_method(:"test_term_wins_while_one_program_follows_another_with_#{workers}_workers") do
      MOMENTS.each do |seconds|
        serve(workers) do |served|
          children = served.children
          served.signal(:USR2)
          served.until_true("the last log line") { served.errors.match?(/makes way|starting anew/) }
          sleep seconds # real: the process is at some moment of its exec
          served.signal(:TERM)
          served.signal(:TERM) unless ends?(served)
          served.until_true("its end, #{seconds} s later") { !served.running? }
          served.until_true("the refusal of new connections", ended: true) { refused?(served) }
          served.until_true("the end of all", ended: true) { children.none? { |pid| File.exist?("/proc/#{pid}") } }
        end
      end
    end

    define_method(:"test_a_hup_while_one_program_follows_another_ends_nothing_with_#{workers}_workers") do
      MOMENTS.each do |seconds|
        serve(workers, "access_log :common, to: 'access.log'\n") do |served|
          served.signal(:USR2)
          served.until_true("the last log line") { served.errors.match?(/makes way|starting anew/) }
          sleep seconds # real: the process is at some moment of its exec
          FileUtils.mv("#{served.folder}/access.log", "#{served.folder}/access.log.1")
          served.signal(:HUP)
          served.until_true("a new start, #{seconds} s later") { served.errors.scan("info: NeverBlock ").size == 2 }
          served.until_true("a line in the new log") { answers?(served) && File.size?("#{served.folder}/access.log") }
          served.stop
        end
      end
    end
  end
end
