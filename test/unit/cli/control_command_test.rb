# frozen_string_literal: true

require "test_helper"
require "neverblock/cli"
require "json"
require "stringio"
require "tmpdir"

# What the commands to a server ask, and what they make of its responses. With a server:
# test/programs/operations_commands_test.rb.
class CLIControlCommandTest < Minitest::Test
  include NeverBlockTest::Helpers

  STATS = {
    state: "serving", pid: 12, version: "1.2", addresses: %w[tcp://a:1 unix:///b],
    workers: [{number: 0, pid: 13, state: "serving", age: 61.4, stats: {in_flight: 1, ready: 2, queued: 3, connections: 40, answered: 500}},
      {number: 1, pid: 14, state: "starting", age: 0.2, stats: {}}]
  }.freeze

  def test_status_has_a_line_for_each_worker
    status, out, _, requests = served([200, JSON.generate(STATS)]) { command("status") }
    assert_equal [0, ["GET /stats HTTP/1.0"]], [status, requests]
    head, *rows = out.lines(chomp: true)
    assert_equal "serving, pid 12, version 1.2, at tcp://a:1 and unix:///b", head
    assert_equal [
      %w[worker 0 13 serving 61 s 1 requests 5 waiting 40 connections 500 answered],
      %w[worker 1 14 starting 0 s 0 requests 0 waiting 0 connections 0 answered]
    ], rows.map(&:split)
  end

  def test_status_of_a_server_that_is_down
    status, out, = served([200, JSON.generate({**STATS, state: "down", workers: []})]) { command("status") }
    assert_equal [1, "down, pid 12, version 1.2, at tcp://a:1 and unix:///b\n"], [status, out]
  end

  def test_status_tells_why_the_last_load_has_failed
    load = {result: "failed", message: "config.ru can't be loaded\nno way (RuntimeError)\nfrom a", at: "2026-11-25T10:00:00Z"}
    out = served([200, JSON.generate({**STATS, load:})]) { command("status") }[1]
    assert_equal "the last load failed (2026-11-25T10:00:00Z): config.ru can't be loaded: no way (RuntimeError)", out.lines(chomp: true)[1]
    out = served([200, JSON.generate({**STATS, load: {result: "loaded", message: "all is well"}})]) { command("status") }[1]
    refute_includes out, "load"
  end

  def test_status_has_a_line_for_each_sidecar
    sidecars = [{command: "bin/jobs", pid: 31, state: "running", restarts: 0}, {command: "bin/css", state: "down", restarts: 2, failure: "ended (pid 9 exit 1)", at: "2026-11-21T12:00:00Z"}]
    out = served([200, JSON.generate({**STATS, sidecars:})]) { command("status") }[1]
    assert_equal ["  sidecar   31       running   bin/jobs\n", "  sidecar            down      bin/css, 2 restarts; the last time (2026-11-21T12:00:00Z) it ended (pid 9 exit 1)\n"], out.lines.last(2)
  end

  def test_status_as_json
    assert_equal [0, "{\"state\":\"serving\"}\n"], served([200, '{"state":"serving"}']) { command("status", "--json") }.first(2)
  end

  def test_a_mistake_in_the_file_does_not_keep_from_asking
    Dir.mktmpdir("nb") do |folder|
      File.write("#{folder}/x.rb", "workers 2\n)")
      [%w[stop], %w[status], %w[proxy explain http://a/]].each do |words|
        err = StringIO.new
        assert_equal 64, NeverBlock::CLI.new([*words, "-C", "#{folder}/x.rb"], out: StringIO.new, err:).call
        assert_match(/x\.rb:2: .*syntax error.*\nThe server was not asked\. To ask it, give its control socket: --control PATH$/m, err.string)
      end
      status, out, = served([200, "stopped\n"]) { command("stop", "-C", "#{folder}/x.rb") }
      assert_equal [0, "stop: stopped\n"], [status, out]
    end
  end

  def test_stop_returns_when_the_process_has_ended
    status, out, err, requests = served([200, "stopped\n"]) { command("stop") }
    assert_equal [0, "stop: stopped\n", "", ["POST /stop HTTP/1.0"]], [status, out, err, requests]
  end

  def test_stop_that_has_cancelled_requests_fails
    ends = NeverBlock::Server::Control::ENDS[false]
    status, out, _, requests = served([200, "#{ends}\n"]) { command("stop", "--now") }
    assert_equal [1, "stop: #{ends}\n", ["POST /stop?now=yes HTTP/1.0"]], [status, out, requests]
  end

  def test_a_command_that_does_not_wait
    {%w[stop --no-wait] => "POST /stop?wait=no", %w[stop --no-wait --now] => "POST /stop?wait=no&now=yes",
     %w[reload --no-wait] => "POST /reload?wait=no", %w[restart --no-wait] => "POST /restart?wait=no"}.each do |words, target|
      status, out, _, requests = served([202, "begun\n"]) { command(*words) }
      assert_equal [0, "#{words.first}: begun; the error log will have the result\n", ["#{target} HTTP/1.0"]], [status, out, requests]
    end
  end

  def test_reload_and_reopen_have_the_result
    assert_equal [0, "reload: all is new\n", ""], served([200, "all is new\n"]) { command("reload") }.first(3)
    assert_equal [0, "reopen: opened\n", ""], served([200, "opened\n"]) { command("reopen") }.first(3)
    assert_equal [1, "", "neverblock: reload: no way\n"], served([500, "no way\n"]) { command("reload") }.first(3)
    assert_equal [1, "", "neverblock: reopen: log/a can't be written\n"], served([500, "log/a can't be written\n"]) { command("reopen") }.first(3)
  end

  # The program is replaced meanwhile: the next one has the result, when it listens.
  def test_restart_follows_to_the_next_program
    [[409, "another program"], nil].each do |first|
      status, out, _, requests = served(first, nil, [409, "not yet"], [200, "all is new\n"]) { command("restart") }
      assert_equal [0, "restart: all is new\n"], [status, out]
      assert_equal ["POST /restart HTTP/1.0", *["GET /last-load HTTP/1.0"] * 3], requests
    end
    assert_equal [1, "neverblock: restart: no way\n"], served(nil, [500, "no way\n"]) { command("restart") }.values_at(0, 2)
  end

  def test_restart_of_a_server_that_ends
    status, _, err, = served(nil) { command("restart") }
    assert_equal 1, status
    assert_match(/\Aneverblock: restart: the server has ended\. Its error log or its standard error has the reason\n\z/, err)
  end

  def test_a_server_that_ends_without_a_response
    status, _, err, = served(nil) { command("stop") }
    assert_equal 1, status
    assert_match(/\Aneverblock: the server at control\.sock has ended without a response\n\z/, err)
  end

  def test_another_program_s_socket
    err = served([404, "who are you\n"]) { command("status") }[2]
    assert_match(/\Aneverblock: control\.sock answered 404: who are you\n\z/, err)
  end

  def test_where_no_server_listens
    status, _, err = in_folder { command("status") }
    assert_equal 1, status
    assert_match(/\Aneverblock: no server answers at control\.sock \(.*\)\. Check that it is running, and that you are its user\n\z/, err)
  end

  def test_the_socket_is_that_of_the_configuration
    in_folder do
      File.write("own.rb", "control 'own.sock'")
      assert_match(/no server answers at own\.sock/, command("status", "-C", "own.rb", control: nil).last)
      assert_equal [64, "", "neverblock: no control socket is configured. Write control \"tmp/neverblock.sock\" into config/neverblock.rb, " \
        "or name it: neverblock status --control PATH\n"], command("status", control: nil)
    end
  end

  def test_help_has_what_must_be_known
    NeverBlock::CLI::ControlCommand::COMMANDS.each_key do |name|
      status, out, err = in_folder { command(name, "--help") }
      assert_equal [0, ""], [status, err]
      assert_match(/\AUsage: neverblock #{name} \[options\]$/, out)
      assert_equal %w[reload restart].include?(name), out.include?("if the app can't be loaded, it ends")
      assert_equal %w[stop reload restart].include?(name), out.include?("--no-wait")
    end
  end

  def test_a_command_line_that_can_not_be
    in_folder do
      assert_equal [64, "", "neverblock: now: stop takes options alone. neverblock stop --help lists them\n"], command("stop", "now")
      assert_equal [64, "", "neverblock: invalid option: --json. neverblock stop --help lists the options\n"], command("stop", "--json")
    end
  end

  private

  # @return [Array(Integer, String, String)] exit status, output, errors
  def command(name, *arguments, control: "control.sock")
    out, err = StringIO.new, StringIO.new
    [NeverBlock::CLI.new([name, *arguments, *(["--control", control] if control)], out:, err:, env: {}).call, out.string, err.string]
  end

  def in_folder(&block) = Dir.mktmpdir("nb") { |folder| Dir.chdir(folder, &block) }

  # Runs the block beside a process that gives one response to each client, and then ends.
  # @param responses [Array<Array(Integer, String), nil>] nil: the connection ends without one
  # @return [Array] what the block returns, and the clients' request lines
  def served(*responses)
    in_folder do
      requests, writer = IO.pipe
      pid = fork { serve(responses, writer) }
      writer.close
      wait_until("the server") { File.socket?("control.sock") }
      [*yield, requests.read.lines(chomp: true)]
    ensure
      Process.wait(pid)
    end
  end

  # The socket listens under another name first: a client that finds it can connect.
  def serve(responses, writer)
    server = UNIXServer.new("new.sock")
    File.rename("new.sock", "control.sock")
    responses.each do |status, body|
      client = server.accept
      writer.write(client.gets.sub("\r\n", "\n"))
      nil until client.gets == "\r\n"
      client.write("HTTP/1.0 #{status} -\r\n\r\n#{body}") if status
      client.close
    end
  ensure
    exit!(0)
  end
end
