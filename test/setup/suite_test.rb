# frozen_string_literal: true

# slow: it starts whole test runs (30 s)

require "test_helper"
require "fileutils"
require "tmpdir"

# test/support/suite.rb: the closing line must never look better than the runs.
class SuiteTest < Minitest::Test
  include NeverBlockTest::Helpers

  def setup
    FileUtils.mkdir_p(File.join(NeverBlockTest::ROOT, "tmp"))
    @folder = Dir.mktmpdir("suite", File.join(NeverBlockTest::ROOT, "tmp"))
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def test_the_runs_are_added_up
    outcome = suite({"one" => "def test_a = assert(true)\n def test_b = skip", "two" => "def test_a = assert(true)"})
    assert_predicate outcome.status, :success?, outcome.stderr
    assert_equal "2 passed, 0 failed, 1 skipped", outcome.stdout.lines.last.chomp
  end

  def test_a_failing_test_fails_the_whole
    outcome = suite({"one" => "def test_a = assert(false)\n def test_b = assert(true)"})
    assert_equal 1, outcome.status.exitstatus
    assert_equal "1 passed, 1 failed, 0 skipped", outcome.stdout.lines.last.chomp
    failed = %r{^failed: one: OneTest#test_a: Expected false to be truthy\. \(seed (\d+); bin/ruby -Itest tmp/suite\S+/one_test\.rb -n 'OneTest#test_a' --seed (\d+); by itself it passes 0 of 3 times\)$}
    seeds = outcome.stdout.match(failed)&.captures
    assert seeds, outcome.stdout
    assert_equal 1, seeds.uniq.size
  end

  # It stays a failure; the reruns show whether it depends on other tests.
  def test_a_failed_test_is_rerun_by_itself
    path = File.join(@folder, "once")
    body = "def test_a\n first = !File.exist?(#{path.dump})\n File.write(#{path.dump}, '')\n refute(first, 'the first time')\n end\n def test_b = assert(false)"
    outcome = suite({"one" => body})
    assert_equal 1, outcome.status.exitstatus
    assert_equal "0 passed, 2 failed, 0 skipped", outcome.stdout.lines.last.chomp
    assert_match(/^failed: one: OneTest#test_a: the first time.*; by itself it passes 3 of 3 times\)$/, outcome.stdout)
    assert_match(/^failed: one: OneTest#test_b: .*; by itself it passes 0 of 3 times\)$/, outcome.stdout)
  end

  def test_a_run_that_dies_is_a_failure
    outcome = suite({"one" => "def test_a = exit!(0)", "two" => "def test_a = puts('the last words') || $stdout.flush && Process.kill(:KILL, Process.pid)"})
    assert_equal 1, outcome.status.exitstatus
    assert_match(/^failed: two: ended badly \(.*SIGKILL.*\): .*the last words$/, outcome.stdout)
    assert_match(/\A0 passed, [12] failed, 0 skipped\Z/, outcome.stdout.lines.last)
  end

  def test_a_run_that_hangs_is_killed_and_its_test_named
    outcome = suite({"one" => "def test_that_hangs = sleep"}, limit: 3)
    assert_equal 1, outcome.status.exitstatus
    assert_match(/^failed: one: did not end; the test that was on: OneTest#test_that_hangs$/, outcome.stdout)
    assert_equal "0 passed, 1 failed, 0 skipped", outcome.stdout.lines.last.chomp
  end

  # Each run waits until the other has begun.
  def test_runs_share_the_processors_and_their_output_does_not_mix
    meet = ->(mine, theirs) {
      "def test_a\n puts #{mine.dump}\n File.write(#{File.join(@folder, mine).dump}, '')\n " \
        "sleep 0.01 until File.exist?(#{File.join(@folder, theirs).dump})\n puts #{mine.dump}\n pass\n end"
    }
    outcome = suite({"one" => meet.call("here", "there"), "two" => meet.call("there", "here")}, lanes: 2)
    assert_equal "2 passed, 0 failed, 0 skipped", outcome.stdout.lines.last.chomp
    assert_equal %w[here here there there], outcome.stdout.scan(/^\.?(here|there)$/).flatten
  end

  # Two runs wait for each other; the serial ones see that both have ended, and meet no other one.
  def test_serial_files_run_one_after_another_when_all_others_have_ended
    paths = %w[one two].to_h { |name| [name, File.join(@folder, name)] }
    lock = File.join(@folder, "lock")
    meet = ->(mine, theirs) { "def test_a\n File.write(#{paths[mine].dump}, '')\n sleep 0.01 until File.exist?(#{paths[theirs].dump})\n pass\n end\n Minitest.after_run { File.write(#{"#{paths[mine]}.end".dump}, '') }" }
    alone = "def test_a\n assert File.exist?(#{"#{paths["one"]}.end".dump}) && File.exist?(#{"#{paths["two"]}.end".dump})\n Dir.mkdir(#{lock.dump})\n sleep 0.2\n Dir.rmdir(#{lock.dump})\n end"
    outcome = suite({"three" => alone, "four" => alone, "one" => meet.call("one", "two"), "two" => meet.call("two", "one")}, serial: %w[three four], lanes: 3)
    assert_equal "4 passed, 0 failed, 0 skipped", outcome.stdout.lines.last.chomp, outcome.stdout
    assert_match(/^serial +2 passed/, outcome.stdout)
  end

  def test_wait_returns_after_the_end_of_the_runs
    path = File.join(@folder, "done")
    outcome = suite({"one" => "def test_a\n sleep 0.3\n File.write(#{path.dump}, '')\n pass\n end"}, lanes: 2,
      ending: "suite.wait\n puts File.exist?(#{path.dump})\n suite.finish")
    assert_includes outcome.stdout.lines(chomp: true), "true"
    assert_equal "1 passed, 0 failed, 0 skipped", outcome.stdout.lines.last.chomp
  end

  def test_an_interrupted_suite_ends_its_runs_and_fails
    first, second = %w[first second].map { |name| File.join(@folder, name) }
    outcome = suite({"one" => "def test_a\n File.write(#{first.dump}, '')\n pass\n end",
                     "two" => "def test_a\n sleep 0.01 until File.exist?(#{first.dump})\n File.write(#{second.dump}, $$)\n sleep\n end"},
      ending: "Thread.new { sleep 0.01 until File.size?(#{second.dump}) && Dir[#{File.join(@folder, "neverblock-test*/*.end").dump}].any?\n Process.kill(:INT, $$) }\n suite.finish",
      environment: {"TMPDIR" => @folder})
    assert_equal 1, outcome.status.exitstatus
    assert_equal "1 passed, 1 failed, 0 skipped", outcome.stdout.lines.last.chomp
    refute_running second
  end

  # A hanging test program with children in other groups and sessions, as servers and databases have.
  def test_a_run_that_is_killed_leaves_no_process_behind
    pids = %w[child daemon grandchild].to_h { |name| [name, File.join(@folder, name)] }
    outcome = suite({"one" => <<~RUBY}, limit: 3)
      def test_a
        trap(:TERM) {}
        # real: processes that do not end by themselves
        spawn("echo $$ > #{pids["child"]}; trap '' TERM; while :; do sleep 1; done", pgroup: true)
        fork do
          Process.daemon(true, true)
          File.write(#{pids["daemon"].dump}, $$)
          # real: a process that does not end by itself
          spawn("setsid sh -c 'echo $$ > #{pids["grandchild"]}; sleep 1000'")
          sleep
        end
        until #{pids.values.inspect}.all? { |path| File.size?(path) } # its time begins once all are there
          File.write("\#{ENV["NEVERBLOCK_TALLY"]}.current", "OneTest#test_a")
          sleep 0.01 # real: the processes above start
        end
        loop { sleep } # real: until the suite kills it; Ruby 4.0 leaves a bare sleep early when a child ends
      end
    RUBY
    assert_equal "0 passed, 1 failed, 0 skipped", outcome.stdout.lines.last.chomp
    pids.each_value { |path| refute_running path }
    assert_match(/^left behind by one, and killed: \d+ setsid sh|^left behind by one, and killed: \d+ sh -c/, outcome.stdout)
  end

  # A run that passes, and has left a process behind.
  def test_a_run_that_ends_leaves_no_process_behind
    pid = File.join(@folder, "pid")
    outcome = suite({"one" => "def test_a\n spawn(\"echo $$ > #{pid}; exec sleep 1000\", pgroup: true)\n sleep 0.01 until File.size?(#{pid.dump})\n pass\n end"})
    assert_equal "1 passed, 0 failed, 0 skipped", outcome.stdout.lines.last.chomp
    refute_running pid
    assert_match(/^left behind by one, and killed: \d+ sleep 1000$/, outcome.stdout)
  end

  # Without the suite, the runs get no command to end.
  def test_a_suite_that_is_killed_leaves_no_process_behind
    pid = File.join(@folder, "pid")
    suite({"one" => "def test_a\n File.write(#{pid.dump}, $$)\n sleep\n end"},
      ending: "Thread.new { sleep 0.01 until File.size?(#{pid.dump})\n Process.kill(:KILL, $$) }\n suite.finish")
    wait_until("the end of the test program") { !running?(pid) }
  end

  def test_nothing_run_is_no_success
    outcome = run_ruby(<<~RUBY)
      require "./test/support/suite"
      NeverBlockTest::Suite.new(selection: ["nothing is called this"]).finish
    RUBY
    assert_equal 1, outcome.status.exitstatus
  end

  private

  # @param path [String] of a file with a process ID
  def running?(path)
    Process.kill(0, Integer(File.read(path)))
  rescue Errno::ESRCH
    false
  end

  def refute_running(path) = refute(running?(path), "#{File.basename(path)} is running")

  # Each file is a run of its own, without an engine.
  def suite(files, limit: NeverBlockTest::LIMIT, lanes: 2, serial: [], ending: "suite.finish", environment: {})
    files.each do |name, body|
      File.write(File.join(@folder, "#{name}_test.rb"), <<~RUBY)
        #{"# serial: it measures\n" if serial.include?(name)}
        require "test_helper"
        class #{name.capitalize}Test < Minitest::Test
          #{body}
        end
      RUBY
    end
    unset = %w[NEVERBLOCK_ENGINE NEVERBLOCK_TALLY NEVERBLOCK_TEST_LIST NEVERBLOCK_TEST_TIMES NEVERBLOCK_TEST_FAST NEVERBLOCK_TEST_CHAOS].to_h { |name| [name, nil] }
    environment = {**unset, "NEVERBLOCK_TEST_LIMIT" => limit.to_s, "NEVERBLOCK_TEST_LANES" => lanes.to_s, "NEVERBLOCK_TEST_GRACE" => "1", **environment}
    run_ruby(<<~RUBY, environment:, gems: true)
      require "./test/support/suite"
      suite = NeverBlockTest::Suite.new
      #{files.keys.inspect}.each { |name| suite.run_files(name, "\#{#{@folder.inspect}.delete_prefix(Dir.pwd + "/")}/\#{name}_test.rb", engines: [nil]) }
      #{ending}
    RUBY
  end
end
