# frozen_string_literal: true

# slow: it starts clusters (40 s)

require "test_helper"
require "fileutils"
require "support/cluster/bundled_releases"
require "support/cluster/deploys"
require "support/cluster/kills"
require "support/operated_app"
require "support/serve_process"

# Several processes: their replacement and their ends, and the requests in the meantime.
class ClusterTest < Minitest::Test
  include NeverBlockTest::Clock

  CONFIG = "workers 2\nbind 'tcp://127.0.0.1:0'\n"

  def test_workers_share_one_address
    cluster do |served|
      pids = Array.new(30) { served.body("/pid").to_i }.uniq
      assert_equal 2, served.workers.size
      assert_empty pids - served.workers # the kernel decides which
      assert_equal "[]", served.body("/env")
      served.stop
      assert_match(/info: stopped$/, served.errors)
      served.until_true("the end of all") { served.children.empty? }
    end
  end

  # Clients that connect one by one and stay: in some of its modes, the kernel would give all of them to one worker.
  NeverBlock::Scheduler.backends.each do |engine|
    define_method(:"test_workers_share_connections_on_#{engine}") do
      cluster(environment: {"NEVERBLOCK_ENGINE" => engine}) do |served|
        kept, holders = [], Hash.new(0)
        until holders.size == 2 && holders.values.min >= 10
          assert_operator kept.size, :<, 400, "the workers' shares: #{holders}"
          kept << socket = served.connect
          socket << "GET /pid HTTP/1.1\r\nHost: a\r\n\r\n"
          holders[socket.readpartial(4_096)[/\r\n\r\n(\d+)/, 1]] += 1
        end
      ensure
        kept&.each(&:close)
      end
    end
  end

  def test_a_killed_worker_costs_its_connections_alone
    cluster do |served|
      victim, other = served.workers
      kept = served.connect
      kept << "GET /pid HTTP/1.1\r\nHost: a\r\n\r\n"
      holder = kept.readpartial(4_096)[/\r\n\r\n(\d+)/, 1].to_i
      doomed = (holder == victim) ? other : victim # on the other worker
      Process.kill(:KILL, doomed)
      served.until_true("another worker") { (served.workers - [victim, other]).any? && served.workers.size == 2 }
      kept << "GET /pid HTTP/1.1\r\nHost: a\r\n\r\n"
      assert_equal holder, kept.readpartial(4_096)[/\r\n\r\n(\d+)/, 1].to_i
      served.until_true("the log line") { served.errors.match?(/warn: worker \d \[#{doomed}\] ended \(.*SIGKILL.*\); another one is started/) }
    end
  end

  # 20 of each: test/long/operations_test.rb
  chaos "workers that are killed under load"
  def test_killed_workers_cost_what_they_had_accepted
    kills = NeverBlockTest::Kills.new(count: 3).call
    assert_empty kills.strays
    assert_equal kills.sent, kills.answered + kills.lost
    assert_operator kills.lost, :>, 0
  end

  %w[USR1 USR2].each do |name|
    define_method(:"test_deploys_by_#{name}_lose_nothing") do
      deploys = NeverBlockTest::Deploys.new(name, count: 3).call
      assert_empty deploys.lost
      assert_equal deploys.sent, deploys.answered
      assert_operator deploys.answered, :>, 100
      assert_equal 1, deploys.refused
    end

    define_method(:"test_#{name}_with_an_app_that_can_not_be_loaded_keeps_the_old_one") do
      cluster do |served|
        before = served.workers
        File.write("#{served.folder}/config.ru", "require 'no/such/library'")
        served.signal(name)
        served.until_true("the failure") { served.errors.match?(/can't be loaded again; the old one stays: .*no\/such\/library/m) }
        assert_equal before.sort, served.workers.sort
        assert_equal "first", served.body("/")
      end
    end
  end

  %w[USR1 USR2].each do |name|
    define_method(:"test_a_deploy_by_#{name}_has_the_gems_of_its_own_lock") do
      skip "the gems are known under bundle exec only" unless ENV["BUNDLE_GEMFILE"]
      releases = nil
      prepare = ->(folder) { (releases = NeverBlockTest::BundledReleases.new(folder, workers: 1)).publish("1.0") }
      NeverBlockTest::ServeProcess.open(prepare, **NeverBlockTest::BundledReleases.process) do |served|
        assert_equal "1.0", served.body("/")
        releases.publish("2.0")
        served.signal(name)
        served.until_true("the other version") { served.body("/") == "2.0" }
        releases.publish("3.0", broken: "no_such_gem")
        served.signal(name)
        served.until_true("the failure") { served.errors.include?("can't be loaded again; the old one stays") }
        assert_equal "2.0", served.body("/")
      end
    end
  end

  # Deployments may follow each other closely: the last one counts.
  def test_a_reload_that_is_asked_for_while_another_goes_on_is_done_afterwards
    cluster do |served|
      File.write("#{served.folder}/config.ru", "File.write('read', '')\nsleep 0.01 until File.exist?('go')\n" + NeverBlockTest::OperatedApp.text("second"))
      served.signal(:USR1)
      served.until_true("its beginning") { File.exist?("#{served.folder}/read") } # the file has been read, the app is still loading
      File.write("#{served.folder}/config.ru", NeverBlockTest::OperatedApp.text("third"))
      served.signal(:USR1)
      served.until_true("the log line") { served.errors.include?("the app is loaded once more, when this has been done") }
      File.write("#{served.folder}/go", "")
      served.until_true("the last app") { served.body("/") == "third" }
    end
  end

  def test_more_and_fewer
    cluster do |served|
      served.signal(:TTIN)
      served.until_true("a third worker") { served.workers.size == 3 }
      2.times do |count|
        served.signal(:TTOU)
        served.until_true("one less") { served.workers.size == 2 - count }
      end
      served.signal(:TTOU)
      served.until_true("the refusal") { served.errors.include?("one worker left") }
      assert_equal 1, served.workers.size
    end
  end

  def test_a_worker_that_is_sent_term_is_replaced
    cluster do |served|
      go = File.join(served.folder, "go")
      slow = Thread.new { served.body("/until?#{go}") }
      holder = served.until_true("the request") { served.workers.find { |pid| File.read("/proc/#{pid}/cmdline").include?(" 1 requests") } }
      Process.kill(:TERM, holder)
      served.until_true("its replacement") { (served.workers - [holder]).size == 2 }
      FileUtils.touch(go)
      assert_equal "first", slow.value
    end
  end

  def test_term_lets_requests_end_and_a_second_one_does_not
    cluster do |served|
      slow = served.connect
      slow << "GET /until?#{served.folder}/go HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
      served.until_true("the request") { served.workers.any? { |pid| File.read("/proc/#{pid}/cmdline").include?(" 1 requests") } }
      served.signal(:TERM)
      assert_nil slow.wait_readable(0.3), "an end of its own"
      FileUtils.touch("#{served.folder}/go")
      assert_match(/first\z/, slow.read)
      assert_equal 0, served.wait.exitstatus
    end
  end

  # The end of the supervisor, for example of a container, would also end workers that have been replaced and still
  # serve.
  {"USR1" => "2 of 2 workers have been replaced", "USR2" => "2 of 2 workers have been replaced", "TTOU" => nil}.each do |signal, done|
    define_method(:"test_the_end_waits_for_workers_that_leave_after_#{signal}") do
      cluster(config: "#{CONFIG}control 'control.sock'\n") do |served|
        before = served.workers
        slow = []
        requests = [] # of each worker: it says so once a second
        until requests.size == 2 && requests.min > 0
          assert_operator slow.size, :<, 60, "one worker gets none"
          10.times { slow << served.connect.tap { |socket| socket << "GET /until?#{served.folder}/go HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" } }
          served.until_true("the requests") { (requests = before.map { |pid| File.read("/proc/#{pid}/cmdline")[/ (\d+) requests/, 1].to_i }).sum == slow.size }
        end
        served.signal(signal)
        served.until_true("the replacement") { done ? served.errors.include?(done) : served.command("status").include?("leaving") }
        served.signal(:TERM)
        ended = Thread.new { served.wait.exitstatus.tap { @ended = now } }
        assert_nil ended.join(0.3), "it has not waited for them"
        FileUtils.touch("#{served.folder}/go")
        slow.each { |socket| assert_match(/first\z/, socket.read) }
        answered = now
        assert_equal 0, ended.value
        assert_operator @ended, :>, answered - 0.1
        assert_match(/info: stopped$/, served.errors)
      end
    end
  end

  def test_a_supervisor_that_is_killed_leaves_no_process
    cluster do |served|
      children = served.children
      served.signal(:KILL)
      served.wait
      served.until_true("the end of all", ended: true) { children.none? { |pid| File.exist?("/proc/#{pid}") } }
    end
  end

  def test_a_worker_that_stands_still_is_replaced_and_tells_where
    cluster(config: "#{CONFIG}worker_timeout 1.5\n") do |served|
      socket = served.connect
      socket << "GET /spin HTTP/1.1\r\nHost: a\r\n\r\n"
      served.until_true("its end") { served.errors.match?(/has been silent for \d+ s \(worker_timeout\)/) }
      served.until_true("its backtrace") { served.errors.match?(/backtrace: runs .*loop.* config\.ru:6:in /) }
      served.until_true("another one") { served.errors.include?("another one is started") && served.workers.size == 2 }
      assert_equal "first", served.body("/")
    end
  end

  def test_hooks
    config = "#{CONFIG}before_fork { warn \"before \#{Process.pid}\" }\nafter_fork { |number| warn \"after \#{number}\" }\nbefore_worker_exit { |number| warn \"exit \#{number}\" }\n"
    cluster(config:) do |served|
      served.until_true("hooks") { served.errors.scan(/^after (\d)$/).flatten.sort == %w[0 1] }
      assert_equal 1, served.errors.scan(/^before/).size
      served.stop
      assert_equal %w[0 1], served.errors.scan(/^exit (\d)$/).flatten.sort
    end
  end

  def test_probes_and_commands
    cluster(config: "#{CONFIG}health 'tcp://127.0.0.1:0'\ncontrol 'control.sock'\npid_file 'server.pid'\n") do |served|
      assert_equal served.pid, File.read("#{served.folder}/server.pid").to_i
      assert_equal 0o600, File.stat("#{served.folder}/control.sock").mode & 0o777
      output = served.command("status")
      assert_match(/^serving, pid #{served.pid}, version/, output)
      assert_equal 2, output.scan(/^  worker \d/).size
      before = served.workers
      assert_match(/: 2 of 2 workers have been replaced/, served.command("reload"))
      served.until_true("other workers") { served.workers.size == 2 && (served.workers & before).empty? }
      assert_match(/stop: stopped/, served.command("stop"))
      assert_equal 0, served.wait.exitstatus
      refute_path_exists "#{served.folder}/server.pid"
      assert_match(/no server answers at/, served.command("status"))
    end
  end

  private

  def cluster(config: CONFIG, **)
    NeverBlockTest::ServeProcess.open(NeverBlockTest::OperatedApp.text, config:, **) do |served|
      served.addresses
      yield served
    end
  end
end
