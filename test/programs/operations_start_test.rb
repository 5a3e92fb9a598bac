# frozen_string_literal: true

# slow: it starts servers (5 s)

require "test_helper"
require "support/operated"

# How a server begins: its configuration, pid file, word to systemd, and an app that can't be loaded.
class OperationsStartTest < Minitest::Test
  include NeverBlockTest::Operated

  def test_a_pid_file_of_a_running_server_is_respected
    serve(0, "pid_file 'server.pid'\n") do |served|
      assert_equal "#{served.pid}\n", File.read("#{served.folder}/server.pid")
      output = served.command("serve", "-p", "0")
      assert_match(/server.pid says that a server runs already, as process #{served.pid}\. Stop it, or name another/, output)
      served.signal(:TERM)
      served.wait
      refute_path_exists "#{served.folder}/server.pid"
    end
  end

  [0, 1].each do |workers|
    define_method(:"test_a_pid_file_that_was_left_behind_with_#{workers}_workers") do
      Dir.mktmpdir("nb") do |folder|
        File.write("#{folder}/server.pid", "#{Process.pid}\n")
        serve(workers, "pid_file '#{folder}/server.pid'\n") do |served|
          assert_equal "#{served.pid}\n", File.read("#{folder}/server.pid")
          served.signal(:USR2) if workers == 1
          served.until_true("the new program") { served.errors.include?("workers have been replaced") } if workers == 1
          assert_equal "#{served.pid}\n", File.read("#{folder}/server.pid")
          served.stop
          refute_path_exists "#{folder}/server.pid"
        end
      end
    end
  end

  # The loop ends in the child, and what follows it in the server's code.
  def test_a_forked_child_that_returns_from_the_app_disturbs_nothing
    Dir.mktmpdir("nb") do |folder|
      app = "run ->(_env) { (child = fork) && Process.wait(child) && [200, {}, [$?.inspect[/exit .*/]]] }"
      config = "workers 0\nbind 'unix://#{folder}/app'\nhealth 'unix://#{@health = "#{folder}/health"}'\npid_file '#{folder}/pid'\n"
      NeverBlockTest::ServeProcess.open(app, config:) do |served|
        served.addresses
        before = served.errors
        2.times { assert_equal "exit 0>", served.body("/") }
        assert_equal ["#{served.pid}\n", 200], [File.read("#{folder}/pid"), probe("/readyz").first]
        assert_equal before, served.errors
        served.stop
      end
    end
  end

  [0, 1].each do |workers|
    define_method(:"test_systemd_is_told_with_#{workers}_workers") do
      Dir.mktmpdir("nb") do |folder|
        notifications = Socket.new(:UNIX, :DGRAM)
        notifications.bind(Addrinfo.unix("#{folder}/notify"))
        told = -> { Timeout.timeout(NeverBlockTest::LIMIT) { notifications.recv(1_000) } }
        serve(workers, environment: {"NOTIFY_SOCKET" => "#{folder}/notify", "WATCHDOG_USEC" => "2000000"}) do |served|
          expected = ["READY=1\nMAINPID=#{served.pid}", "WATCHDOG=1"]
          texts = []
          texts |= [told.call] until texts.size == 2 # the watchdog may be told several times before a slow start ends
          assert_equal expected, texts.sort
          served.signal(:TERM)
          served.wait
          text = told.call until text == "STOPPING=1"
        end
      end
    end
  end

  def test_check_config
    Dir.mktmpdir("nb") do |folder|
      File.write("#{folder}/config.ru", "run nil")
      File.write("#{folder}/good.rb", "workers 2")
      File.write("#{folder}/bad.rb", "workers -2\n\nheadtimeout 3")
      assert_match(/is valid/, NeverBlockTest::ServeProcess.command(folder, "check-config", "-C", "good.rb"))
      mistakes = NeverBlockTest::ServeProcess.command(folder, "check-config", "-C", "bad.rb")
      assert_match(/^neverblock: bad\.rb:1: workers -2 is not a whole number, 0 or more and at most 1_000, or :auto.*\nbad\.rb:3: there is no directive headtimeout/, mistakes)
      File.write("#{folder}/homeless.rb", "workers 2\npid_file 'none/server.pid'\naccess_log :common, to: 'log'")
      assert_match(%r{^neverblock: homeless\.rb:2: pid_file "none/server\.pid": there is no folder /.*/none\. Make it}, NeverBlockTest::ServeProcess.command(folder, "check-config", "-C", "homeless.rb"))
      File.write("#{folder}/lost.rb", <<~RUBY)
        bind "unix:///nowhere/app.sock"
        pid_file "none/server.pid"
        control "none/control.sock"
        health "unix:///nowhere/health.sock"
        error_log "none/error.log"
        directory "current"
        sidecar "bin/none", "no-such-program --now"
      RUBY
      told = NeverBlockTest::ServeProcess.command(folder, "check-config", "-C", "lost.rb")
      {
        1 => %r{bind "unix:///nowhere/app\.sock": there is no folder /nowhere}, 2 => %r{pid_file "none/server\.pid": there is no folder /.*/none}, 3 => /control "none/,
        4 => /health "unix/, 5 => /error_log "none/, 6 => %r{directory "current": there is no directory /.*/current}, 7 => /sidecar "no-such-program --now": there is no program no-such-program in PATH/
      }.each { |line, words| assert_match(/lost\.rb:#{line}: #{words}/, told) }
      assert_match(%r{sidecar "bin/none": there is no program /.*bin/none that}, told)
      assert_equal 64, $?.exitstatus
      assert_equal 8, told.lines.size, told
      File.write("#{folder}/long.rb", "control '#{"a" * 120}'")
      assert_match(/\Aneverblock: long\.rb:1: control "a+": the path \/.*a has \d+ bytes, and a socket's can have 103\. Choose a shorter one\. For example/, NeverBlockTest::ServeProcess.command(folder, "check-config", "-C", "long.rb"))
    end
  end

  def test_an_app_that_can_not_be_loaded_ends_a_cluster_at_once
    NeverBlockTest::ServeProcess.open("raise 'no way'", config: "workers 2\nbind 'tcp://127.0.0.1:0'\n") do |served|
      assert_equal 1, served.wait.exitstatus
      assert_match(/neverblock: config.ru can't be loaded\n.*no way \(RuntimeError\)/m, served.errors)
    end
  end
end
