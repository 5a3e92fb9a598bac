# frozen_string_literal: true

require "test_helper"
require "support/own_folder"
require "neverblock/cli"
require "stringio"

# The command line of `neverblock proxy`. With servers: test/programs/proxy_program_test.rb.
class CLIProxyCommandTest < Minitest::Test
  include NeverBlockTest::OwnFolder

  UPSTREAM = ["--upstream", "http://127.0.0.1:3000"].freeze

  # This machine may be crowded, which check-config would note: it notes @crowd.
  def run = NeverBlock::Server::Crowd.stub(:note, ->(*) { @crowd }) { super }

  def command(*arguments, env: {})
    NeverBlock::CLI::ProxyCommand.new(arguments, out: StringIO.new, env:).tap(&:parse)
  end

  def cli(*arguments, env: {})
    out, err = StringIO.new, StringIO.new
    [NeverBlock::CLI.new(["proxy", *arguments], out:, err:, env:).call, out.string, err.string]
  end

  def settings(*arguments, **) = command(*UPSTREAM, *arguments, **).configuration

  def test_what_differs_from_a_server
    configuration = settings
    assert_equal [:stream, true, true, nil], %i[request_body cancel_on_disconnect early_hints control].map { |name| configuration[name] }
    assert_equal "tcp://127.0.0.1:8000", configuration.addresses.join
    assert_equal "tcp://0.0.0.0:5000", settings(env: {"PORT" => "5000"}).addresses.join
    FileUtils.mkdir("config")
    File.write("config/neverblock.rb", "request_body :buffer\nbind \"tcp://127.0.0.1:1234\"\ncontrol \"c.sock\"\nproxy options: {host: :upstream, max_tries: 2}")
    configuration = settings("--host", "keep")
    assert_equal [:buffer, "c.sock", {host: :keep, max_tries: 2}], %i[request_body control proxy_options].map { |name| configuration[name] }
    assert_equal "tcp://127.0.0.1:1234", configuration.addresses.join
  end

  def test_options
    configuration = settings("--upstream", "unix:/run/a.sock", "--listen", "tcp://127.0.0.1:81", "--cache", "memory:1m", "--collapse=same-url", "--ttl", "2.5", "--host", "upstream",
      "--timeout", "first_byte=5", "--timeout", "total=9", "--trusted-client", "10.0.0.0/8", "--control", "x.sock")
    assert_equal [["http://127.0.0.1:3000", "unix:/run/a.sock"], "memory:1m", :same_url, 2.5, "x.sock"], %i[upstream proxy_cache proxy_collapse proxy_ttl control].map { |name| configuration[name] }
    assert_equal({host: :upstream, timeouts: {first_byte: 5.0, total: 9.0}, trusted_clients: ["10.0.0.0/8"]}, configuration[:proxy_options])
    assert_equal "tcp://127.0.0.1:81", configuration.addresses.join
    {"--collapse" => true, "--collapse=on" => true, "--collapse=off" => false}.each { |option, value| assert_equal value, settings(option)[:proxy_collapse] }
  end

  # Else all that wait would go to an upstream that takes longer.
  def test_requests_wait_for_a_fetch_as_long_as_that_may_take
    FileUtils.mkdir_p("config")
    {"cache_options: {}" => 60, "options: {timeouts: {first_byte: 120}}" => 120, "options: {timeouts: {first_byte: nil}}" => 30, "cache_options: {wait: 5}" => 5}.each do |setting, seconds|
      File.write("config/neverblock.rb", "proxy ttl: 5, #{setting}")
      options = NeverBlock::CLI::ProxyApp.new(settings).send(:cache_options)
      assert_equal seconds, NeverBlock::Cache::Settings.new(**options.except(:store)).wait
    end
  end

  # Otherwise caching proxies that ask each other would find the loop only when they have waited for each other.
  def test_its_cache_passes_the_route_on
    passed = ->(**options) do
      FileUtils.mkdir_p("config")
      File.write("config/neverblock.rb", "proxy ttl: 5, cache_options: #{options}")
      NeverBlock::CLI::ProxyApp.new(settings).send(:cache_options)[:pass_headers]
    end
    assert_equal ["via"], passed.call
    assert_equal %w[x-a via], passed.call(pass_headers: ["x-a"])
    assert_nil passed.call(ignore_headers: ["Via"])
  end

  def test_a_socket_of_the_user
    assert_equal "#{@folder}/neverblock-proxy.sock", settings(env: {"XDG_RUNTIME_DIR" => @folder})[:control]
    _, said = capture_io do
      UNIXServer.open("#{@folder}/neverblock-proxy.sock") { assert_nil settings(env: {"XDG_RUNTIME_DIR" => @folder})[:control] }
    end
    assert_match(/neverblock-proxy\.sock is another proxy's, and this one has none\. Give it one: --control PATH/, said)
  end

  {
    [] => /no upstream given\. For example/,
    [*UPSTREAM, "config.ru"] => /config\.ru: neverblock proxy serves upstreams, and no file/,
    ["--upstream", "ftp://x"] => /"ftp:\/\/x" is not an address/,
    [*UPSTREAM, "--collapse=some"] => /--collapse=some: write on, off or same-url/,
    [*UPSTREAM, "--collapse", "same-url"] => /--collapse same-url: write --collapse=same-url/,
    [*UPSTREAM, "--health", ":9090"] => /":9090" is not a path that begins with "\/", such as \/up\. The address of probes and \/metrics is the directive health/,
    [*UPSTREAM, "--cache", "memory:256"] => /Did you mean memory:256m\?/,
    [*UPSTREAM, "--ttl", "x"] => /--ttl: "x" is not a number/,
    [*UPSTREAM, "--ttl", "-1"] => /--ttl: "-1" is not a number of seconds, more than 0/,
    [*UPSTREAM, "--timeout", "5"] => /--timeout 5: write connect=2/,
    [*UPSTREAM, "--host", "a b"] => /host: "a b" is not :keep, :upstream/,
    [*UPSTREAM, "--trusted-client", "x"] => /trusted_clients: \["x"\]/,
    [*UPSTREAM, "--frobnicate"] => /there is no option --frobnicate\. neverblock proxy --help/,
    [*UPSTREAM, "--timeout", "connect=0"] => /--timeout connect: "0" is not a number of seconds, more than 0/,
    [*UPSTREAM, "--balance", "other"] => /balance: :other is not one of :least, :hash/,
    [*UPSTREAM, "--health", "up"] => /health: path: "up" is not a path that begins with "\/"/,
    ["other", "http://a/"] => /neverblock proxy has no command other\. Its commands are explain, purge, purge-tag/,
    ["explain"] => /proxy explain takes one URL, percent-encoded, and got none/,
    ["explain", "http://a/ b"] => /percent-encoded/,
    ["purge", "http://a/\r\nX: y"] => /percent-encoded/,
    ["explain", "http://a/", "-H", "Accept"] => /-H "Accept" is no field\. Write it as -H 'Accept: text\/html'/,
    ["explain", "http://a/", "-H", "X-A: a\r\nX-B: b"] => /is no field/,
    ["explain", "http://a/", "-H", "X_A: b"] => /is no field/,
    ["explain", "http://a/", "-H", "Host: b"] => /-H "Host: b" has no meaning here: the URL has the host/,
    ["purge", "http://a/", "-H", "Accept: a"] => /invalid option: -H/,
    ["explain", "http://a/"] => /no control socket is known\. Start the proxy with --control PATH/
  }.each do |arguments, message|
    define_method(:"test_#{arguments.join(" ").inspect}_is_refused") do
      status, out, err = cli(*arguments)
      assert_equal [64, ""], [status, out]
      assert_match message, err
    end
  end

  # ---- check-config ----

  def test_a_valid_configuration
    assert_equal [0, "the configuration is valid: tcp://127.0.0.1:8000, a proxy of http://127.0.0.1:3000\n", ""], cli("check-config", *UPSTREAM, "--cache", "file:#{@folder}/cache?bytes=1m")
    refute_path_exists "#{@folder}/cache", "a check makes no folder"
  end

  def test_mistakes_have_a_file_and_a_line
    up = 'upstream "http://127.0.0.1:3000"'
    {
      "upstream \"http://127.0.0.1:3000\",\n  \"ftp://x\"" => /\Aneverblock: proxy\.rb:1: the upstream "ftp:\/\/x"/,
      "#{up}\nproxy options: {host: 5}" => /\Aneverblock: proxy\.rb:2: host: 5 is not/,
      "#{up}\nproxy cache: \"memory:1x\"" => /\Aneverblock: proxy\.rb:2: memory: "1x" is not/,
      "#{up}\nproxy cache: \"memory:1m?over=file:/x\"" => /\Aneverblock: proxy\.rb:2: store: the size of the file store \/x is missing/,
      "#{up}\nproxy cache: \"memory:1m\", cache_options: {wait: -1}" => /\Aneverblock: proxy\.rb:2: wait: -1 is not/,
      "#{up}\nhealth \"/up\"" => /proxy\.rb:2: health "\/up": .*\. For checks of upstreams write proxy options: {health: {path: "\/up"}}/,
      "#{up}\npid_file \"none/server.pid\"" => /\Aneverblock: proxy\.rb:2: pid_file "none\/server\.pid": there is no folder/,
      "#{up}\nprox cache: \"memory:1m\"" => /\Aneverblock: proxy\.rb:2: there is no directive prox/
    }.each do |text, reason|
      File.write("proxy.rb", text)
      assert_equal 64, cli("check-config", "-C", "proxy.rb").first, text
      assert_match reason, cli("check-config", "-C", "proxy.rb").last
    end
  end

  # `neverblock check-config` finds out what it is for.
  def test_check_config_of_a_file_with_upstreams
    File.write("proxy.rb", 'upstream "http://127.0.0.1:3000"')
    check = -> { StringIO.new.then { |out| [NeverBlock::CLI.new(["check-config", "-C", "proxy.rb"], out:, err: out, env: {}).call, out.string] } }
    assert_equal [0, "the configuration is valid: tcp://127.0.0.1:8000, a proxy of http://127.0.0.1:3000\n"], check.call
    File.write("config.ru", "run nil")
    @crowd = "a crowd"
    assert_equal [0, "a crowd\nthe configuration is valid: tcp://127.0.0.1:3000, config.ru\n"], check.call
  end

  def test_a_check_beside_the_running_proxy
    UNIXServer.open("#{@folder}/neverblock-proxy.sock") do
      _, said = capture_io { assert_equal 0, cli("check-config", *UPSTREAM, env: {"XDG_RUNTIME_DIR" => @folder}).first }
      assert_empty said
    end
  end

  def test_help
    assert_match(/--upstream URL.*8000/m, cli("--help")[1])
    assert_match(/Usage: neverblock proxy explain URL.*-H, --header 'NAME: VALUE'/m, cli("explain", "--help")[1])
  end

  # ---- what the server does of it ----

  def test_commands
    cache = NeverBlock::Cache.new(->(_env) { [200, {"cache-control" => "max-age=60", "cache-tag" => "a"}, ["x"]] })
    proxy = NeverBlock::Proxy.new("http://127.0.0.1:9", hosts: ["a.example"])
    NeverBlock::CLI::ProxyCommands.new(proxy, cache).register
    env = {"REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/p", "QUERY_STRING" => "q", "HTTP_HOST" => "a.example", "rack.url_scheme" => "http"}
    2.times { cache.call(env.dup).last.to_enum.to_a }
    assert_equal [true, "key: http://a.example/p?q\na stored response is used: fresh for 59 s\nupstream http://127.0.0.1:9: in use, not asked so far, 0 in flight"], ask("explain", "http://a.example/p?q").then { |good, text| [good, text.sub(/(?<=fresh for )(60|[345]\d)(?= s)/, "59")] }
    assert_equal [true, "refused with 421: this host is not served here"], ask("explain", "http://b.example/")
    assert_equal [true, "1 response removed"], ask("purge", "http://a.example/p?q")
    cache.call(env.dup).last.to_enum.to_a
    assert_equal [true, "1 response removed"], ask("purge-tag", "a")
    assert_equal [true, "0 responses removed"], ask("purge-tag", "a")
    assert_equal false, ask("purge", "nonsense").first
    assert_equal [false, "this app has no command other"], ask("other", "")
  end

  # It is not taken for a purge that has found nothing.
  def test_a_purge_that_fails_is_told
    cache = NeverBlock::Cache.new(->(_env) { [200, {}, []] }, store: "file:#{@folder}/cache?bytes=1m")
    NeverBlock::CLI::ProxyCommands.new(NeverBlock::Proxy.new("http://127.0.0.1:9"), cache).register
    assert_equal [true, "0 responses removed"], ask("purge", "http://a/")
    FileUtils.rm_rf("#{@folder}/cache")
    File.write("#{@folder}/cache", "no folder")
    assert_equal [false, "the store has failed. This process reads nothing from it until it has been emptied; its log has the error. Purge again"], ask("purge", "http://a/")
  end

  def test_a_request_with_headers_is_explained
    cache = NeverBlock::Cache.new(->(_env) { [200, {"cache-control" => "max-age=60", "vary" => "accept, x-a"}, ["x"]] })
    NeverBlock::CLI::ProxyCommands.new(NeverBlock::Proxy.new("http://127.0.0.1:9"), cache).register
    env = {"REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/p", "QUERY_STRING" => "q&url=http://b/", "HTTP_HOST" => "a", "rack.url_scheme" => "http"}
    %w[*/* text/html].each { |accept| cache.call(env.merge("HTTP_ACCEPT" => accept)).last.to_enum.to_a }
    explain = ->(*fields) { ask("explain", NeverBlock::CLI::ProxyQuestion.new("http://a/p?q&url=http://b/", fields).to_s).last.lines(chomp: true)[0..2] }
    key = "key: http://a/p?q&url=http://b/"
    assert_equal [key, "headers of the key: no accept, no x-a", "the upstream is asked, and its response stored if it may be shared; for other headers 2 responses are stored"], explain.call
    hit = explain.call("Accept: */*", "User-Agent: curl/8.5.0")
    assert_equal [key, 'headers of the key: accept "*/*", no x-a'], hit.first(2)
    assert_match(/\Aa stored response is used: fresh for \d+ s; for other headers a response is stored\z/, hit.last)
    assert_equal 'headers of the key: no accept, x-a "b,c & d"', explain.call("x-a:b", "X-A:  c & d ")[1]
    assert_equal 'headers of the key: no accept, no x-a, x-b "b"', explain.call("X-B: b")[1]
    assert_equal "the upstream is asked, and its response is not shared: cookie", explain.call("Cookie: a=1")[1]
  end

  def test_the_state_of_upstreams
    up = {in_flight: 1, down: false, out: false, out_seconds: 0.0, trying: false, requests: {}, checks_passed: 0}
    states = [up, {**up, in_flight: 0}, {**up, in_flight: 0, checks_passed: 1}, {**up, in_flight: 0, requests: {failed: 1}}, {**up, out: true, out_seconds: 2.2}, {**up, out: true}, {**up, out: true, trying: true}, {**up, out: true, out_seconds: 1.0, down: true}]
    proxy = Struct.new(:stats) { def refuse(_env) = nil }.new(states.each_with_index.to_h { |stats, number| ["http://a:#{number}", stats] })
    NeverBlock::CLI::ProxyCommands.new(proxy, nil).register
    assert_equal <<~TEXT.chomp, ask("explain", "http://a/").last.lines.drop(1).join
      upstream http://a:0: in use, 1 in flight
      upstream http://a:1: in use, not asked so far, 0 in flight
      upstream http://a:2: in use, 0 in flight
      upstream http://a:3: in use, 0 in flight
      upstream http://a:4: left alone after failures, for 3 s more, 1 in flight
      upstream http://a:5: left alone after failures: the next request tries it, 1 in flight
      upstream http://a:6: left alone after failures: a request tries it, 1 in flight
      upstream http://a:7: down by its checks, 1 in flight
    TEXT
  end

  def test_without_a_cache
    NeverBlock::CLI::ProxyCommands.new(NeverBlock::Proxy.new("http://127.0.0.1:9"), nil).register
    assert_match(/\Athere is no cache/, ask("explain", "http://a/").last)
    assert_equal [false, "this proxy has no cache. Start it with --cache memory:256m"], ask("purge", "http://a/")
  end

  private

  def ask(name, argument) = NeverBlock::Server::Commands.call(name, argument)
end
