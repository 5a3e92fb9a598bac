# frozen_string_literal: true

require "test_helper"
require "neverblock/server/rack_handler"
require "tmpdir"

# Options that rackup and similar launchers pass.
class ServerRackHandlerTest < Minitest::Test
  include NeverBlockTest::Helpers

  Handler = NeverBlock::Server::RackHandler

  def test_rackup_finds_it
    require "rackup/handler"
    assert_same Handler, Rackup::Handler.get(:neverblock)
    assert_same Handler, Rackup::Handler.get("neverblock")
  end

  def test_host_and_port
    {
      {} => "tcp://localhost:9292", {Host: "0.0.0.0", Port: 80} => "tcp://0.0.0.0:80", {Port: "3000"} => "tcp://localhost:3000",
      {Host: "::1", Port: "1"} => "tcp://[::1]:1", {Host: "[::1]", Port: 1} => "tcp://[::1]:1", {Host: nil, Port: 1} => "tcp://localhost:1",
      {Host: "a", Port: 1, bind: "unix:///s"} => "unix:///s", {Host: "unix:///s", Port: 1} => "unix:///s"
    }.each { |options, uri| assert_equal [uri], Handler.configuration(options).addresses.map(&:to_s), options.inspect }
  end

  def test_settings_as_text_and_as_they_are
    configuration = Handler.configuration(max_in_flight: "10", queue_limit: "20", cancel_on_disconnect: true, request_timeout: "off",
      early_hints: nil, max_body_size: "1 KiB", tag: "x", slow_request: 5, queue: {max_wait: 0.5})
    assert_equal [10, 20, true, nil, false, 1024, "x", 5, 0.5],
      %i[max_in_flight queue_limit cancel_on_disconnect request_timeout early_hints max_body_size tag slow_request queue_max_wait].map { |name| configuration[name] }
  end

  def test_options_of_others_are_skipped
    options = {environment: "development", pid: "/x", config: "config.ru", AccessLog: [], daemonize: false, server: "neverblock",
               user_supplied_options: [:Port], restart_cmd: "x", Silent: true, log_stdout: true, caching: nil, frobnicate: 3, DoNotReverseLookup: true}
    assert_nil Handler.configuration(options)[:environment]
  end

  def test_values_and_words_that_can_not_be
    {
      {max_in_flight: "many"} => /\A-O max_in_flight: max_in_flight "many" is not/, {max_in_flight: true} => /max_in_flight true/,
      {max_in_fligt: "3"} => /\A-O max_in_fligt: .*Did you mean max_in_flight/, {threads: "3"} => /Here the word is max_in_flight/,
      {foo: "1"} => /\A-O foo: there is no directive foo\. docs\/configuration\.md has them all/, {foo: true} => /-O foo: there is no/,
      {Port: "x"} => /bind "tcp:\/\/localhost:x"/, {Host: "ssl://0.0.0.0:1?key=a", Port: 2} => /\A.*bind "ssl:\/\/0\.0\.0\.0:1\?key=a": NeverBlock has neither TLS/
    }.each do |options, message|
      assert_match message, assert_raises(NeverBlock::ConfigurationError) { Handler.configuration(options) }.message
    end
  end

  def test_an_error_at_the_start_is_one_line_and_a_status
    app = ->(_env) { [200, {}, []] }
    TCPServer.open("127.0.0.1", 0) do |taken|
      port = taken.local_address.ip_port
      {{max_in_flight: "x"} => [64, "-O max_in_flight: max_in_flight \"x\" is not"], {foo: "1"} => [64, "-O foo: there is no"],
       {Host: "127.0.0.1", Port: port} => [1, "tcp://127.0.0.1:#{port}: "]}.each do |options, (status, message)|
        error = nil
        _, err = capture_io { error = assert_raises(SystemExit) { Handler.run(app, **options) } }
        assert_equal status, error.status
        assert_equal 1, err.lines.size, err
        assert err.start_with?("neverblock: #{message}"), err
      end
    end
  end

  # A buffered log on standard output would be late, and lost after a kill.
  def test_an_app_s_output_is_written_at_once
    assert_equal "[true, true]\n", assert_ruby(<<~RUBY)
      require "neverblock/server/rack_handler"
      NeverBlock::Server::RackHandler.reporting { p [$stdout.sync, $stderr.sync] }
    RUBY
  end

  def test_the_configuration_file_is_read_for_all_but_the_address
    Dir.mktmpdir do |folder|
      Dir.mkdir("#{folder}/config")
      File.write("#{folder}/config/neverblock.rb", "bind 'tcp://127.0.0.1:1'\nmax_in_flight 7\nqueue limit: 8")
      configuration = Dir.chdir(folder) { Handler.configuration(Port: 2, queue_limit: "9") }
      assert_equal [["tcp://localhost:2"], 7, 9], [configuration.addresses.map(&:to_s), configuration[:max_in_flight], configuration[:queue_limit]]
    end
  end

  # Rails' own server does the same with config/puma.rb.
  def test_the_file_s_address_counts_where_rails_has_a_default_alone
    addresses = lambda do |*supplied|
      Handler.configuration(Host: "localhost", Port: 3000, user_supplied_options: supplied).addresses.map(&:to_s)
    end
    Dir.mktmpdir do |folder|
      Dir.chdir(folder) do
        assert_equal ["tcp://localhost:3000"], addresses.call
        Dir.mkdir("config")
        File.write("config/neverblock.rb", "bind 'tcp://127.0.0.1:1'")
        assert_equal ["tcp://127.0.0.1:1"], addresses.call
        assert_equal ["tcp://127.0.0.1:1"], addresses.call(:pid)
        assert_equal ["tcp://localhost:3000"], addresses.call(:Host)
        assert_equal ["tcp://localhost:3000"], addresses.call(:Port)
      end
    end
  end

  def test_valid_options_are_the_settings
    names = Handler.valid_options.keys.map { |text| text[/\w+/] }
    assert_equal %w[Host Port], names.first(2)
    assert_equal NeverBlock::Server::Directives::SETTINGS.keys.map(&:to_s), names.drop(2)
    assert(Handler.valid_options.values.all? { |text| text.is_a?(String) && !text.empty? })
  end
end
