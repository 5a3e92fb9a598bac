# frozen_string_literal: true

require "test_helper"
require "json"
require "neverblock/cli"
require "stringio"
require "tmpdir"

# neverblock cache report.
class CLICacheCommandTest < Minitest::Test
  LINE = '203.0.113.9 - - [26/Nov/2026:20:36:19 +0000] "GET /a HTTP/1.1" 200 512'

  def setup
    @folder = Dir.mktmpdir("nb")
    @log = "#{@folder}/access.log"
    File.write(@log, "#{LINE}\n#{LINE}\nnonsense\n")
  end

  def teardown = FileUtils.rm_rf(@folder)

  def test_the_report_of_a_log
    status, out, err = cli("cache", "report", @log)
    assert_equal [0, ""], [status, err]
    assert_match(/^2 requests in 0 s/, out)
    assert_match(%r{^ +2 +1 +1  /a$}, out)
    assert_includes out, "The first one, access.log:3: nonsense"
  end

  def test_the_numbers_as_json
    status, out, = cli("cache", "report", "--json", @log, @log)
    assert_equal 0, status
    assert_equal [4, 75.0], JSON.parse(out).values_at("requests", "repeat_percent")
  end

  def test_standard_input
    [[], ["-"]].each do |files|
      out = StringIO.new
      input = StringIO.new("#{LINE}\n")
      assert_equal 0, NeverBlock::CLI::CacheCommand.new(["report", *files], out:, err: StringIO.new, input:).call
      assert_match(/^1 request/, out.string)
    end
  end

  def test_a_terminal_as_input_is_not_waited_for
    terminal = StringIO.new
    terminal.define_singleton_method(:tty?) { true }
    error = assert_raises(NeverBlock::ConfigurationError) { NeverBlock::CLI::CacheCommand.new(["report"], input: terminal).call }
    assert_equal "no log given. For example: neverblock cache report log/access.log", error.message
  end

  def test_options
    File.write(@log, "#{LINE}\n#{LINE.sub("/a", "/a?utm=1").sub("20:36:19", "20:36:59")}\n#{LINE.sub("/a", "/b")}\n")
    arguments = %w[cache report --json --only /a --ignore-params utm,x --max-urls 10 --max-clients 10 --window]
    assert_equal [[2, 1], [2, 0]], %w[60 30].map { |window| JSON.parse(cli(*arguments, window, @log)[1]).values_at("requests", "repeats") }
    File.write(@log, "GET /a 200 max-age=1\n")
    assert_equal 1, JSON.parse(cli("cache", "report", "--json", "--format", "$request_method $request_uri $status $sent_http_cache_control", @log)[1])["shared"]
  end

  def test_help_names_every_option
    status, out, err = cli("cache", "report", "--help")
    assert_equal [0, ""], [status, err]
    %w[--only --ignore-params --window --format --max-urls --max-clients --json --help].each { |option| assert_includes out, option }
    assert_equal out, cli("cache", "--help")[1]
  end

  {
    ["cache"] => /no command given\. neverblock cache report/,
    ["cache", "clear"] => /there is no command cache clear\./,
    ["cache", "report", "--colour"] => /invalid option: --colour\. neverblock cache report --help/,
    ["cache", "report", "--window", "soon"] => /--window: "soon" is not a whole number, 1 or more/,
    ["cache", "report", "--window", "999999999"] => /window: 999999999 is not/,
    ["cache", "report", "--format", "$status", "x.log"] => /format "\$status" has neither/,
    ["cache", "report", "--ignore-params", "", "x.log"] => /ignore_params: \[\]|x\.log can't be read/,
    ["cache", "report", "none.log"] => /\Aneverblock: none\.log can't be read: No such file or directory$/
  }.each do |arguments, message|
    define_method(:"test_refuses_#{arguments.join("_").gsub(/\W+/, "_")}") do
      status, out, err = cli(*arguments)
      assert_equal [64, ""], [status, out]
      assert_match message, err
    end
  end

  def test_a_file_that_is_no_log
    File.write(@log, "# Read me\n\nText.\n")
    status, out, err = cli("cache", "report", @log)
    assert_equal [1, ""], [status, out]
    assert_equal "neverblock: none of 3 lines is in a known format. The first one, access.log:1: # Read me\n" \
      "neverblock cache report --help lists the formats\n", err
  end

  def test_an_empty_log
    File.write(@log, "")
    assert_equal 0, cli("cache", "report", @log).first
  end

  private

  def cli(*arguments)
    out, err = StringIO.new, StringIO.new
    [NeverBlock::CLI.new(arguments, out:, err:, env: {}).call, out.string, err.string]
  end
end
