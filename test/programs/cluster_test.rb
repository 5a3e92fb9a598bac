# frozen_string_literal: true

require "test_helper"
require "support/accounting"
require "support/serve_process"

# Several processes: what becomes of them, and of the requests meanwhile.
class ClusterTest < Minitest::Test
  APP = <<~RUBY
    body = File.exist?("body") ? File.read("body") : "first"
    run ->(env) {
      case env["PATH_INFO"]
      when "/pid" then [200, {}, [Process.pid.to_s]]
      when "/second" then sleep(3) && [200, {}, ["slept"]]
      when "/spin" then loop {}
      when "/env" then [200, {}, [ENV.keys.grep(/NEVERBLOCK_(?:TEMPLATE|SUCCESSION|BOOT)|NOTIFY/).inspect]]
      else [200, {}, [body]]
      end
    }
  RUBY
  CONFIG = "workers 2\nbind 'tcp://127.0.0.1:0'\n"

  def test_workers_share_one_address
    cluster do |served|
      pids = Array.new(30) { body(served, "/pid").to_i }.uniq
      assert_equal 2, workers(served).size
      assert_empty pids - workers(served) # which of them, the kernel decides
      assert_equal "[]", body(served, "/env")
      served.signal(:TERM)
      assert_equal 0, served.wait.exitstatus, served.errors
      assert_match(/info: stopped$/, served.errors)
      served.until_true("the end of all") { children(served).empty? }
    end
  end

  def test_a_killed_worker_costs_its_connections_alone
    cluster do |served|
      victim, other = workers(served)
      kept = served.connect
      kept << "GET /pid HTTP/1.1\r\nHost: a\r\n\r\n"
      holder = kept.readpartial(4_096)[/\r\n\r\n(\d+)/, 1].to_i
      doomed = (holder == victim) ? other : victim # not ours
      Process.kill(:KILL, doomed)
      served.until_true("another worker") { (workers(served) - [victim, other]).any? && workers(served).size == 2 }
      kept << "GET /pid HTTP/1.1\r\nHost: a\r\n\r\n"
      assert_equal holder, kept.readpartial(4_096)[/\r\n\r\n(\d+)/, 1].to_i
      served.until_true("what is said of it") { served.errors.match?(/info: worker \d \[#{doomed}\] ended \(.*SIGKILL.*\); another one is started/) }
    end
  end

  %w[USR1 USR2].each do |name|
    define_method(:"test_#{name}_loses_nothing") do
      cluster do |served|
        accounting = NeverBlockTest::Accounting.new(served.port).start
        3.times do |round|
          before = workers(served)
          File.write("#{served.folder}/body", "round #{round}")
          served.signal(name)
          served.until_true("other workers") { workers(served).size == 2 && (workers(served) & before).empty? }
          served.until_true("the new app's answers") { accounting.bodies.key?("round #{round}") }
        end
        accounting.stop
        assert_empty accounting.lost
        assert_operator accounting.answered, :>, 100
        served.signal(:TERM)
        assert_equal 0, served.wait.exitstatus, served.errors
      end
    end

    define_method(:"test_#{name}_with_an_app_that_can_not_be_loaded_keeps_the_old_one") do
      cluster do |served|
        before = workers(served)
        File.write("#{served.folder}/config.ru", "require 'no/such/library'")
        served.signal(name)
        served.until_true("the failure") { served.errors.match?(/can't be loaded anew; the old one goes on: .*no\/such\/library/m) }
        assert_equal before.sort, workers(served).sort
        assert_equal "first", body(served, "/")
      end
    end
  end

  def test_more_and_fewer
    cluster do |served|
      served.signal(:TTIN)
      served.until_true("a third worker") { workers(served).size == 3 }
      2.times do |count|
        served.signal(:TTOU)
        served.until_true("one less") { workers(served).size == 2 - count }
      end
      served.signal(:TTOU)
      served.until_true("the refusal") { served.errors.include?("one worker left") }
      assert_equal 1, workers(served).size
    end
  end

  def test_a_worker_that_is_sent_term_is_replaced
    cluster do |served|
      before = workers(served)
      slow = Thread.new { body(served, "/second") }
      Process.kill(:TERM, before.first)
      served.until_true("its replacement") { workers(served).size == 2 && !workers(served).include?(before.first) }
      assert_equal "slept", slow.value
    end
  end

  def test_term_lets_requests_end_and_a_second_one_does_not
    cluster do |served|
      slow = served.connect
      slow << "GET /second HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
      served.until_true("the request") { workers(served).any? { |pid| File.read("/proc/#{pid}/cmdline").include?(" 1 requests") } }
      served.signal(:TERM)
      assert_match(/slept\z/, slow.read)
      assert_equal 0, served.wait.exitstatus
    end
  end

  def test_a_supervisor_that_is_killed_leaves_nobody
    cluster do |served|
      everybody = children(served)
      served.signal(:KILL)
      served.wait
      served.until_true("the end of all", ended: true) { everybody.none? { |pid| File.exist?("/proc/#{pid}") } }
    end
  end

  def test_a_worker_that_stands_still_is_replaced_and_tells_where
    cluster(config: "#{CONFIG}worker_timeout 1.5\n") do |served|
      socket = served.connect
      socket << "GET /spin HTTP/1.1\r\nHost: a\r\n\r\n"
      served.until_true("its end") { served.errors.match?(/has said nothing for \d+ s \(worker_timeout\)/) }
      served.until_true("its backtrace") { served.errors.match?(/backtrace: runs .*loop.* config\.ru:6:in /) }
      served.until_true("another one") { served.errors.include?("another one is started") && workers(served).size == 2 }
      assert_equal "first", body(served, "/")
    end
  end

  def test_hooks
    config = "#{CONFIG}before_fork { warn \"before \#{Process.pid}\" }\nafter_fork { |number| warn \"after \#{number}\" }\nbefore_worker_exit { |number| warn \"exit \#{number}\" }\n"
    cluster(config:) do |served|
      served.until_true("hooks") { served.errors.scan(/^after (\d)$/).flatten.sort == %w[0 1] }
      assert_equal 1, served.errors.scan(/^before/).size
      served.signal(:TERM)
      assert_equal 0, served.wait.exitstatus
      assert_equal %w[0 1], served.errors.scan(/^exit (\d)$/).flatten.sort
    end
  end

  def test_probes_and_commands
    cluster(config: "#{CONFIG}health 'tcp://127.0.0.1:0'\ncontrol 'control.sock'\npid_file 'server.pid'\n") do |served|
      assert_equal served.pid, File.read("#{served.folder}/server.pid").to_i
      assert_equal 0o600, File.stat("#{served.folder}/control.sock").mode & 0o777
      output = command(served, "status")
      assert_match(/^serving, pid #{served.pid}, version/, output)
      assert_equal 2, output.scan(/^  worker \d/).size
      before = workers(served)
      assert_match(/begun/, command(served, "reload"))
      served.until_true("other workers") { workers(served).size == 2 && (workers(served) & before).empty? }
      assert_match(/begun/, command(served, "stop"))
      assert_equal 0, served.wait.exitstatus
      refute_path_exists "#{served.folder}/server.pid"
      assert_match(/no server answers at/, command(served, "status"))
    end
  end

  private

  def cluster(config: CONFIG, &)
    NeverBlockTest::ServeProcess.open(APP, config:) do |served|
      served.addresses
      yield served
    ensure
      pids = children(served)
      served.kill
      pids.each { |pid| Process.kill(:KILL, pid) rescue Errno::ESRCH } # standard:disable Style/RescueModifier
    end
  end

  def body(served, path) = served.get(path).split("\r\n\r\n", 2).last

  # Every process below the supervisor: template and workers.
  def children(served, of = served.pid)
    below = Dir["/proc/[0-9]*/stat"].filter_map do |path|
      pid, rest = File.read(path).match(/\A(\d+) \(.*\) (.*)/m).captures
      pid.to_i if rest.split[1].to_i == of && rest[0] != "Z"
    rescue SystemCallError
      nil
    end
    below + below.flat_map { |pid| children(served, pid) }
  end

  def workers(served)
    children(served).select { |pid| File.read("/proc/#{pid}/cmdline").match?(/: worker \d/) }
  rescue SystemCallError
    retry # one has just ended
  end

  def command(served, name)
    library = File.join(NeverBlockTest::ROOT, "lib")
    IO.popen([RbConfig.ruby, "-I#{library}", File.join(NeverBlockTest::ROOT, "exe", "neverblock"), name, chdir: served.folder, err: %i[child out]], &:read)
  end
end
