# frozen_string_literal: true

# slow: it starts servers

require "test_helper"
require "support/serve_process"
require "open3"

# A server with a Puma configuration, started as by a user of Puma.
class FromPumaTest < Minitest::Test
  APP = <<~RUBY
    run ->(env) {
      case env["PATH_INFO"]
      when "/hooks" then [200, {}, [$hooks.inspect]]
      when "/env" then [200, {}, [[ENV["RACK_ENV"], env["rack.url_scheme"], Dir.pwd].join(" ")]]
      when "/raise" then raise "no such item"
      else [200, {}, ["here"]]
      end
    }
  RUBY

  def test_hooks_in_workers
    serve(<<~RUBY) do |served|
      workers 2
      threads 3, 3
      bind "tcp://127.0.0.1:0"
      $hooks = []
      before_fork { |*given| $hooks << [:before_fork, given] }
      on_worker_boot(:pool) { |number, data| $hooks << [:boot, number, data] }
      before_worker_shutdown { |number| File.write("left.\#{number}", "") }
      on_booted { raise "never" }
    RUBY
      answers = Array.new(2) { |number| "[[:before_fork, [nil]], [:boot, #{number}, {}]]" }
      served.until_true("an answer") { answers.include?(served.get("/hooks")[/\[\[.*/]) }
      served.stop
      assert_equal %w[left.0 left.1], Dir.children(served.folder).grep(/left/).sort
      notes = served.errors.scan(/info: (config\/puma\.rb:\d+: .*)$/).flatten
      assert_equal [1, 2, 3, 5, 6, 7, 8], notes.map { |note| note[/:(\d+):/, 1].to_i }
      assert_includes notes, "config/puma.rb:7: before_worker_shutdown { }: here before_worker_exit, where there are workers"
    end
  end

  def test_what_is_around_the_app_and_where_it_is
    serve(<<~RUBY) do |served|
      bind "tcp://127.0.0.1:0"
      directory "app"
      rackup "web.ru"
      environment "staging"
      rack_url_scheme "https"
      lowlevel_error_handler { |error, env, status| [status, {"x-handled" => env["PATH_INFO"]}, ["sorry: \#{error.message}"]] }
      pidfile "server.pid"
      activate_control_app "unix://control.sock"
    RUBY
      assert_match(/staging https #{Regexp.escape(File.realpath(served.folder))}\/app\z/, served.get("/env"))
      answer = served.get("/raise")
      assert_match(/\AHTTP\/1\.1 500 /, answer)
      assert_match(/^x-handled: \/raise\r$/, answer)
      assert_match(/sorry: no such item\z/, answer)
      assert_match(/no such item \(RuntimeError\)/, served.errors)
      assert_equal served.pid, File.read("#{served.folder}/app/server.pid").to_i
      assert_match(/^serving, pid #{served.pid}/, command(served.folder, "status", "-C", "config/puma.rb").first)
      command(served.folder, "stop", "-C", "config/puma.rb")
      assert_equal 0, served.wait.exitstatus
    end
  end

  # Puma's plugin works in a single process too, and so does ours.
  [0, 1].each do |workers|
    define_method(:"test_solid_queue_runs_beside_#{workers}_workers") do
      jobs = %(#!#{RbConfig.ruby}\ntrap("TERM") { File.write("jobs.ended", ""); exit }\nFile.write("jobs.tmp", "\#{Process.pid} \#{ENV["RACK_ENV"]}")\n) +
        %(File.rename("jobs.tmp", "jobs.begun")\nsleep\n)
      serve("workers #{workers}\nport 0, '127.0.0.1'\nenvironment 'staging'\nplugin :solid_queue\n", "bin/jobs" => jobs) do |served|
        served.addresses
        begun = "#{served.folder}/jobs.begun"
        first, name = served.until_true("the sidecar") { File.exist?(begun) && File.read(begun).split }
        assert_equal "staging", name
        assert_includes served.errors, "plugin :solid_queue: here sidecar \"bin/jobs\""
        File.delete(begun)
        Process.kill(:KILL, first.to_i)
        served.until_true("another one") { File.exist?(begun) }
        served.stop
        assert_path_exists "#{served.folder}/jobs.ended"
      end
    end
  end

  def test_check_config_says_what_becomes_of_each_word
    in_folder("threads 3, 3\nport 3000, '::1'\nssl_bind '0.0.0.0', 9292\nqueue_requests false\n") do |folder|
      out, err, status = command(folder, "check-config", "-C", "config/puma.rb")
      assert_equal [0, ""], [status.exitstatus, err]
      assert_equal <<~TEXT, out.gsub(/(?<=sets nothing:|left out:|Needs nothing:) .*/, "").sub(/^.* threads want this machine's .*\n/, "")
        config/puma.rb:1: threads 3, 3: sets nothing:
        config/puma.rb:2: port 3000, "::1": here bind "tcp://[::1]:3000"
        config/puma.rb:3: ssl_bind "0.0.0.0", 9292: left out:
        config/puma.rb:4: queue_requests false: Needs nothing:
        the configuration is valid: tcp://[::1]:3000, config.ru
      TEXT
    end
  end

  def test_ours_can_follow_and_another_name_can_be_given
    in_folder("threads 3\nport 1, '127.0.0.1'\n", "web.rb" => "tag 'web'\n", "config/neverblock.rb" => "bind 'tcp://127.0.0.1:2'\n") do |folder|
      assert_match(/valid: tcp:\/\/127\.0\.0\.1:2,/, command(folder, "check-config", "-C", "config/puma.rb", "-C", "config/neverblock.rb").first)
      assert_match(/valid: tcp:\/\/127\.0\.0\.1:1,/, command(folder, "check-config", "--puma", "web.rb", "--config=config/puma.rb").first)
      _, err, status = command(folder, "check-config", "-C", "web.rb", "--puma", "config/neverblock.rb")
      assert_equal 0, status.exitstatus, err # Puma knows tag and bind too
    end
  end

  def test_an_error_ends_the_start
    in_folder("\nworkres 2\n") do |folder|
      _, err, status = command(folder, "serve", "-C", "config/puma.rb")
      assert_equal 64, status.exitstatus
      assert_match(/\Aneverblock: config\/puma\.rb:2: Puma has no directive workres\. Did you mean workers\?/, err)
    end
    in_folder("ssl_bind '0.0.0.0', 9292\n") do |folder|
      _, err, status = command(folder, "serve", "-C", "config/puma.rb")
      assert_equal 64, status.exitstatus
      assert_match(/no address is left to listen on/, err)
      assert_equal 0, command(folder, "check-config", "-C", "config/puma.rb", "-p", "0").last.exitstatus
    end
  end

  def test_an_app_in_the_file
    serve("app { |env| [200, {}, ['mine']] }\nbind 'tcp://127.0.0.1:0'\n", "config.ru" => nil) { |served| assert_match(/mine\z/, served.get("/")) }
  end

  private

  def serve(puma, files = {}, &)
    NeverBlockTest::ServeProcess.open(APP, "-C", "config/puma.rb", "-C", "config/neverblock.rb", config: "drain_delay 0",
      files: {"config/puma.rb" => puma, "app/web.ru" => APP, **files}, &)
  end

  def in_folder(puma, files = {})
    Dir.mktmpdir("nb") do |folder|
      NeverBlockTest::ServeProcess.write(folder, "config/puma.rb" => puma, "config.ru" => APP, **files)
      yield folder
    end
  end

  def command(folder, *arguments)
    Open3.capture3(RbConfig.ruby, "-w", "-I", File.join(NeverBlockTest::ROOT, "lib"), File.join(NeverBlockTest::ROOT, "exe", "neverblock"),
      *arguments, chdir: folder)
  end
end
