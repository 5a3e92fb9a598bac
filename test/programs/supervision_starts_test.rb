# frozen_string_literal: true

# slow: it starts servers

require "test_helper"
require "fileutils"
require "support/supervised"

# Processes that can't be started, don't become ready, or hang: a server recovers from that.
class SupervisionStartsTest < Minitest::Test
  include NeverBlockTest::Supervised

  # Seconds of a limit that is waited for, and that the start of a busy machine's servers keeps below.
  BOOT = 10

  # A failed deployment: for a while, the link to the release has no target.
  [0, 2].each do |workers|
    %w[USR1 USR2].each do |name|
      define_method(:"test_#{name}_where_the_directory_has_gone_ends_nothing_with_#{workers}_workers") do
        prepare = lambda do |folder|
          FileUtils.mkdir_p("#{folder}/release/config")
          File.write("#{folder}/release/config.ru", NeverBlockTest::OperatedApp.text)
          File.write("#{folder}/release/config/neverblock.rb", "workers #{workers}\nbind 'tcp://127.0.0.1:0'\ndirectory #{folder.dump} + '/current'\n")
          File.symlink("#{folder}/release", "#{folder}/current")
          "#{folder}/release"
        end
        NeverBlockTest::ServeProcess.open(prepare, gems: false) do |served|
          served.addresses
          File.unlink("#{served.folder}/current")
          2.times do |count|
            served.signal(name)
            served.until_true("the log line") { served.errors.scan(/can't be started: No such file.*current|there is no directory \S+current/).size > count }
            assert_equal "first", served.body("/")
          end
          File.symlink("#{served.folder}/release", "#{served.folder}/current")
          served.signal(name)
          served.until_true("its success") { served.errors.scan((workers.zero? || name == "USR2") ? "info: NeverBlock " : "workers have been replaced").size == ((name == "USR1" && workers > 0) ? 1 : 2) }
          served.until_true("an answer") { answers?(served) }
          served.stop
        end
      end
    end
  end

  # A deployment has removed the release from which the server was started.
  [0, 1].each do |workers|
    define_method(:"test_a_server_whose_own_folder_has_gone_goes_on_and_can_be_restarted_with_#{workers}_workers") do
      prepare = lambda do |folder|
        {"one" => "first", "two" => "second"}.each do |name, body|
          files = {"config.ru" => NeverBlockTest::OperatedApp.text(body), "config/neverblock.rb" => <<~RUBY}
            workers #{workers}
            bind "tcp://127.0.0.1:0"
            health "unix://#{folder}/health"
            pid_file "#{folder}/server.pid"
            directory "#{folder}/current"
          RUBY
          NeverBlockTest::ServeProcess.write("#{folder}/#{name}", files)
        end
        File.symlink("one", "#{folder}/current")
        "#{folder}/one"
      end
      NeverBlockTest::ServeProcess.open(prepare, gems: false) do |served|
        served.addresses
        FileUtils.rm_r("#{served.folder}/one")
        kill(served.workers)
        served.until_true("an answer") { answers?(served) }
        assert_equal "#{served.folder}/#{workers.zero? ? "one" : "current"}", stats(served)["directory"]
        File.symlink("two", "#{served.folder}/next")
        File.rename("#{served.folder}/next", "#{served.folder}/current")
        served.signal(:USR2)
        served.until_true("the new release") { answers?(served, "second") }
        refute_match(/getcwd/, served.errors)
        served.stop
      end
    end
  end

  def test_a_start_without_descriptors_is_tried_again
    skip "there is no prlimit on this system" unless system("prlimit", "--version", out: File::NULL, err: File::NULL)
    serve(1, "sidecar 'sleep 12345'\n") do |served|
      served.until_true("the sidecar") { sidecar(served) }
      limit = Process.getrlimit(:NOFILE).first
      limit_descriptors(served, 3)
      victims = {
        /worker 0 can't be started: Too many/ => served.workers.first,
        /sidecar sleep 12345 can't be started: Too many/ => sidecar(served),
        /the old one stays: its process can't be started: Too many/ => template(served) # last: an absent template is asked for no worker
      }
      victims.each do |failure, pid|
        kill([pid])
        served.until_true("what is said of it: #{failure}") { served.errors.match?(failure) }
      end
      limit_descriptors(served, limit)
      served.until_true("an answer") { answers?(served) }
      served.until_true("the sidecar") { sidecar(served) }
      served.stop
    end
  end

  def test_a_worker_that_does_not_become_ready_is_given_up
    serve(1, "boot_timeout #{BOOT}\nafter_fork { sleep if File.exist?('hang') }\n") do |served|
      FileUtils.touch("#{served.folder}/hang")
      kill(served.workers)
      served.until_true("its end") { served.errors.match?(/error: worker 0 \[\d+\] was not ready after #{BOOT} s \(boot_timeout\): it is given up$/o) }
      File.unlink("#{served.folder}/hang")
      served.until_true("an answer") { answers?(served) }
      served.stop
    end
  end

  def test_an_app_that_is_not_loaded_in_time
    serve(1, "boot_timeout #{BOOT}\n") do |served|
      File.write("#{served.folder}/config.ru", "sleep")
      served.signal(:USR1)
      served.until_true("the log line") { served.errors.match?(/error: the app can't be loaded again; the old one stays: the app in \S+ was not loaded within #{BOOT} s \(boot_timeout\)$/o) }
      assert_equal "first", served.body("/")
      served.stop
    end
  end

  def test_the_numbers_of_workers_after_a_restart_that_met_one_as_it_started
    serve(3, "#{HEALTH}after_fork { |number| sleep if number == 1 && File.exist?('hang') }\n") do |served|
      FileUtils.touch("#{served.folder}/hang")
      kill([stats(served)["workers"][1]["pid"]])
      served.until_true("another one") { served.errors.include?("worker 1") && served.children.size == 4 }
      served.signal(:USR2)
      served.until_true("the new program") { served.errors.include?("makes way") }
      File.unlink("#{served.folder}/hang")
      served.until_true("its workers") { served.errors.include?("3 of 3 workers have been replaced") }
      assert_equal [0, 1, 2], stats(served)["workers"].filter_map { |worker| worker["number"] if worker["state"] == "serving" }
      served.until_true("the end of all others, instead of #{served.children}") { served.children.size == 4 }
      served.stop
    end
  end

  def test_a_template_that_stands_still_is_replaced
    serve(1, "boot_timeout #{BOOT}\n") do |served|
      before = served.workers
      still = template(served).tap { |pid| Process.kill(:STOP, pid) }
      Process.kill(:TERM, before.first)
      served.until_true("its end") { served.errors.match?(/template \[#{still}\] ended \(.*SIGKILL.*\): .* the app is loaded again/) }
      served.until_true("a worker of another one") { served.workers.size == 1 && served.workers != before }
      served.until_true("an answer") { answers?(served) }
      served.stop
    end
  end

  # As with `docker pause`, or a debugger. The pause is longer than worker_timeout, which is longer than a busy machine
  # keeps workers silent.
  def test_a_supervisor_that_has_stood_still_holds_nothing_against_its_workers
    serve(2, "worker_timeout 4\n#{HEALTH}") do |served|
      before = served.workers
      served.signal(:STOP)
      sleep 5 # real: the supervisor's process stands still
      served.signal(:CONT)
      age = stats(served)["workers"].sum { |worker| worker["age"] }
      served.until_true("three seconds of all") { stats(served)["workers"].sum { |worker| worker["age"] } > age + 6 || served.workers != before }
      assert_equal before, served.workers
      refute_includes served.errors, "has said nothing"
    end
  end
end
