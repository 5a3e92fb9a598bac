# frozen_string_literal: true

require "test_helper"
require "support/own_folder"
require "neverblock/cli"
require "stringio"

# The command line by itself; serving is tested in test/integration/server/serve_test.rb.
class CLITest < Minitest::Test
  include NeverBlockTest::OwnFolder

  def setup
    super
    File.write("config.ru", "run ->(_env) { [200, {}, []] }")
  end

  def test_a_folder_that_looks_like_a_rails_app
    refute_predicate NeverBlock::CLI::Rackup.new(nil), :rails?
    FileUtils.mkdir("config")
    File.write("config/environment.rb", "")
    assert_predicate NeverBlock::CLI::Rackup.new(nil), :rails?
    assert_predicate NeverBlock::CLI::Rackup.new("#{@folder}/other.ru"), :rails?
    refute_predicate NeverBlock::CLI::Rackup.new("/elsewhere/config.ru"), :rails?
  end

  def test_help_and_version
    assert_equal [0, "neverblock #{NeverBlock::VERSION} (Ruby #{RUBY_VERSION})\n", ""], cli("--version")
    %w[-v version].each { |word| assert_equal cli("--version"), cli(word) }
    status, out, err = cli("--help")
    assert_equal [0, ""], [status, err]
    assert_match(/Usage: neverblock COMMAND.*serve/m, out)
    %w[-h help].each { |word| assert_equal cli("--help"), cli(word) }
    assert_equal cli("--version"), cli("serve", "--version")
  end

  def test_help_of_serve_names_every_option
    status, out, = cli("serve", "--help")
    assert_equal 0, status
    %w[--bind --port --config --puma --workers --pid-file --environment --help --version].each { |option| assert_includes out, option }
    assert_includes out, "tcp://127.0.0.1:3000"
  end

  # Wrong command lines, with the one line on standard error.
  {
    [] => /no command given.*Usage/m,
    ["srve"] => /there is no command srve\. Did you mean serve\?/,
    ["--prot"] => /there is no command --prot\./,
    ["serve", "--prot", "3"] => /there is no option --prot\. Did you mean --port\? .*--help/,
    ["serve", "--pid-flie", "a"] => /there is no option --pid-flie\. Did you mean --pid-file\?/,
    ["proxy", "--upstrem", "http://a"] => /there is no option --upstrem\. Did you mean --upstream\?/,
    ["serve", "-x"] => /there is no option -x\./,
    ["serve", "--help=3"] => /needless argument: --help=3/,
    ["serve", "-p"] => /-p needs a value\. neverblock serve --help lists the options/,
    ["serve", "-b", "unix://rel.sock"] => /bind "unix:\/\/rel\.sock": rel\.sock is not an absolute path\. Write unix:\/\/\//,
    ["serve", "-b", "foo", "no.ru"] => /command line: bind "foo"/,
    ["serve", "-C", "none.rb", "no.ru"] => /none\.rb can't be read/,
    ["serve", "-p", "http"] => /--port: "http" is not a port\. Give a number from 0/,
    ["serve", "-p", "65536"] => /"65536" is not a port/,
    ["serve", "-b", "127.0.0.1:3000"] => /command line: bind "127.0.0.1:3000": it begins with neither.*For example: bind "tcp:/,
    ["serve", "-e", " "] => /command line: environment " "/,
    ["serve", "-C", "no.rb"] => /no\.rb can't be read: No such file/,
    ["serve", "no.ru"] => /there is no no\.ru in .*neverblock serve path/,
    ["serve", "config.ru", "other.ru"] => /config\.ru other\.ru: one app is served at a time\. Usage: neverblock serve/
  }.each do |arguments, message|
    define_method(:"test_refuses_#{arguments.join("_")}") do
      status, out, err = cli(*arguments)
      assert_equal [64, ""], [status, out]
      assert_match(/\Aneverblock: /, err)
      assert_match message, err
    end
  end

  def test_a_puma_configuration_that_is_not_read_is_told
    FileUtils.mkdir_p("config")
    File.write("config/puma.rb", "port 1")
    assert_equal [0, "config/puma.rb is not read: neverblock serve -C config/puma.rb reads it"], cli("check-config").then { |status, out| [status, out.lines.first&.chomp] }
    refute_includes cli("check-config", "-C", "config/puma.rb")[1], "is not read"
    File.write("config/neverblock.rb", "")
    refute_includes cli("check-config")[1], "is not read"
  end

  def test_a_bad_configuration_file
    config("\nmax_in_flight 0")
    status, _, err = cli("serve")
    assert_equal 64, status
    assert_match(/\Aneverblock: config\/neverblock\.rb:2: max_in_flight 0 is not .* For example: max_in_flight 200\n\z/, err)
  end

  def test_contradictions_of_settings
    config("body_quota 1")
    assert_match(/\Aneverblock: config\/neverblock\.rb:1: body_quota 1 is less than max_body_size/, cli("serve").last)
  end

  def test_a_contradiction_of_a_setting_and_a_default
    config("\nmax_body_size '10 GiB'")
    assert_match(/\Aneverblock: config\/neverblock\.rb:2: body_quota "4 GiB" is less than max_body_size "10 GiB"/, cli("serve").last)
  end

  # ---- values from files, options and the environment ----

  def test_nothing_said
    assert_equal %w[tcp://127.0.0.1:3000], addresses
  end

  def test_port_in_the_environment
    assert_equal %w[tcp://0.0.0.0:4567], addresses(env: {"PORT" => "4567"})
    assert_equal %w[tcp://127.0.0.1:3000], addresses(env: {"PORT" => ""})
    assert_equal %w[tcp://127.0.0.1:1], addresses("-p", "1", env: {"PORT" => "4567"})
    error = assert_raises(NeverBlock::ConfigurationError) { addresses(env: {"PORT" => "x"}) }
    assert_equal 'PORT in the environment: "x" is not a port. Give a number from 0 (any free port) to 65535', error.message
  end

  def test_web_concurrency_in_the_environment
    assert_equal [0, 0, 0, 3, :auto], ["", "0", "1", "3 ", "auto"].map { |count| configuration(env: {"WEB_CONCURRENCY" => count})[:workers] }
    assert_equal 1, configuration("-w", "1", env: {"WEB_CONCURRENCY" => "3"})[:workers]
    config("workers 2")
    assert_equal 2, configuration(env: {"WEB_CONCURRENCY" => "3"})[:workers]
    FileUtils.rm("config/neverblock.rb")
    error = assert_raises(NeverBlock::ConfigurationError) { configuration(env: {"WEB_CONCURRENCY" => "many"}) }
    assert_match(/\AWEB_CONCURRENCY in the environment: workers "many" is not a whole number/, error.message)
  end

  def test_addresses_of_the_command_line_take_the_place_of_the_file_s
    config("bind 'tcp://127.0.0.1:1'")
    assert_equal %w[tcp://127.0.0.1:1], addresses(env: {"PORT" => "4567"})
    assert_equal %w[tcp://127.0.0.1:2 unix:///a tcp://127.0.0.1:3], addresses("-b", "tcp://127.0.0.1:2", "--bind=unix:///a", "-p3")
  end

  def test_another_file
    config("tag 'one'")
    File.write("two.rb", "tag 'two'")
    assert_equal %w[one two], [[], %w[-C two.rb]].map { |arguments| configuration(*arguments)[:tag] }
    assert_equal %w[two one], [%w[-C config/neverblock.rb -C two.rb], %w[-C two.rb --config=config/neverblock.rb]].map { |arguments| configuration(*arguments)[:tag] }
  end

  def test_environment
    config("environment 'staging'")
    assert_equal %w[staging production], [[], %w[-e production]].map { |arguments| configuration(*arguments)[:environment] }
  end

  def test_the_rackup_file
    FileUtils.mkdir("apps")
    File.write("apps/a.ru", "")
    assert_equal %w[config.ru apps/a.ru], [[], %w[apps/a.ru -p 1]].map { |arguments| NeverBlock::CLI::Serve.new(arguments, env: {}).parse }
  end

  private

  def config(text)
    FileUtils.mkdir_p("config")
    File.write("config/neverblock.rb", text)
  end

  def cli(*arguments)
    out, err = StringIO.new, StringIO.new
    [NeverBlock::CLI.new(arguments, out:, err:, env: {}).call, out.string, err.string]
  end

  def configuration(*arguments, env: {})
    serve = NeverBlock::CLI::Serve.new(arguments, env:)
    serve.parse
    serve.configuration
  end

  def addresses(...) = configuration(...).addresses.map(&:to_s)
end
