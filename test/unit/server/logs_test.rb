# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "neverblock/server"
require "support/runs"
require "support/virtual_time"
require "json"
require "stringio"
require "tmpdir"

# The server's logs: a line can't be forged, and a slow log delays no request.
class ServerLogsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  LogText = NeverBlock::Server::LogText
  LogWriter = NeverBlock::Server::LogWriter
  AccessLog = NeverBlock::Server::AccessLog
  ErrorLog = NeverBlock::Server::ErrorLog

  NOON = Time.utc(2026, 11, 21, 12, 0, Rational(1250, 1000))

  ENV_OF_A_REQUEST = {
    "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/shop", "QUERY_STRING" => "a=1&b", "SERVER_PROTOCOL" => "HTTP/1.1",
    "REMOTE_ADDR" => "192.0.2.7", "HTTP_HOST" => "example.org"
  }.freeze

  # ---- text ----

  {
    "plain" => "plain", "a\nb" => "a\\nb", "a\r\n\tb" => "a\\r\\n\\tb", "\e[2J" => "\\x1B[2J", "\0\x7F" => "\\x00\\x7F",
    "\u009B31m" => "\\x9B31m", "a\u2028b" => "a\\u2028b", "\u202Egnp" => "\\u202Egnp", "Grüße 🌍" => "Grüße 🌍",
    "\xFF\n".b => "\\xFF\\n", "\xC3\xA4".b => "ä", "x\xE4y" => "x\\xE4y", nil => "", :symbol => "symbol",
    "ä".encode(Encoding::UTF_16LE) => "\\xE4\\x00", "say \"\\n\"" => "say \"\\n\""
  }.each do |text, line|
    define_method(:"test_the_line_of_#{text.inspect}") do
      assert_equal line, LogText.line(text)
      assert_predicate LogText.line(text), :valid_encoding?
    end
  end

  def test_quoted
    assert_equal "say \\\"hi\\\" \\\\ \\n", LogText.quoted("say \"hi\" \\ \n")
  end

  def test_long_text_is_cut
    assert_equal "aaa …", LogText.line("aaaaa", limit: 3)
    assert_equal "\\n\\n\\n …", LogText.line("\n" * 5, limit: 3)
  end

  def test_the_first_line_of_a_request
    assert_equal "GET /shop?a=1&b HTTP/1.1", LogText.request(ENV_OF_A_REQUEST)
    assert_equal "GET /app/shop HTTP/1.1", LogText.request(ENV_OF_A_REQUEST.merge("SCRIPT_NAME" => "/app", "QUERY_STRING" => ""))
    assert_equal "GET /\\xFF?\\xFE HTTP/1.1", LogText.request(ENV_OF_A_REQUEST.merge("PATH_INFO" => "/\xFF".b, "QUERY_STRING" => "\xFE".b))
    assert_equal "  ", LogText.request({})
  end

  # ---- access ----

  def test_common_format
    line = access(:common, ENV_OF_A_REQUEST, 200, 12, 0.5)
    assert_equal %(192.0.2.7 - - [21/Nov/2026:12:00:01 +0000] "GET /shop?a=1&b HTTP/1.1" 200 12\n), line
  end

  def test_common_format_with_a_user_and_without_a_body_or_an_address
    line = access(:common, ENV_OF_A_REQUEST.merge("REMOTE_USER" => "jo \"x\"\n", "REMOTE_ADDR" => ""), 304, 0, 0.5)
    assert_equal %(- - jo+\\"x\\"\\n [21/Nov/2026:12:00:01 +0000] "GET /shop?a=1&b HTTP/1.1" 304 -\n), line
  end

  def test_a_line_can_not_be_forged
    path = "/\" 200 1\n10.0.0.1 - - [] \"GET /"
    %i[common json].each do |format|
      line = access(format, ENV_OF_A_REQUEST.merge("PATH_INFO" => path, "HTTP_USER_AGENT" => "\u0085\u2028\e\xFF\n"), 200, 1, 0.1)
      assert_equal 1, line.lines.size
      refute_match(/[\p{Cc}\u2028]/, line.chomp)
    end
  end

  def test_the_time_goes_on
    times = [NOON, NOON + 0.5, NOON + 1]
    out = StringIO.new
    log = AccessLog.new(out, format: :common, clock: -> { times.shift })
    3.times { log.call(ENV_OF_A_REQUEST, 200, 1, 0.1) }
    assert_equal %w[12:00:01 12:00:01 12:00:02], out.string.scan(/\d\d:\d\d:\d\d(?= )/)
  end

  def test_json_format
    env = ENV_OF_A_REQUEST.merge("neverblock.queue_time" => 0.0123456789, "HTTP_USER_AGENT" => "a\"b\xFF", "HTTP_REFERER" => "")
    assert_equal({
      "time" => "2026-11-21T12:00:01.250Z", "remote" => "192.0.2.7", "method" => "GET", "path" => "/shop", "query" => "a=1&b",
      "protocol" => "HTTP/1.1", "status" => 200, "bytes" => 12, "seconds" => 0.123457, "queue_seconds" => 0.012346,
      "host" => "example.org", "agent" => "a\"b\\xFF"
    }, JSON.parse(access(:json, env, 200, 12, 0.1234567)))
  end

  def test_json_has_what_a_cache_and_a_proxy_note
    note = {url: "http://10.0.0.5:3000", connect: 0.00123456, first_byte: 0.5, retried: false}
    line = JSON.parse(access(:json, ENV_OF_A_REQUEST.merge("neverblock.cache" => :miss, "neverblock.upstream" => note), 200, 12, 0.1))
    assert_equal ["miss", "http://10.0.0.5:3000", 0.001235, 0.5], line.values_at("cache", "upstream", "upstream_connect_seconds", "upstream_seconds")
    line = JSON.parse(access(:json, ENV_OF_A_REQUEST.merge("neverblock.cache" => "of something else", "neverblock.upstream" => 1), 200, 12, 0.1))
    assert_equal [false, false], %w[cache upstream].map { |name| line.key?(name) }
  end

  def test_json_has_what_else_an_app_puts_into_its_env
    odd = {"REMOTE_USER" => 42, "HTTP_REFERER" => :here, "neverblock.queue_time" => "soon", "neverblock.upstream" => {url: "a", connect: Float::NAN, first_byte: "x"}}
    line = JSON.parse(access(:json, ENV_OF_A_REQUEST.merge(odd), 200, 12, 0.1))
    assert_equal ["42", "here", "a", nil], line.values_at("user", "referer", "upstream", "queue_seconds")
    assert_empty line.keys & %w[upstream_connect_seconds upstream_seconds]
  end

  def test_json_keeps_what_it_escapes
    path = "/\u0085\u2028\n\u007F"
    assert_equal path, JSON.parse(access(:json, ENV_OF_A_REQUEST.merge("PATH_INFO" => path), 200, 1, 0.1))["path"]
  end

  # ---- errors ----

  def test_a_failed_request_is_one_line
    error = failure { raise "no such\nitem" }
    line = written { |log| log.failed(ENV_OF_A_REQUEST, error) }
    assert_match(/\A2026-11-21T12:00:01.250Z \[#{Process.pid}\] error: GET \/shop\?a=1&b HTTP\/1.1: RuntimeError: no such\\nitem \| .*logs_test.rb:\d+:in .* \| .*\n\z/, line)
    assert_equal 1, line.lines.size
  end

  def test_causes
    error = failure do
      raise KeyError, "first"
    rescue KeyError
      raise "second"
    end
    line = written { |log| log.failed(ENV_OF_A_REQUEST, error) }
    assert_match(/RuntimeError: second \| .* \| caused by KeyError: first \| .*logs_test/, line)
  end

  def test_causes_without_end_and_deep_backtraces_are_cut
    error = failure { deep(3_000) }
    20.times { |n| error = failure { raise n.to_s, cause: error } }
    line = written { |log| log.failed(ENV_OF_A_REQUEST, error) }
    assert_operator line.bytesize, :<, 200_000
    assert_equal 5, line.scan("caused by").size
    line = written { |log| log.failed(ENV_OF_A_REQUEST, failure { deep(3_000) }) }
    assert_match(/… \d+ more …/, line)
    assert_match(/test_causes_without_end/, line, "the bottom of it is there")
  end

  def test_exceptions_that_are_hard_to_tell
    hostile = Class.new(StandardError) { def message = raise("even this") }
    assert_match(/: \(its message raised RuntimeError\)$/, written { |log| log.failed(ENV_OF_A_REQUEST, hostile.new) })
    {backtrace: "its backtrace raised RuntimeError", cause: "caused by (its cause raised RuntimeError)"}.each do |method, words|
      hostile = Class.new(StandardError) { define_method(method) { raise "even this" } }
      assert_match(/: GET .*: hostile.*#{Regexp.escape(words)}/, written { |log| log.failed(ENV_OF_A_REQUEST, hostile.new("hostile")) }.sub(/#<Class.*?>/, "hostile"))
      assert_match(/: hostile/, LogText.error(hostile.new("hostile")))
      assert_match(/hostile/, LogText.full(hostile.new("hostile")))
    end
    odd = RuntimeError.new("\xFF\u0000".b)
    odd.set_backtrace(["a\nb:1:in `c'"])
    assert_match(/RuntimeError: \\xFF\\x00 \| a\\nb:1:in `c'\n\z/, written { |log| log.failed({}, odd) })
  end

  def test_a_slow_request
    task = in_run { NB.spawn(name: "x\ny") { 1 }.tap(&:join) }
    line = written { |log| log.slow(ENV_OF_A_REQUEST, 61.4, task) }
    assert_match(/slow: GET \/shop\?a=1&b HTTP\/1.1 runs for 61 s: #<NeverBlock::Task "x\\ny"/, line.gsub('\\\\n', '\\n'))
    assert_equal 1, line.lines.size
  end

  # The first one is logged at once, later ones of the same second as one line.
  def test_trouble_comes_once_a_second_for_each_name
    lines = troubles do |log|
      3.times { log.trouble(:emfile, "no\ndescriptors") }
      log.trouble(:queue_limit, "full")
      clock.advance(0.75)
      log.trouble(:emfile, "none of them")
      clock.advance(0.25)
      log.trouble(:emfile, "still none")
      log.trouble(:emfile, "of the next second")
      log.stop
      log.stop
      log.trouble(:emfile, "anew")
    end
    assert_equal ["emfile: no\\ndescriptors", "queue_limit: full", "emfile: still none (the last of 4 in 1.0 s)", "emfile: of the next second",
      "emfile: anew"], lines
  end

  def test_the_rest_of_a_flood_is_told_though_no_more_comes
    out = StringIO.new
    log = ErrorLog.new(out)
    in_run do |scope|
      running = scope.spawn { log.run }
      5.times { log.trouble(:emfile, "no descriptors") }
      clock.advance(1)
      assert_includes out.string, "(the last of 4 in 1.0 s)"
      log.trouble(:emfile, "the last")
      log.stop
      running.join
    end
    assert_match(/emfile: the last\n\z/, out.string)
  end

  def test_lines_about_other_parts
    assert_match(/ info: listening\\n\n\z/, written { |log| log.info("listening\n") })
    assert_match(/ warn: it is healed\n\z/, written { |log| log.warn("it is healed") })
    assert_match(/ error: worker 1: RuntimeError: no\n\z/, written { |log| log.broken("worker 1", RuntimeError.new("no")) })
    assert_match(/ error: a task failed: RuntimeError: no/, written { |log| log.task_failed(RuntimeError.new("no")) })
  end

  # ---- the writer ----

  def test_outside_a_loop_lines_are_written_at_once
    out = StringIO.new
    LogWriter.new(out, delay: 10) << "a\n" << "b\n"
    assert_equal "a\nb\n", out.string
  end

  # Rails sets it.
  def test_an_internal_encoding_converts_nothing
    verbose, $VERBOSE = $VERBOSE, nil
    internal = Encoding.default_internal
    Encoding.default_internal = Encoding::UTF_8
    Dir.mktmpdir do |folder|
      writer = LogWriter.new("#{folder}/log")
      writer << "\xff\n".b
      writer.close
      assert_equal "\xff\n".b, File.binread("#{folder}/log")
    end
  ensure
    Encoding.default_internal = internal
    $VERBOSE = verbose
  end

  def test_in_a_loop_lines_are_gathered
    calls = []
    sink = Object.new
    sink.define_singleton_method(:write) { |text| calls << text }
    with_writer(sink, delay: 1) do |writer, running|
      100.times { |n| writer << "#{n}\n" }
      assert_empty calls
      clock.advance(1)
      refute_empty calls
      writer << "last\n"
      writer.stop
      running.join
      writer << "after\n"
    end
    assert_equal [(0..99).map { |n| "#{n}\n" }.join, "last\n", "after\n"], calls
  end

  def test_stop_does_not_wait_for_the_delay
    out = StringIO.new
    with_writer(out, delay: 3600) do |writer, running|
      writer << "a\n"
      NB.pass
      writer.stop
      running.join
    end
    assert_equal "a\n", out.string
  end

  def test_a_cancelled_writer_writes_what_it_has
    out = StringIO.new
    with_writer(out, delay: 3600) do |writer, running|
      writer << "a\n"
      running.cancel
    end
    assert_equal "a\n", out.string
  end

  def test_a_pipe_without_a_reader_delays_no_request
    reader, writing = IO.pipe
    with_writer(writing, limit: 100_000) do |writer, running|
      1_000.times do
        writer << "#{"x" * 999}\n"
        NB.pass
      end
      lost = writer.lost
      assert_operator lost, :>, 500
      drain = Thread.new { reader.read }
      writer.stop
      running.join
      writing.close
      assert_equal 1_000 - lost, drain.value.lines.size
    end
  ensure
    [reader, writing].each(&:close)
  end

  def test_the_last_lines_wait_for_a_stalled_pipe_only_so_long
    reader, writing = IO.pipe
    with_writer(writing, last: 0.05) do |writer, running|
      writer << "x" * 1_000_000 << "\n"
      NB.pass
      writer << "y\n"
      running.cancel
      assert_raises(NeverBlock::Cancelled) { running.value }
      assert_operator writer.lost, :>, 0
    end
  ensure
    [reader, writing].each(&:close)
  end

  def test_a_log_that_fails_is_no_reason_to_stop
    broken = Object.new
    def broken.write(_text) = raise(Errno::ENOSPC)
    writer = LogWriter.new(broken)
    writer << "a\n" << "b\n"
    assert_equal 2, writer.lost
  end

  def test_lines_whose_write_is_broken_off_are_counted
    stalled = Object.new
    def stalled.write(_text) = sleep
    reasons = []
    in_run do |scope|
      writer = LogWriter.new(stalled) { |reason| reasons << reason }
      task = scope.spawn { writer.run }
      NB.pass
      writer << "one\n"
      NB.pass
      writer << "two\n" << "three\n"
      task.cancel
      task.join
      assert_equal 3, writer.lost
    end
    assert_equal ["a write was broken off", "the last lines were not taken within 2 s"], reasons
  end

  # Such as a file with an encoding of its own.
  def test_lines_that_a_log_can_not_hold_are_counted
    broken = Object.new
    def broken.write(_text) = raise(Encoding::UndefinedConversionError, "no such character")
    reasons = []
    writer = LogWriter.new(broken) { |reason| reasons << reason }
    writer << "a line\n"
    assert_equal [1, ["no such character"]], [writer.lost, reasons]
  end

  def test_an_access_log_that_fails_is_told_in_the_error_log
    broken = Object.new
    def broken.write(_text) = raise(Errno::ENOSPC)
    errors = StringIO.new
    configuration = NeverBlock::Server::Configuration.new
    {error_log: errors, access_log: :common, access_log_to: broken}.each { |name, value| configuration.set(name, value) }
    in_run do |scope|
      events = NeverBlock::Server::Events.new(configuration)
      runners = events.runners.map { |runner| scope.spawn { runner.run } }
      NB.pass
      3.times { events.access({}, 200, 0, 0.1) }
      events.runners.each(&:stop) # the last lines are written once the error log is told to end
      runners.each(&:join)
      assert_match(/warn: access_log: lines can't be written: No space left on device; 3 are lost$/, errors.string)
    end
  end

  def test_files_are_appended_to_and_opened_again
    Dir.mktmpdir do |folder|
      path = File.join(folder, "a.log")
      File.write(path, "old\n")
      writer = LogWriter.new(path)
      writer << "one\n"
      File.rename(path, "#{path}.1")
      writer << "two\n"
      writer.reopen
      writer << "three\n"
      writer.close
      assert_equal ["old\none\ntwo\n", "three\n"], ["#{path}.1", path].map { |name| File.read(name) }
    end
  end

  def test_a_file_that_can_not_be
    error = assert_raises(NeverBlock::ConfigurationError) { LogWriter.new("/no/such/folder/a.log") }
    assert_match(%r{the log /no/such/folder/a\.log can't be written: No such file.*Make its folder}, error.message)
  end

  def test_lines_to_a_pipe_that_ruby_buffers_are_there_at_once
    reader, writing = IO.pipe
    writing.sync = false
    with_writer(writing) do |writer, running|
      writer << "a\n"
      assert_equal "a\n", reader.gets
      writer.stop
      running.join
    end
  ensure
    [reader, writing].each(&:close)
  end

  def test_ios_of_others_are_not_closed
    out = StringIO.new
    writer = LogWriter.new(out)
    writer.reopen
    writer.close
    refute_predicate out, :closed?
  end

  private

  def access(format, *request)
    out = StringIO.new
    AccessLog.new(out, format:, clock: -> { NOON }).call(*request)
    out.string
  end

  # @yieldparam writer [LogWriter]
  # @yieldparam running [NeverBlock::Task] that writes its lines
  def with_writer(to, **)
    in_run do |scope|
      writer = LogWriter.new(to, **)
      running = scope.spawn { writer.run }
      NB.pass
      yield writer, running
    end
  end

  def written
    out = StringIO.new
    yield ErrorLog.new(out, clock: -> { NOON })
    out.string
  end

  # The log of troubles, without the time.
  def troubles
    out = StringIO.new
    yield ErrorLog.new(out)
    out.string.lines(chomp: true).map { |line| line[/warn: (.*)/, 1] }
  end

  def failure
    yield
  rescue => error
    error
  end

  def deep(depth) = depth.zero? ? raise("deep") : deep(depth - 1)
end
