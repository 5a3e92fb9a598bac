# frozen_string_literal: true

# slow: it starts the demo, whose waits last as long as they say (60 s)

require "test_helper"
require "io/console"
require "json"
require "pty"
require "tempfile"
require_relative "../../demo/back_end"
require_relative "../../demo/proxied_report"
require_relative "../../demo/rails_app"

# bin/demo for its users, in its quick form: on a terminal, into a pipe, with few descriptors, interrupted, and with a
# claim that fails. bin/setup, which runs first, has tests of its own.
class DemoTest < Minitest::Test
  include NeverBlockTest::Helpers

  MAIN = File.join(NeverBlockTest::ROOT, "demo", "main.rb")
  RUBY = [RbConfig.ruby, "-w", "-I#{File.join(NeverBlockTest::ROOT, "lib")}"].freeze
  COMMAND = [*RUBY, MAIN].freeze
  LIMIT = 180 # seconds for one run, which takes about ten

  # Skips the scenes with Rails and Active Record, as if their gems were not installed: they take longer than all
  # others.
  WITHOUT_RAILS = <<~RUBY
    require #{File.join(NeverBlockTest::ROOT, "demo", "rails_app.rb").dump}
    Demo::RailsApp.send(:remove_const, :GEMFILE)
    Demo::RailsApp::GEMFILE = "/nowhere/gemfile"
  RUBY

  def test_into_a_pipe_it_prints_plain_lines_and_ends_well
    output, errors, status = demo("--quick")
    assert_empty errors
    assert status.success?, output
    refute_match(/[\e\r]/, output)
    assert_operator output.lines.map { |line| line.chomp.size }.max, :<=, 80
    assert_match(/^1\. 20 requests/, output)
    assert_match(/^  Measured on 3, extrapolated: 20 would take (?:[5-9]|\d\d+)\.\d\d s\.$/, output)
    assert_match(/^  NeverBlock +20 +20 of 20 +1 /, output)
    assert_match(/^  NeverBlock +200 +200 of 200 +1 /, output)
    assert_match(/^  answered +200 of 200$/, output)
    assert_match(/^  processes, threads +1, 1$/, output)
    assert_match(/^  without +200 +200\* +30 of 30 /, output)
    assert_match(/^  with the cache +200 +1 +200 of 200 /, output)
    unless Demo::ProxiedReport.missing
      assert_match(/^  --collapse=off +200 +200\* +20 of 20 /, output)
      assert_match(/^  --collapse=same-url +200 +1 +200 of 200 /, output)
    end
    if (missing = Demo::RailsApp.missing)
      assert_includes output, "Passed over: #{missing}"
    else
      connections = /(?:[1-9]|1[0-2])/ # a busy machine may open them one after the other
      assert_match(/^  NeverBlock  10 of 10 +1 +#{connections} /, output)
      assert_match(/^  Puma        10 of 10 +5 +#{connections} /, output)
      assert_match(/^  postgresql +200 of 200 +1 +#{connections} /, output)
      assert_match(/^  neverblock_postgresql +200 of 200 +1 +#{connections} /, output)
    end
    assert_equal 11, output.scan(" done at ").size
    assert_match(/^Every answer was right/, output)
  end

  def test_a_rails_app_that_waits_for_connections_is_a_failure
    missing = Demo::RailsApp.missing and skip missing
    outcome = scene(:rails, 'Demo::RailsApp::SERVERS["NeverBlock"][:adapter] = "postgresql"')
    assert_equal 1, outcome.status.exitstatus, outcome.stderr
    assert_match(/Rails opened 5 connections under NeverBlock, no more than the 5 of Rails'\s+pool/, outcome.stdout)
  end

  # A quarter of the time that they would take one after the other: 5 s, and with each repetition twice as long.
  def test_rails_requests_that_are_late_each_time_are_a_failure
    {[2.5, 2.5, 5.0] => [1, 2], [2.5, 2.0] => [0, 1], [2.5, 2.5, 4.5] => [0, 2]}.each do |seconds, (status, repeated)|
      outcome = scene(:rails, <<~RUBY)
        def (Demo::RailsApp).missing = nil
        times = #{seconds}
        waits = [0.5, 1.0, 2.0]
        Demo::RailsServing.define_method(:run) do |delay|
          delay == waits.shift or abort "a wait of \#{delay} s"
          requests = Demo::Requests::Result.new(way: "Rails", asked: 10, right: 10, seconds: times.shift)
          {"NeverBlock" => 10, "Puma" => 5}.transform_values { |connections| Demo::RailsServing::Outcome.new(requests, 1, connections) }
        end
      RUBY
      assert_equal status, outcome.status.exitstatus, outcome.stdout + outcome.stderr
      assert_equal repeated, outcome.stdout.scan(/^  Asked again, /).size, outcome.stdout
      assert_equal status, outcome.stdout.scan(/^  - 10 requests to a Rails app took 5\.00 s under NeverBlock, 20\.00 s one after/).size, outcome.stdout
    end
  end

  def test_a_rails_app_that_does_not_start_is_a_failure_with_what_it_said
    missing = Demo::RailsApp.missing and skip missing
    outcome = scene(:rails, 'Demo::RailsApp::SERVERS["Puma"][:adapter] = "oracle_of_delphi"')
    assert_equal 1, outcome.status.exitstatus, outcome.stderr
    assert_match(/oracle_of_delphi/, outcome.stdout)
    assert_match(/^  - the Rails app or its PostgreSQL did not run: its message is above$/, outcome.stdout)
  end

  def test_without_the_gems_of_rails_its_scene_is_passed_over
    outcome = scene(:rails, WITHOUT_RAILS)
    assert_empty outcome.stderr
    assert outcome.status.success?, outcome.stdout
    assert_match(/^  Passed over: .+ not installed/, outcome.stdout)
  end

  # A disturbed run is repeated, with longer waits; the result doesn't depend on the machine's pace.
  def test_fast_queries_that_wait_for_slow_ones_are_a_failure
    {[2.5, 2.5, 2.5] => [1, 2], [2.5, 0.5] => [0, 1]}.each do |seconds, (status, repeated)|
      outcome = scene(:queries, <<~RUBY)
        def (Demo::RailsApp).missing = nil
        times = #{seconds}
        Demo::Queries.define_method(:run) do
          {"pool" => 1.5, "shared" => times.shift}.to_h { |way, seconds| [way, Demo::Queries::Outcome.new(way, 9, 9, seconds, 3.0, 1, 12)] }
        end
      RUBY
      assert_equal status, outcome.status.exitstatus, outcome.stderr
      assert_equal repeated, outcome.stdout.scan(/^  Asked again, /).size, outcome.stdout
      assert_equal status, outcome.stdout.scan(/the fast queries took 2\.50 s on shared connections,\s+1\.50 s on a pool of as\s+many/).size, outcome.stdout
    end
  end

  # The basis of the claim: on a pool, fast queries wait until a sleeping one has ended.
  def test_fast_queries_are_told_from_those_that_wait
    missing = Demo::RailsApp.missing and skip missing
    looks = []
    told = [2.5, 5, 10, 10].any? do |pause| # a busy machine takes longer for the fast ones, or begins them first
      looks << seconds = fast_after(pause)
      seconds["pool"] >= pause && seconds["shared"] < seconds["pool"]
    end
    assert told, "fast queries did not wait for sleeping ones on a pool alone: #{looks}"
  end

  def fast_after(pause)
    JSON.parse(assert_ruby(<<~RUBY, limit: LIMIT))
      require #{File.join(NeverBlockTest::ROOT, "demo", "tour.rb").dump}
      Demo::Database.open do |database|
        outcomes = Demo::Queries.new(Demo::Screen.new(File.open(File::NULL, "w")), database, count: 200, pause: #{pause}).run
        puts JSON.generate(outcomes.transform_values(&:fast_after))
      end
    RUBY
  end

  def test_an_active_record_program_that_does_not_start_is_a_failure_with_what_it_said
    missing = Demo::RailsApp.missing and skip missing
    outcome = scene(:queries, adapters({"pool" => "oracle_of_delphi"}))
    assert_equal 1, outcome.status.exitstatus, outcome.stderr
    assert_match(/oracle_of_delphi/, outcome.stderr)
    assert_match(/the Active Record program or its PostgreSQL did not run/, outcome.stdout)
  end

  def test_on_a_terminal_it_draws_in_place
    output = +""
    PTY.spawn({"TERM" => "xterm"}, *RUBY, "-e", "#{WITHOUT_RAILS}load ARGV.shift", MAIN, "--quick") do |terminal, _, pid|
      terminal.winsize = [24, 80]
      read_terminal(terminal, output)
      assert wait_for(pid).success?, output
    end
    assert_includes output, "\e[11A", "the table is drawn over itself"
    assert_operator output.gsub(/\e\[\d*[A-Za-z]/, "").split(/[\r\n]+/).map(&:size).max, :<=, 80
    assert_match(/Every answer was right/, output)
  end

  def test_it_raises_a_soft_limit_of_open_files
    output, errors, status = limited("ulimit -S -n 100")
    assert_empty errors
    assert status.success?, output
    assert_match(/ulimit -n raised from 100 to \d+ for this run/, output)
    assert_match(/^  NeverBlock +200 +200 of 200 +1 /, output)
  end

  def test_with_a_low_hard_limit_it_says_so_and_runs_with_what_it_has
    output, errors, status = limited("ulimit -n 150")
    assert_empty errors
    assert status.success?, output
    assert_match(/ulimit -n cannot be raised above 150: 86 at once\s+instead of 200/, output)
    assert_match(/^  NeverBlock +86 +86 of 86 +1 /, output)
  end

  def test_an_interrupt_ends_it_and_its_server
    Open3.popen3(*COMMAND, "--quick", pgroup: true) do |input, output, errors, process|
      input.close
      Timeout.timeout(LIMIT) { nil until output.gets.start_with?("1.") }
      Process.kill(:INT, -process.pid)
      # The server shares this pipe: its end is the end of both.
      message = Timeout.timeout(LIMIT) { errors.read }
      assert_equal "\ninterrupted\n", message
      assert_equal 130, process.value.exitstatus
    end
  end

  def test_wrong_answers_are_a_failure
    lying = Tempfile.create(["lying_server", ".rb"])
    lying.write(<<~RUBY)
      require #{File.join(NeverBlockTest::ROOT, "demo", "slow_server.rb").dump}
      class LyingServer < Demo::SlowServer
        def answer(connection)
          connection.target = "/else" if connection.target == "/7"
          super
        end
      end
      server = LyingServer.new(port: 0, delay: 0.25)
      puts "http://127.0.0.1:\#{server.port}/"
      $stdout.flush
      server.run(lifeline: $stdin)
    RUBY
    lying.close
    outcome = run_ruby(<<~RUBY, limit: LIMIT)
      require #{File.join(NeverBlockTest::ROOT, "demo", "tour.rb").dump}
      Demo::BackEnd.send(:remove_const, :SERVER)
      Demo::BackEnd::SERVER = #{lying.path.dump}
      #{WITHOUT_RAILS}
      exit Demo::Tour.new(quick: true).run
    RUBY
    assert_empty outcome.stderr
    assert_equal 1, outcome.status.exitstatus
    assert_match(/^What was claimed did NOT hold here:$/, outcome.stdout)
    assert_match(%r{NeverBlock: 19 of 20 answers were right; first trouble: request 7\s+brought}, outcome.stdout)
  ensure
    File.delete(lying.path) if lying
  end

  def test_a_report_that_is_computed_twice_behind_the_cache_is_a_failure
    outcome = report(<<~RUBY)
      Demo::Report.define_method(:run) do |way, clients:, cache:|
        Demo::Report::Outcome.new(way, clients, clients, cache ? 2 : clients, [0.5] * clients)
      end
    RUBY
    assert_equal 1, outcome.status.exitstatus, outcome.stderr
    assert_match(/^  - with the cache: the app was asked 2 times for one report$/, outcome.stdout)
  end

  # The clients expect another report than the servers make.
  def test_a_wrong_report_is_a_failure
    outcome = report(<<~RUBY)
      text = Demo::Report.method(:text)
      Demo::Report.define_singleton_method(:text) { |number| text.call(number) + "and more" }
    RUBY
    assert_equal 1, outcome.status.exitstatus, outcome.stderr
    assert_match(/^  - without: 0 of 30 answers were right; first trouble: a client had 200 with\s+\d+ wrong bytes$/, outcome.stdout)
    assert_match(/^  - with the cache: 0 of 40 answers were right/, outcome.stdout)
  end

  def test_a_proxy_that_asks_the_app_twice_is_a_failure
    outcome = report(<<~RUBY, scene: :proxied_report)
      def (Demo::ProxiedReport).missing = nil
      Demo::ProxiedReport.define_method(:run) do |way, clients:, options: []|
        Demo::Report::Outcome.new(way, clients, clients, options.empty? ? clients : 2, [0.5] * clients)
      end
    RUBY
    assert_equal 1, outcome.status.exitstatus, outcome.stderr
    assert_match(/^  - --collapse=same-url: the app was asked 2 times for one report$/, outcome.stdout)
  end

  def test_without_the_language_of_the_other_app_its_scene_is_passed_over
    outcome = report(<<~RUBY, scene: :proxied_report)
      Demo::ProxiedReport.send(:remove_const, :LANGUAGE)
      Demo::ProxiedReport::LANGUAGE = "no_such_language"
    RUBY
    assert outcome.status.success?, outcome.stdout
    assert_match(/^  Passed over: no_such_language is not installed\.$/, outcome.stdout)
  end

  def test_unknown_options_are_refused
    output, errors, status = demo("--slow")
    assert_empty output
    assert_match(/invalid option: --slow/, errors)
    assert_match(/Usage: bin\/demo/, errors)
    assert_equal 1, status.exitstatus
  end

  def test_the_server_ends_with_the_process_that_started_it
    program = <<~RUBY
      require #{File.join(NeverBlockTest::ROOT, "demo", "back_end.rb").dump}
      Demo::BackEnd.open(delay: 1) { puts "up"; $stdout.flush; sleep }
    RUBY
    Open3.popen3(RbConfig.ruby, "-e", program) do |_, output, errors, process|
      assert_equal "up\n", output.gets
      Process.kill(:KILL, process.pid)
      assert_empty Timeout.timeout(LIMIT) { errors.read }
    end
  end

  def test_the_server_counts_and_answers_each_request_after_its_wait
    Demo::BackEnd.open(delay: 0) do |back_end|
      started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      threads = ["/a?wait=0.4", "/b?wait=0.2", "/c"].map { |target| Thread.new { Net::HTTP.get(back_end.uri(target)) } }
      assert_equal ["you asked for /a?wait=0.4", "you asked for /b?wait=0.2", "you asked for /c"], threads.map(&:value)
      assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - started, :>=, 0.4
      assert_equal 3, back_end.stats["served"]
    end
  end

  private

  def demo(*arguments, command: COMMAND)
    Open3.popen3(*command, *arguments) do |input, output, errors, process|
      input.close
      readers = [output, errors].map { |io| Thread.new { io.read } }
      unless process.join(LIMIT)
        Process.kill(:KILL, process.pid)
        flunk "the demo ran longer than #{LIMIT} s:\n#{readers.map(&:value).join}"
      end
      [*readers.map(&:value), process.value]
    end
  end

  # @param limits [String] what the shell does before
  def limited(limits)
    demo("--quick", command: ["sh", "-c", "#{limits}; exec \"$@\"", "sh", *RUBY, "-e", "#{WITHOUT_RAILS}\nload #{MAIN.dump}", "--"])
  end

  # A scene with a database alone, after a change of its constants.
  def scene(name, change)
    run_ruby(<<~RUBY, limit: LIMIT)
      require #{File.join(NeverBlockTest::ROOT, "demo", "tour.rb").dump}
      #{change}
      tour = Demo::Tour.new(quick: true)
      Demo::Database.open { |database| tour.send(#{name.inspect}, database) }
      exit tour.send(:verdict)
    RUBY
  end

  # The scene of the cache alone, or of the proxy, for 40 clients.
  def report(change, scene: :report)
    run_ruby(<<~RUBY, limit: LIMIT)
      require #{File.join(NeverBlockTest::ROOT, "demo", "tour.rb").dump}
      #{change}
      tour = Demo::Tour.new(quick: true)
      tour.send(#{scene.inspect}, Demo::OpenFiles::Room.new(40))
      exit tour.send(:verdict)
    RUBY
  end

  def adapters(names) = "Demo::Queries.send(:remove_const, :ADAPTERS)\nDemo::Queries::ADAPTERS = #{names.inspect}.freeze"

  # Linux ends a terminal whose other side is gone by EIO.
  def read_terminal(terminal, output)
    Timeout.timeout(LIMIT) { loop { output << terminal.readpartial(4096) } }
  rescue EOFError, Errno::EIO
    nil
  end

  def wait_for(pid) = Timeout.timeout(LIMIT) { Process.wait2(pid).last }
end
