# frozen_string_literal: true

# slow: it starts servers (40 s)

require "test_helper"
require "support/accounting"
require "support/operated_app"
require "support/prometheus_text"
require "support/serve_process"
require "json"

# An operator's commands and requests to a server, with workers and without.
class OperationsTest < Minitest::Test
  [0, 2].each do |workers|
    define_method(:"test_probes_with_#{workers}_workers") do
      serve(workers, "drain_delay 1.5\n") do |served|
        assert_equal [200, "live\n"], probe(served, "/livez")
        served.until_true("readiness") { probe(served, "/readyz") == [200, "ready\n"] }
        assert_equal 404, probe(served, "/").first
        stats = JSON.parse(probe(served, "/stats").last, symbolize_names: true)
        assert_equal({state: "serving", pid: served.pid, version: NeverBlock::VERSION, addresses: served.addresses.map { |uri| uri.sub("http:", "tcp:") }},
          stats.slice(:state, :pid, :version, :addresses))
        assert_equal [workers, 1].max, stats[:workers].size
        served.signal(:TERM)
        served.until_true("no readiness") { probe(served, "/readyz").first == 503 }
        assert_equal 200, probe(served, "/livez").first
        assert_match(/first\z/, served.get("/")) # still accepting
        assert_equal 0, served.wait.exitstatus, served.errors
      end
    end

    define_method(:"test_metrics_with_#{workers}_workers") do
      serve(workers) do |served|
        3.times { served.get("/") }
        served.until_true("the requests") { metrics(served)["neverblock_requests_answered_total"] == 3 }
        all = metrics(served)
        assert_equal [[workers, 1].max, 1, 1], [all["neverblock_workers", state: "serving"], all["neverblock_live"], all["neverblock_ready"]]
        assert_equal "counter", all.types["neverblock_requests_total"]
        assert_operator all["neverblock_worker_memory_bytes", worker: 0], :>, 1_000_000
        assert_operator all["neverblock_loop_switches_total", worker: 0, loop: 0], :>, 0
        assert_operator all["neverblock_pool_threads_limit", pool: "offload"], :>, 0
      end
    end

    define_method(:"test_a_second_term_cuts_the_delay_and_the_requests_with_#{workers}_workers") do
      serve(workers, "drain_delay 60\nshutdown_timeout 60\n") do |served|
        held = served.connect
        held << "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"
        served.until_true("the request") { stats(served)[:workers].sum { |worker| worker.dig(:stats, :in_flight).to_i } == 1 }
        served.signal(:TERM)
        served.until_true("no readiness") { probe(served, "/readyz").first == 503 }
        served.signal(:TERM)
        assert_match(%r{\AHTTP/1.1 503 }, held.read)
        assert_equal 1, served.wait.exitstatus
        assert_match(/stopped; running requests were cancelled/, served.errors)
      end
    end

    define_method(:"test_commands_with_#{workers}_workers") do
      serve(workers, "control 'control.sock'\n") do |served|
        assert_equal 0o600, File.stat("#{served.folder}/control.sock").mode & 0o777
        assert_match(/^serving, pid #{served.pid}, version #{NeverBlock::VERSION}, at tcp:/, served.command("status"))
        assert_equal "serving", JSON.parse(served.command("status", "--json"))["state"]
        assert_equal ["stop: stopped\n", 0], served.order("stop")
        refute_predicate served, :running?
        assert_equal 0, served.wait.exitstatus
        assert_match(/no server answers at control.sock/, served.command("status"))
      end
    end

    define_method(:"test_stop_waits_for_running_requests_with_#{workers}_workers") do
      serve(workers, "control 'control.sock'\npid_file 'server.pid'\n") do |served|
        held = served.connect
        held << "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"
        served.until_true("the request") { stats(served)[:workers].sum { |worker| worker.dig(:stats, :in_flight).to_i } == 1 }
        order = Thread.new { served.order("stop") }
        served.until_true("the drain") { stats(served)[:state] == "draining" }
        assert_predicate order, :alive?
        assert_equal ["stop: begun; the error log will have the result\n", 0], served.order("stop", "--no-wait") # the second request doesn't shorten the delay
        assert_nil held.wait_readable(0.1)
        assert_predicate order, :alive?
        assert_equal ["stop: begun; the error log will have the result\n", 0], served.order("stop", "--no-wait", "--now")
        assert_equal ["stop: stopped; running requests were cancelled\n", 1], order.value
        refute_path_exists "#{served.folder}/server.pid"
        refute_predicate served, :running?
      end
    end

    # Tools that send TERM by themselves and then wait have asked once.
    define_method(:"test_a_stop_of_what_is_being_stopped_cuts_no_delay_short_with_#{workers}_workers") do
      serve(workers, "control 'control.sock'\ndrain_delay 600\n") do |served|
        served.signal(:TERM)
        served.until_true("no readiness") { probe(served, "/readyz").first == 503 }
        waiting = Array.new(2) { UNIXSocket.new("#{served.folder}/control.sock").tap { |socket| socket << "POST /stop HTTP/1.0\r\nContent-Length: 0\r\n\r\n" } }
        assert_equal ["stop: begun; the error log will have the result\n", 0], served.order("stop", "--no-wait")
        assert_match(/first\z/, served.get("/")) # still accepting
        assert(waiting.none? { |socket| socket.wait_readable(0) })
        assert_equal ["stop: stopped\n", 0], served.order("stop", "--now")
        waiting.each { |socket| assert_match(/ 200 OK.*\n\r?\nstopped\n\z/m, socket.read) }
      ensure
        waiting&.each(&:close)
      end
    end

    define_method(:"test_stop_now_cancels_what_runs_with_#{workers}_workers") do
      serve(workers, "control 'control.sock'\ndrain_delay 600\n") do |served|
        held = served.connect
        held << "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"
        served.until_true("the request") { stats(served)[:workers].sum { |worker| worker.dig(:stats, :in_flight).to_i } == 1 }
        assert_equal ["stop: stopped; running requests were cancelled\n", 1], served.order("stop", "--now")
      end
    end

    %w[reload restart].each do |command|
      define_method(:"test_#{command}_waits_until_the_new_app_serves_with_#{workers}_workers") do
        serve(workers, "control 'control.sock'\n") do |served|
          File.write("#{served.folder}/config.ru", "sleep 0.5\n#{NeverBlockTest::OperatedApp.text("second")}")
          said = (workers == 0) ? "the app has been loaded" : "2 of 2 workers have been replaced"
          assert_equal ["#{command}: #{said}\n", 0], served.order(command)
          assert_equal "second", served.body("/")
          assert_equal({result: "loaded", message: said}, stats(served)[:load].except(:at))
          assert_equal ["#{command}: begun; the error log will have the result\n", 0], served.order(command, "--no-wait")
        end
      end

      define_method(:"test_#{command}_tells_why_the_app_can_not_be_loaded_with_#{workers}_workers") do
        serve(workers, "control 'control.sock'\n") do |served|
          File.write("#{served.folder}/config.ru", "raise 'no way'")
          output, status = served.order(command)
          assert_equal 1, status
          next assert_match(/neverblock: #{command}: the server has ended\. Its error log/, output) if workers == 0
          assert_match(/neverblock: #{command}: the app can't be loaded again; the old one stays: config\.ru can't be loaded.*no way/m, output)
          assert_match(/\Aserving, .*\nthe last load failed \(\d{4}-\S+Z\): .*no way/, served.command("status"))
          assert_equal 1, metrics(served)["neverblock_last_load_failed"]
        end
      end
    end

    define_method(:"test_stop_of_a_server_that_is_killed_with_#{workers}_workers") do
      serve(workers, "control 'control.sock'\n") do |served|
        held = served.connect
        held << "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"
        served.until_true("the request") { stats(served)[:workers].sum { |worker| worker.dig(:stats, :in_flight).to_i } == 1 }
        order = Thread.new { served.order("stop") }
        served.until_true("the drain") { stats(served)[:state] == "draining" }
        served.signal(:KILL)
        output, status = order.value
        assert_match(/\Aneverblock: (the server at .* has ended without a response|no server answers at .*reset)/, output)
        assert_equal 1, status
      end
    end

    define_method(:"test_hup_opens_the_logs_again_with_#{workers}_workers") do
      serve(workers, "access_log :common, to: 'access.log'\n") do |served|
        log = "#{served.folder}/access.log"
        served.get("/")
        served.until_true("a line") { File.size(log) > 0 }
        File.rename(log, "#{log}.1")
        served.signal(:HUP)
        served.until_true("a new file") { File.exist?(log) }
        served.until_true("a line in it") { served.get("/") && File.size(log) > 0 }
      end
    end
  end

  # The folder was renamed, as by a rotation of the whole folder.
  [0, 2].each do |workers|
    define_method(:"test_reopen_tells_how_it_went_with_#{workers}_workers") do
      serve(workers, "access_log :common, to: 'log/access.log'\ncontrol 'control.sock'\n", files: {"log/.keep" => ""}) do |served|
        old, log = %w[log.1/access.log log/access.log].map { |name| "#{served.folder}/#{name}" }
        served.until_true("readiness") { probe(served, "/readyz").first == 200 }
        File.rename(log, "#{log}.1")
        assert_equal ["reopen: the logs have been opened again\n", 0], served.order("reopen")
        assert_path_exists log
        File.rename("#{served.folder}/log", "#{served.folder}/log.1")
        output, status = served.order("reopen")
        assert_match(%r{\Aneverblock: reopen: the log log/access.log can't be written: No such file[^\n]*Its old file stays open\n\z}, output)
        assert_equal 1, status
        served.signal(:HUP)
        served.until_true("the error log") { served.errors.scan("Its old file stays open").size == 2 * ((workers == 0) ? 1 : workers + 2) } # in each process
        before = File.size(old)
        served.until_true("a line where it was") { served.get("/") && File.size(old) > before }
        assert_predicate served, :running?
      end
    end
  end

  %w[USR1 USR2].each do |name|
    define_method(:"test_#{name}_starts_a_single_process_anew_and_loses_nothing") do
      serve(0) do |served|
        slow = Thread.new { served.get("/sleep?1") }
        served.until_true("the request") { stats(served)[:workers].first.dig(:stats, :in_flight) == 1 }
        accounting = NeverBlockTest::Accounting.new(served.port, clients: 4).start
        served.until_true("the old app's responses") { accounting.bodies.key?("first") }
        File.write("#{served.folder}/config.ru", NeverBlockTest::OperatedApp.text("second"))
        served.signal(name)
        served.until_true("the new app's answers") { accounting.bodies.key?("second") }
        accounting.stop
        assert_empty accounting.lost
        assert_equal %w[first second], accounting.bodies.keys
        assert_match(/first\z/, slow.value)
        served.stop
      end
    end
  end

  def test_commands_while_the_app_is_loaded_anew
    serve(2, "control 'control.sock'\n") do |served|
      File.write("#{served.folder}/config.ru", "File.write('loading', '')\nsleep 0.01 until File.exist?('go')\n#{NeverBlockTest::OperatedApp.text("second")}")
      orders = Array.new(2) { Thread.new { served.order("reload") } }
      served.until_true("the load") { File.exist?("#{served.folder}/loading") && served.errors.include?("loaded once more") }
      assert_equal "loading", stats(served)[:load][:result]
      File.write("#{served.folder}/go", "")
      assert_equal [["reload: 2 of 2 workers have been replaced\n", 0]] * 2, orders.map(&:value)
      File.unlink("#{served.folder}/go")
      order = Thread.new { served.order("restart") }
      served.until_true("the load") { stats(served)[:load][:result] == "loading" }
      served.signal(:TERM)
      assert_equal ["neverblock: restart: the server is being stopped\n", 1], order.value
      assert_equal 0, served.wait.exitstatus
    end
  end

  def test_workers_that_can_not_be_replaced_are_told
    serve(1, "control 'control.sock'\nafter_fork { raise 'no fork' if File.exist?('nofork') }\n") do |served|
      File.write("#{served.folder}/nofork", "")
      assert_equal ["neverblock: reload: 0 of 1 workers have been replaced; the error log tells why\n", 1], served.order("reload")
      Process.kill(:KILL, pids(served).first)
      served.until_true("its end") { pids(served).empty? }
      output, status = served.order("status")
      assert_equal 1, status
      assert_match(/\Adown, pid #{served.pid}/, output)
      File.unlink("#{served.folder}/nofork")
      served.until_true("another one") { served.order("status").last == 0 }
    end
  end

  def test_help_of_commands_tells_what_must_be_known
    %w[reload restart].each { |command| assert_match(/With workers 0 .* can't be loaded, it ends\./, NeverBlockTest::ServeProcess.command(Dir.pwd, command, "--help")) }
    assert_match(/--now +cancel running requests.*the command only waits/m, NeverBlockTest::ServeProcess.command(Dir.pwd, "stop", "--help"))
  end

  def test_a_loop_that_stands_still_is_seen
    serve(0, "worker_timeout 1\n") do |served|
      socket = served.connect
      socket << "GET /stand HTTP/1.1\r\nHost: a\r\n\r\n"
      served.until_true("the alarm") { probe(served, "/livez").first == 503 && stats(served)[:state] == "down" }
      served.until_true("its end") { probe(served, "/livez").first == 200 }
    end
  end

  def test_workers_are_recycled_after_so_many_requests
    serve(2, "recycle requests: 50\n") do |served|
      before = pids(served)
      accounting = NeverBlockTest::Accounting.new(served.port).start
      served.until_true("others") { pids(served).size == 2 && (pids(served) & before).empty? }
      accounting.stop
      assert_empty accounting.lost
      assert_match(/worker \d \[\d+\] has answered \d+ requests: it is replaced/, served.errors)
    end
  end

  def test_a_full_worker_takes_no_connections_while_another_has_room
    serve(2, "max_in_flight 3\nqueue limit: 100, max_wait: 30\n") do |served|
      held = Array.new(6) do |count|
        served.connect.tap do |socket|
          socket << "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"
          served.until_true("the request") { stats(served)[:workers].sum { |worker| worker.dig(:stats, :in_flight).to_i + worker.dig(:stats, :queued).to_i } == count + 1 }
        end
      end
      assert_equal [3, 3], stats(served)[:workers].map { |worker| worker.dig(:stats, :in_flight) }
      waiting = served.connect # both are full now, so both accept
      waiting << "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
      served.until_true("its place in a queue") { stats(served)[:workers].sum { |worker| worker.dig(:stats, :queued) } == 1 }
      held.each(&:close)
      waiting.close
      served.signal(:TERM)
      served.until_true("no readiness") { probe(served, "/readyz").first == 503 }
      served.signal(:TERM)
      served.wait
    end
  end

  [0, 1].each do |workers|
    define_method(:"test_sidecars_with_#{workers}_workers") do
      serve(workers, "sidecar %q(sh -c 'echo $$ $RACK_ENV >> pids; exec sleep 60')\n") do |served|
        path = "#{served.folder}/pids"
        served.until_true("its start") { File.exist?(path) && File.read(path).lines.size == 1 }
        assert_match(/\A\d+ development\n\z/, File.read(path))
        Process.kill(:KILL, File.read(path).to_i)
        served.until_true("its next start") { File.read(path).lines.size == 2 }
        served.stop
        assert_raises(Errno::ESRCH) { Process.kill(0, File.read(path).lines.last.to_i) }
        assert_match(/warn: sidecar sh -c .* ended \(.*SIGKILL.*\); it is started again/, served.errors)
      end
    end

    # As with a worker: no process is left.
    define_method(:"test_a_killed_server_takes_its_sidecar_along_with_#{workers}_workers") do
      skip "this system does not tell a process of its parent's end" unless RUBY_PLATFORM.include?("linux")
      serve(workers, "sidecar %q(sh -c 'echo $$ >> pids; exec sleep 60')\n") do |served|
        path = "#{served.folder}/pids"
        served.until_true("its start") { File.exist?(path) && File.read(path).lines.size == 1 }
        served.signal(:KILL)
        served.until_true("its end") { gone?(File.read(path).to_i) }
      end
    end

    define_method(:"test_a_sidecar_that_is_not_there_with_#{workers}_workers") do
      serve(workers, "sidecar 'bin/none'\n") do |served|
        served.until_true("the log line") { served.errors.include?("error: sidecar bin/none can't be started: No such file or directory") }
        assert_match(/200 OK/, served.get("/"))
        served.stop
      end
    end

    define_method(:"test_what_the_app_prints_is_written_at_once_with_#{workers}_workers") do
      serve(workers) do |served|
        served.get("/print")
        served.until_true("what was printed") { served.output.include?("printed\n") }
      end
    end
  end

  def test_a_sidecar_is_started_anew_with_a_single_process
    serve(0, "sidecar %q(sh -c 'echo $$ >> pids; exec sleep 60')\n") do |served|
      path = "#{served.folder}/pids"
      served.until_true("its start") { File.exist?(path) && File.read(path).lines.size == 1 }
      served.signal(:USR2)
      served.until_true("its next start") { File.read(path).lines.size == 2 }
      assert_raises(Errno::ESRCH) { Process.kill(0, File.read(path).lines.first.to_i) }
      served.stop
    end
  end

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

  [0, 1].each do |workers|
    define_method(:"test_systemd_is_told_with_#{workers}_workers") do
      Dir.mktmpdir("nb") do |folder|
        notifications = Socket.new(:UNIX, :DGRAM)
        notifications.bind(Addrinfo.unix("#{folder}/notify"))
        told = -> { Timeout.timeout(20) { notifications.recv(1_000) } }
        serve(workers, environment: {"NOTIFY_SOCKET" => "#{folder}/notify", "WATCHDOG_USEC" => "2000000"}) do |served|
          texts = Array.new(2) { told.call }
          assert_equal ["READY=1\nMAINPID=#{served.pid}", "WATCHDOG=1"], texts.sort
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

  [0, 1].each do |workers|
    define_method(:"test_a_health_port_that_is_taken_with_#{workers}_workers") do
      taken = TCPServer.new("127.0.0.1", 0)
      config = "workers #{workers}\nbind 'tcp://127.0.0.1:0'\nhealth 'tcp://127.0.0.1:#{taken.local_address.ip_port}'\n"
      NeverBlockTest::ServeProcess.open(NeverBlockTest::OperatedApp.text, config:) do |served|
        assert_equal 1, served.wait.exitstatus
        assert_match(%r{\Aneverblock: health tcp://127.0.0.1:\d+: Address already in use[^\n]*\. Stop the process that listens there[^\n]*\n\z}, served.errors)
      end
    ensure
      taken&.close
    end
  end

  # Silent clients, incomplete heads, and clients that never read: more than the health port has room for.
  [0, 1].each do |workers|
    define_method(:"test_probes_are_answered_whatever_clients_do_with_#{workers}_workers") do
      serve(workers) do |served|
        served.until_true("its first probe") { probe(served, "/readyz").first == 200 }
        kinds = ["", "GET /livez HT", "POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", "GET /stats HTTP/1.1\r\nHost: a\r\n\r\n" * 500]
        clients = Array.new(280) { |n| UNIXSocket.new(@health).tap { |socket| socket.write_nonblock(kinds[n % 4], exception: false) unless kinds[n % 4].empty? } }
        assert_equal [[200, "live\n"], [200, "ready\n"]], %w[/livez /readyz].map { |path| probe(served, path) }
      ensure
        clients&.each(&:close)
      end
    end
  end

  private

  def serve(workers, more = "", environment: {}, files: {})
    Dir.mktmpdir("nb") do |folder|
      @health = "#{folder}/health"
      config = "workers #{workers}\nbind 'tcp://127.0.0.1:0'\nhealth 'unix://#{@health}'\n#{more}"
      NeverBlockTest::ServeProcess.open(NeverBlockTest::OperatedApp.text, config:, environment:, files:) do |served|
        served.addresses
        yield served
      end
    end
  end

  # @return [Array(Integer, String)] status and body
  # A zombie counts as gone.
  def gone?(pid)
    File.read("/proc/#{pid}/stat")[/\) (\S)/, 1] == "Z"
  rescue Errno::ENOENT
    true
  end

  def probe(_served, path)
    socket = UNIXSocket.new(@health)
    socket.timeout = 10
    socket << "GET #{path} HTTP/1.0\r\n\r\n"
    head, body = socket.read.split("\r\n\r\n", 2)
    [head[/\d{3}/].to_i, body]
  rescue Errno::ENOENT, Errno::ECONNREFUSED
    [0, ""]
  ensure
    socket&.close
  end

  def stats(served) = JSON.parse(probe(served, "/stats").last, symbolize_names: true)

  def metrics(served) = NeverBlockTest::PrometheusText.new(probe(served, "/metrics").last)

  def pids(served) = stats(served)[:workers].select { |worker| worker[:state] == "serving" }.map { |worker| worker[:pid] }
end
