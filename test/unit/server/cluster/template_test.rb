# frozen_string_literal: true

# slow: it starts Ruby

require "test_helper"
require "json"

# A template and its workers as processes; a program of the test stands for the supervisor. It prints what they tell.
class ClusterTemplateTest < Minitest::Test
  include NeverBlockTest::Helpers

  # A supervisor's end of a template, whose app is given.
  SUPERVISOR = <<~RUBY
    require "neverblock/server"
    require "neverblock/server/cluster/template"
    require "neverblock/server/cluster/supervisor"
    require "tmpdir"
    $stdout.sync = true
    Cluster = NeverBlock::Server::Cluster
    FOLDER = Dir.mktmpdir("nb")
    at_exit { FileUtils.rm_rf(FOLDER) if Process.pid == MAIN }
    MAIN = Process.pid
    APP = ->(env) { [200, {}, ["worker of \#{Process.ppid}"]] }
    SOCKET = Socket.new(:INET, :STREAM).tap { |socket| socket.bind(Addrinfo.tcp("127.0.0.1", 0)) && socket.listen(10) }

    def template(workers: 1, **more, &load)
      configuration = NeverBlock::Server::Configuration.new
      {shutdown_timeout: 20, error_log: "\#{FOLDER}/error.log", workers:, pid_file: "\#{FOLDER}/pid", **more}.each { |name, value| configuration.set(name, value) }
      ours, theirs = Cluster::Channel.pair
      pid = fork do
        ours.close
        exit!(Cluster::Template.new(theirs, Cluster::Sockets.new({SOCKET.fileno => "tcp://127.0.0.1:0"}), configuration, &load).run)
      end
      theirs.close
      [ours, pid]
    end

    # @return [Channel] the supervisor's end of a worker
    def worker(channel, slot)
      ours, theirs = Cluster::Channel.pair
      channel.send({do: "fork", slot:}, theirs.io)
      theirs.close
      ours
    end

    # The next message that is no pulse.
    def told(channel)
      message, = channel.receive
      message && (message[:event] == "pulse") ? told(channel) : message
    end

    def log = File.read("\#{FOLDER}/error.log")
  RUBY

  def test_it_forks_workers_that_serve_and_reports_their_ends
    assert_equal <<~TEXT, run_supervisor(<<~RUBY)
      loaded
      forked 3 true
      ready true
      HTTP/1.1 200 OK, worker of the template
      []
      ["reopened", []]
      over true
      left 0
      ended pid exit 0
      0
    TEXT
      NeverBlock::Server::Balance.prepend(Module.new { def leave(entry) = super.tap { puts "left \#{entry}" } })
      channel, pid = template { APP }
      puts told(channel)[:event]
      worker = worker(channel, 3)
      forked = told(channel)
      puts [forked[:event], forked[:slot], forked[:pid] > 0].join(" ")
      ready = told(worker)
      puts [ready[:event], ready[:pid] == forked[:pid]].join(" ")
      client = TCPSocket.new("127.0.0.1", SOCKET.local_address.ip_port)
      client << "GET / HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n"
      answer = client.read.lines
      puts [answer.first.strip, answer.last.sub(pid.to_s, "the template")].join(", ")
      channel.send({do: "rehearse", held: {}})
      p told(channel)[:failures]
      channel.send({do: "reopen"})
      worker.send({do: "reopen"})
      p told(worker).values_at(:event, :failures)
      worker.send({do: "stop", timeout: 20})
      puts told(worker).values_at(:event, :whole).join(" ")
      p :more if told(worker)
      ended = told(channel)
      puts [ended[:event], ended[:status].sub(ended[:pid].to_s, "").squeeze(" ")].join(" ")
      channel.send({do: "end"})
      p Process.wait2(pid).last.exitstatus
    RUBY
  end

  def test_a_worker_whose_hook_fails_says_so
    assert_equal "failed RuntimeError: no fork\nended 1\nover true, and the log has: no goodbye\n", run_supervisor(<<~RUBY)
      failing = {after_fork: [->(*) { raise "no fork" unless File.exist?("\#{FOLDER}/fork") }], before_worker_exit: [->(*) { raise "no goodbye" }]}
      channel, pid = template(**failing) { APP }
      told(channel)
      worker = worker(channel, 0)
      puts told(worker).values_at(:event, :message).join(" ").sub(/ \\(.*/, "")
      puts told(channel).then { |message| message[:event] == "forked" ? told(channel) : message }.then { |ended| "ended \#{ended[:status][/exit (\\d+)/, 1]}" }
      File.write("\#{FOLDER}/fork", "")
      worker = worker(channel, 0)
      nil until told(worker)[:event] == "ready"
      worker.send({do: "stop", timeout: 20})
      puts told(worker).values_at(:event, :whole).join(" ") + ", and the log has: \#{log[/no goodbye/]}"
      channel.send({do: "end"})
      Process.wait(pid)
    RUBY
  end

  # As an app does that starts programs of its own.
  def test_workers_whose_status_the_app_has_taken_have_ended
    assert_equal "[\"ended\", nil]\n" * 2 + "0\n", run_supervisor(<<~RUBY)
      channel, pid = template do
        trap("CHLD", "IGNORE") # the kernel reaps all
        APP
      end
      told(channel)
      2.times do |slot|
        worker = worker(channel, slot)
        forked = told(channel)
        nil until told(worker)[:event] == "ready"
        Process.kill(:KILL, forked[:pid])
        p told(channel).values_at(:event, :status)
      end
      channel.send({do: "end"})
      p Process.wait2(pid).last.exitstatus
    RUBY
  end

  def test_an_app_that_can_not_be_loaded
    {
      'raise "no way"' => /\Afailed .*no way \(RuntimeError\).* 1\n\z/m, "exit" => /\Afailed the app has called exit \(.*\) 0\n\z/, 'raise SystemExit.new(3, "gone")' => /\Afailed the app has called abort: gone/,
      'raise NeverBlock::Server::AppError, "config.ru is no app"' => "failed config.ru is no app 1\n", 'require "no/such"' => /\Afailed .*LoadError/m,
      "def deep = deep; deep" => /\Afailed .*stack level too deep \(SystemStackError\).* 1\n\z/m
    }.each do |load, words|
      said = run_supervisor(<<~RUBY)
        channel, pid = template { begin; #{load}; end }
        puts [*told(channel).values_at(:event, :message), Process.wait2(pid).last.exitstatus].join(" ")
      RUBY
      assert_operator words, :===, said, load
    end
  end

  # The sockets are free at once.
  def test_a_template_that_is_dismissed_while_it_loads
    assert_equal "1\n", run_supervisor(<<~RUBY)
      channel, pid = template { sleep }
      channel.send({do: "end"})
      p Process.wait2(pid).last.exitstatus
    RUBY
  end

  def test_a_single_process_takes_no_supervisor_s_place
    assert_equal "workers 0 makes it a single process, which can't replace a supervisor: stop and start it\n", run_supervisor(<<~RUBY)
      channel, pid = template(workers: 0) { APP }
      told(channel)
      channel.send({do: "rehearse", held: {}})
      puts told(channel)[:failures]
      channel.send({do: "end"})
      Process.wait(pid)
    RUBY
  end

  # The channels end with the supervisor.
  def test_without_a_supervisor_the_workers_finish
    assert_equal "0 true\n", run_supervisor(<<~RUBY)
      channel, pid = template { APP }
      told(channel)
      worker = worker(channel, 0)
      nil until told(worker)[:event] == "ready"
      [channel, worker].each(&:close)
      puts [Process.wait2(pid).last.exitstatus, log.match?(/the supervisor \\[\#{Process.pid}\\] has gone: 1 of its workers finish their requests and end/)].join(" ")
    RUBY
  end

  private

  # @return [String] what it printed
  def run_supervisor(code) = assert_ruby("#{SUPERVISOR}\n#{code}")
end
