# frozen_string_literal: true

require "test_helper"
require "support/loops"
require "neverblock/server"
require "fileutils"
require "tmpdir"

# Which log gets what, and how the logs are opened again. What stands in their lines: logs_test.rb.
class ServerEventsTest < Minitest::Test
  include NeverBlockTest::Loops

  Events = NeverBlock::Server::Events
  ENV_OF_A_REQUEST = {"REQUEST_METHOD" => "GET", "PATH_INFO" => "/shop", "SERVER_PROTOCOL" => "HTTP/1.1", "REMOTE_ADDR" => "192.0.2.7"}.freeze

  def setup
    @folder = Dir.mktmpdir("nb")
    Dir.mkdir("#{@folder}/log")
    @others = Events.others.dup
  end

  def teardown
    Events.others.replace(@others)
    FileUtils.rm_rf(@folder)
  end

  def test_requests_are_in_the_access_log_and_errors_in_the_other
    events = events(access_log: :common)
    events.access(ENV_OF_A_REQUEST, 200, 12, 0.004)
    events.failed(ENV_OF_A_REQUEST, RuntimeError.new("boom"))
    events.trouble(:connections, "accepting pauses")
    assert_match(/\A192\.0\.2\.7 - - \[.*\] "GET \/shop HTTP\/1\.1" 200 12\n\z/, log("access"))
    assert_match(/error: GET \/shop HTTP\/1\.1: .*boom.*\n.*warn: connections: accepting pauses\n\z/, log("error"))
    assert_equal 0, events.lost
  end

  def test_a_request_that_can_not_be_written_is_a_lost_line_and_told
    events = events(access_log: :json)
    user = Object.new.tap { |one| one.define_singleton_method(:to_s) { raise "no name" } }
    events.access(ENV_OF_A_REQUEST.merge("REMOTE_USER" => user), 200, 12, 0.004)
    assert_equal 1, events.lost
    assert_match(/warn: access_log: lines can't be written: RuntimeError: no name \(.*\); 1 are lost\n\z/, log("error"))
  end

  def test_without_an_access_log_requests_are_not_written
    events = events()
    assert_nil events.access(ENV_OF_A_REQUEST, 200, 12, 0.004)
    assert_equal 2, events.runners.size
    refute_path_exists "#{@folder}/log/access.log"
  end

  def test_a_server_that_is_full_calls_its_listener
    events, told = events(), 0
    events.full
    events.on_full = -> { told += 1 }
    events.full
    assert_equal 1, told
  end

  def test_the_logs_are_opened_again
    events, opened = events(access_log: :common), 0
    Events.on_reopen { opened += 1 }
    File.rename("#{@folder}/log/error.log", "#{@folder}/log/error.log.1")
    assert_empty events.reopen
    events.error_log.info("in the new one")
    assert_match(/in the new one/, log("error"))
    assert_equal 1, opened
  end

  # The others are opened nevertheless, and the error log says so too.
  def test_what_can_not_be_opened_again_goes_on_where_it_is
    events = events(access_log: :common)
    Events.on_reopen { raise "no folder" }
    FileUtils.mv("#{@folder}/log", "#{@folder}/old")
    failures = events.reopen
    assert_equal 3, failures.size
    %w[error access].zip(failures).each { |name, line| assert_match(/\Athe log #{@folder}\/log\/#{name}\.log can't be written: No such file.*Its old file stays open\z/, line) }
    assert_equal "a log of the app's can't be opened again: no folder", failures.last
    events.access(ENV_OF_A_REQUEST, 200, 12, 0.004)
    text = File.read("#{@folder}/old/error.log")
    failures.each { |line| assert_includes text, line }
    assert_match(/ 200 12$/, File.read("#{@folder}/old/access.log"))
  end

  def test_access_lines_that_are_lost_are_counted_and_told
    full = File.open(File::NULL) # it can't be written to
    events = events(access_log: :common, access_log_to: full)
    2.times { events.access(ENV_OF_A_REQUEST, 200, 12, 0.004) }
    assert_equal 2, events.lost
    assert_match(/warn: access_log: lines can't be written: not opened for writing; 1 are lost$/, log("error"))
  ensure
    full&.close
  end

  def test_backtraces_of_a_loop_that_is_blocked
    events = events()
    in_loop(exit: :cancel) do
      NB.spawn(name: "sick") { sleep }
      NB.pass
      events.error_log.backtraces(Thread.current, NeverBlock.tasks)
    end
    lines = log("error").lines.grep(/backtrace: /)
    assert_match(/backtrace: runs \| .*events_test\.rb/, lines.first)
    assert(lines.drop(1).any? { |line| line.match?(/backtrace: #<NeverBlock::Task "sick" waiting for .*> \| .*events_test\.rb/) }, lines.join)
  end

  # A thousand requests that wait for the same have one line.
  def test_equal_backtraces_are_one_line
    events = events()
    in_loop(exit: :cancel) do
      "a".upto("l") { |name| spawn_sleepers("/#{name}", 1) }
      spawn_sleepers("/many", 30)
      NB.pass
      events.error_log.backtraces(Thread.current, NeverBlock.tasks)
    end
    lines = log("error").lines.grep(/backtrace: \d+ tasks/)
    assert_equal 1, lines.size
    assert_match(%r{42 tasks \(30 "/many", (1 "/\w", ){9}3 other names\), the oldest, of \d+\.\d s: #<NeverBlock::Task "/a" waiting for .*> \| .*events_test\.rb}, lines.first)
  end

  private

  def spawn_sleepers(name, count) = count.times { NB.spawn(name:) { sleep } }

  def events(**settings)
    settings = {error_log: "#{@folder}/log/error.log", access_log_to: "#{@folder}/log/access.log", **settings}
    Events.new(NeverBlock::Server::Configuration.new(**settings))
  end

  def log(name) = File.read("#{@folder}/log/#{name}.log")
end
