# frozen_string_literal: true

# slow: it starts servers

require "test_helper"
require "fileutils"
require "support/supervised"

# Reloads and restarts that fail: the old processes serve on, and the error log has the reason. And the conditions of a
# restart.
class SupervisionLoadsTest < Minitest::Test
  include NeverBlockTest::Supervised

  # Reasons for a failed load: the broken part, and the error log's words.
  {
    "a syntax error in the configuration" => [{"config/neverblock.rb" => "workers 2\n)"}, /config\/neverblock\.rb:2: .*syntax error.*SyntaxError/],
    "a broken app" => [{"config.ru" => "raise 'no way'"}, /config\.ru can't be loaded\\n.*config\.ru:1:.*no way \(RuntimeError\)/],
    "an app that ends its process" => [{"config.ru" => "abort 'no DATABASE_URL'"}, /the app has called abort: no DATABASE_URL \(.*config\.ru:1/],
    "an app that just exits" => [{"config.ru" => "exit! 3"}, /its process has ended \(pid \d+ exit 3\) before the app was loaded/],
    "a log that can't be opened" => [{"config/neverblock.rb" => "workers 2\nerror_log 'none/error.log'"}, /config\/neverblock\.rb:2: the log none\/error\.log can't be written: No such file/]
  }.each do |what, (files, reason)|
    %w[USR1 USR2].each do |name|
      define_method(:"test_the_error_log_says_why_nothing_has_become_of_#{name}_with_#{what}") do
        serve(2, "error_log 'error.log'\n#{HEALTH}", listens: false) do |served|
          before = served.workers
          files.each { |path, text| File.write("#{served.folder}/#{path}", text) }
          served.signal(name)
          served.until_true("the reason") { File.read("#{served.folder}/error.log").match?(/error: the app can't be loaded again; the old one stays: .*#{reason}/) }
          assert_equal before, served.workers
          served.signal(:TERM)
          assert_equal 0, served.wait.exitstatus
        end
      end
    end
  end

  # Errors that only the next supervisor would find: the serving one has the file open. "taken" is the path of a socket
  # with a listener.
  {
    "its pid file's folder has gone" => ["pid_file 'run/server.pid'", %w[run run.gone], nil, /pid_file "run\/server\.pid": there is no folder .*run/],
    "its control socket's folder has gone" => ["control 'run/control.sock'", %w[run run.gone], nil, /control "run\/control\.sock": there is no folder .*run/],
    "its logs' folder has gone" => ["access_log :common, to: 'run/access.log'", %w[run run.gone], nil, /the log run\/access\.log can't be written: No such file/],
    "its new health address is taken" => ["", nil, "health 'tcp://127.0.0.1:TAKEN'", /health "tcp:\/\/127\.0\.0\.1:\d+": Address already in use/],
    "its new control socket is taken" => ["", nil, "control 'taken'", /control "taken": a server answers there already/],
    "its new pid file is another server's" => ["", nil, "pid_file 'taken.pid'", /pid_file "taken\.pid": .*taken\.pid says that a server runs already/]
  }.each do |what, (config, moved, added, reason)|
    define_method(:"test_a_restart_comes_to_nothing_where_#{what.tr(" ", "_")}") do
      serve(2, "#{HEALTH}#{config}\nsidecar 'sleep 12345'\n", files: {"run/.keep" => ""}) do |served|
        served.until_true("the sidecar") { sidecar(served) }
        before, beside = served.workers, sidecar(served)
        taken = TCPServer.new("127.0.0.1", 0)
        path = UNIXServer.new("#{served.folder}/taken")
        lock = File.open("#{served.folder}/taken.pid", "w").tap { |file| file.flock(File::LOCK_EX) && file.write(Process.pid.to_s) && file.flush }
        FileUtils.mv(*moved.map { |name| "#{served.folder}/#{name}" }) if moved
        configuration = "#{served.folder}/config/neverblock.rb"
        File.write(configuration, added.gsub("TAKEN", taken.local_address.ip_port.to_s) + "\n", mode: "a") if added
        served.signal(:USR2)
        served.until_true("the log line") { served.errors.match?(/error: the app can't be loaded again; the old one stays: .*#{reason}/) }
        assert_equal [before.sort, beside], [served.workers.sort, sidecar(served)]
        assert_equal "first", served.body("/")
        FileUtils.mv(*moved.reverse.map { |name| "#{served.folder}/#{name}" }) if moved
        File.write(configuration, File.read(configuration).delete_suffix("\n").sub(/.*\z/, "")) if added
        served.signal(:USR2)
        served.until_true("its success") { served.errors.include?("2 of 2 workers have been replaced") }
        served.stop
      ensure
        [taken, path, lock].each { |one| one&.close }
      end
    end
  end

  [0, 2].each do |workers|
    define_method(:"test_a_restart_tells_of_addresses_that_it_does_not_serve_with_#{workers}_workers") do
      serve(workers) do |served|
        File.write("#{served.folder}/config/neverblock.rb", "bind 'unix://#{served.folder}/new'\n", mode: "a")
        served.signal(:USR2)
        served.until_true("the new program") { served.errors.scan("info: NeverBlock ").size == 2 }
        assert_match(/warn: bind "unix:.*new" is not served: sockets are opened at a start/, served.errors)
        assert_equal "first", served.body("/")
        served.stop
      end
    end
  end

  def test_a_restart_makes_several_processes_of_one
    serve(0) do |served|
      configuration = "#{served.folder}/config/neverblock.rb"
      File.write(configuration, File.read(configuration).sub("workers 0", "workers 2"))
      served.signal(:USR2)
      served.until_true("workers") { served.workers.size == 2 && served.errors.scan("info: NeverBlock ").size == 2 }
      assert_equal "first", served.body("/")
      File.write(configuration, File.read(configuration).sub("workers 2", "workers 0"))
      before = served.workers
      served.signal(:USR2)
      served.until_true("the log line") { served.errors.include?("workers 0 makes it a single process") }
      assert_equal before, served.workers
      served.stop
    end
  end

  def test_a_new_start_of_a_single_process_comes_to_nothing_where_its_logs_have_gone
    serve(0, "access_log :common, to: 'run/access.log'\n", files: {"run/.keep" => ""}) do |served|
      FileUtils.mv("#{served.folder}/run", "#{served.folder}/run.gone")
      served.signal(:USR2)
      served.until_true("the log line") { served.errors.match?(/error: the program can't be started again; this one goes on: .*access_log to: "run\/access\.log": there is no folder/) }
      assert_equal "first", served.body("/")
      served.stop
    end
  end

  # The old program would be gone before the next one reads its configuration.
  {
    "a syntax error" => ["workers 0\n)", /config\/neverblock\.rb:2: .*syntax error.*SyntaxError/m],
    "an unknown directive" => ["workers 0\n\nmax_in_fligth 5", /config\/neverblock\.rb:3: there is no directive max_in_fligth\./],
    "a bad value" => ["queue limit: -1", /config\/neverblock\.rb:1: queue limit: -1 is not a whole number/],
    "several mistakes" => ["workers -1\nnonsense 5", /config\/neverblock\.rb:1: workers -1 is not .*(?:\\n|\n)config\/neverblock\.rb:2: there is no directive nonsense/],
    "a contradiction" => ["body_quota 1", /config\/neverblock\.rb:1: body_quota 1 is less than max_body_size/],
    "an error of its own" => ["raise 'no way'", /config\/neverblock\.rb:1: no way \(RuntimeError\)/],
    "a health address that is taken" => ["health 'tcp://127.0.0.1:TAKEN'", /config\/neverblock\.rb:1: health "tcp:\/\/127\.0\.0\.1:\d+": Address already in use/],
    "an exit of its own" => ["exit! 3", /the process that reads its configuration has ended \(pid \d+ exit 3\)/]
  }.each do |what, (text, reason)|
    define_method(:"test_a_single_process_goes_on_if_its_configuration_has_#{what.tr(" ", "_")}") do
      serve(0, "#{HEALTH}control 'control.sock'\n") do |served|
        path = "#{served.folder}/config/neverblock.rb"
        good = File.read(path)
        taken = TCPServer.new("127.0.0.1", 0)
        File.write(path, text.sub("TAKEN", taken.local_address.ip_port.to_s))
        told, status = served.order("reload", "--control", "control.sock")
        assert_match(/\Aneverblock: reload: the program can't be started again; this one goes on: #{reason}/, told)
        assert_equal 1, status
        assert_match(/error: the program can't be started again; this one goes on: .*#{reason}/, served.errors)
        assert_equal ["first", "failed", true], [served.body("/"), stats(served).dig("load", "result"), ready?(served)]
        File.write(path, good)
        assert_match(/\Areload: the app has been loaded/, served.command("reload"))
        assert_equal "first", served.body("/")
        served.stop
      ensure
        taken&.close
      end
    end
  end

  def test_the_error_log_says_why_a_worker_has_not_become_ready
    serve(2, "error_log 'error.log'\n#{HEALTH}after_fork { raise 'no fork' if File.exist?('nofork') }\n", listens: false) do |served|
      FileUtils.touch("#{served.folder}/nofork")
      served.signal(:USR1)
      log = -> { File.read("#{served.folder}/error.log") }
      served.until_true("its end") { log.call.include?("error: 0 of 2 workers have been replaced") }
      assert_match(/error: worker 0: RuntimeError: no fork \| .*neverblock\.rb:\d/, log.call)
      assert_match(/error: worker 0 \[\d+\] ended \(.*\) before it was ready: RuntimeError: no fork \(.*\); worker 0 \[\d+\] goes on/, log.call)
      assert_empty served.errors
    end
  end
end
