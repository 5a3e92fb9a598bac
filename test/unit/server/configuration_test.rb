# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "neverblock/server/configuration"
require "tempfile"

# The directives, set in code, by a file, and by a command line.
class ServerConfigurationTest < Minitest::Test
  Configuration = NeverBlock::Server::Configuration
  Directives = NeverBlock::Server::Directives

  # Values of the directives that config/neverblock.rb doesn't set.
  DEFAULTS = {
    bind: [], backlog: 1024, max_in_flight: 1000, queue_limit: 5000, queue_max_wait: 2.0, max_queue_time: nil, max_connections: 20_000,
    max_connections_per_address: nil, max_streams: 10_000, max_requests_per_connection: nil, head_timeout: 15, body_timeout: 30, min_body_rate: 500, min_body_rate_after: 10, min_answer_rate: 500, min_answer_rate_after: 30,
    idle_timeout: 75, write_timeout: 30, request_timeout: nil, slow_request: 60, linger_timeout: 2, shutdown_timeout: 30,
    max_head_size: 64 << 10, max_uri_length: 12 << 10, max_header_count: 100, max_body_size: 1 << 30,
    body_memory: 64 << 10, body_quota: 4 << 30, request_body: :buffer, request_body_path: nil,
    cancel_on_disconnect: false, underscore_headers: :drop, early_hints: false, stack_depth_vm: 1 << 20,
    stack_depth_machine: 2 << 20, access_log: false, access_log_to: $stdout, error_log: $stderr, environment: nil, tag: nil,
    workers: 0, directory: nil, boot_timeout: 60, worker_timeout: 60, recycle_memory: nil, recycle_requests: nil, sidecar: [],
    before_fork: [], after_fork: [], before_worker_exit: [], drain_delay: nil, health: nil, control: nil, pid_file: nil,
    restart_file: "tmp/restart.txt", trusted_proxies: [], trusted_proxies_field: :x_forwarded,
    upstream: [], proxy_cache: nil, proxy_collapse: nil, proxy_ttl: nil, proxy_options: {}, proxy_cache_options: {}
  }.freeze

  def test_the_environment_is_that_of_the_first_variable
    before = ENV.to_h.slice("APP_ENV", "RACK_ENV", "RAILS_ENV")
    {{} => ["development", 0], {"RAILS_ENV" => "production"} => ["production", 5], {"RACK_ENV" => "", "RAILS_ENV" => "test"} => ["test", 0],
     {"RACK_ENV" => "staging", "RAILS_ENV" => "production"} => ["staging", 5], {"APP_ENV" => "development", "RACK_ENV" => "production"} => ["development", 0]}.each do |variables, expected|
      %w[APP_ENV RACK_ENV RAILS_ENV].each { |name| ENV[name] = variables[name] }
      configuration = NeverBlock::Server::Configuration.new
      assert_equal expected, [configuration.environment, configuration.drain_delay], variables
      configuration.set(:environment, "other")
      assert_equal ["other", 5], [configuration.environment, configuration.drain_delay]
    end
  ensure
    %w[APP_ENV RACK_ENV RAILS_ENV].each { |name| ENV[name] = before[name] }
  end

  # The parser has room for so many.
  def test_more_header_fields_than_a_head_can_have
    most = NeverBlock::ResponseParser::MAX_FIELDS
    assert_equal most, Configuration.new(max_header_count: most)[:max_header_count]
    error = assert_raises(NeverBlock::ConfigurationError) { Configuration.new(max_header_count: most + 1) }
    assert_equal "max_header_count #{most + 1} is not a whole number, from 1 to #{most}. For example: max_header_count 50", error.message
  end

  def test_defaults
    assert_equal DEFAULTS, Configuration.new.to_h
    assert_equal ["tcp://127.0.0.1:3000"], Configuration.new.addresses.map(&:to_s)
  end

  def test_keywords_are_directives
    configuration = Configuration.new(max_in_flight: 3, queue: {limit: 4, max_wait: 0.5}, bind: "tcp://127.0.0.1:0",
      access_log: :json, access_log_to: "log/a", max_body_size: "10 MiB", request_timeout: 1.5r)
    expected = {max_in_flight: 3, queue_limit: 4, queue_max_wait: 0.5, access_log: :json, access_log_to: "log/a",
                max_body_size: 10 << 20, request_timeout: 1.5r}
    assert_equal DEFAULTS.merge(expected), configuration.to_h.merge(bind: [])
    assert_equal ["tcp://127.0.0.1:0"], configuration.addresses.map(&:to_s)
    assert_equal ["tcp://[::1]:1", "unix:///a"], Configuration.new(bind: ["tcp://[::1]:1", "unix:///a"]).addresses.map(&:to_s)
  end

  def test_flat_names_of_keywords
    assert_equal 7, Configuration.new(queue_limit: 7)[:queue_limit]
    assert_raises(KeyError) { Configuration.new[:queue] }
    assert Configuration.new(queue_limit: 7).set?(:queue_limit)
    refute Configuration.new(queue_limit: 7).set?(:queue_max_wait)
  end

  def test_proxies
    configuration = Configuration.new(trusted_proxies: ["10.0.0.0/8", "fd00::/8", "unix", IPAddr.new("192.0.2.7/30")])
    assert_equal ["10.0.0.0/8", "fd00::/8", "unix", "192.0.2.4/30"], configuration[:trusted_proxies]
    four = "\0" * 10 + "\xFF\xFF"
    networks = [["#{four}\x0A\0\0\0".b, 104], ["\xFD#{"\0" * 15}".b, 8], ["#{four}\xC0\0\x02\x04".b, 126]]
    assert_equal [networks, true, false], configuration.to_core.values_at(:trusted_networks, :trusts_local, :forwarded_field)
    assert_equal [[], false, false], Configuration.new.to_core.values_at(:trusted_networks, :trusts_local, :forwarded_field)
    assert Configuration.new(trusted_proxies: "::1", trusted_proxies_field: :forwarded).to_core[:forwarded_field]
    %w[10.0.0.0/33 localhost fe80::1%eth0 10.0.0 any].each do |wrong|
      assert_raises(NeverBlock::ConfigurationError, wrong) { Configuration.new(trusted_proxies: wrong) }
    end
    error = assert_raises(NeverBlock::ConfigurationError) { Configuration.new(trusted_proxies_field: :forwarded).check }
    assert_match(/\Atrusted_proxies field: :forwarded means nothing without proxies/, error.message)
  end

  def test_a_copy_is_one
    first = Configuration.new(max_in_flight: 3)
    second = first.dup.set(:max_in_flight, 4)
    assert_equal [3, 4], [first, second].map { |configuration| configuration[:max_in_flight] }
  end

  # A wrong value of each kind, with the parts of its message: the directive, the value, the allowed values, the remedy.
  {
    {max_in_flight: "many"} => ['max_in_flight "many"', "whole number, 1 or more", "max_in_flight 200"],
    {max_in_flight: 0} => ["max_in_flight 0", "1 or more"],
    {max_in_flight: 1.5} => ["max_in_flight 1.5"],
    {max_in_flight: 1 << 31} => ["max_in_flight 2147483648"],
    {max_in_flight: nil} => ["max_in_flight nil"],
    {max_in_flight: [1, 2]} => ["max_in_flight [1, 2]"],
    {head_timeout: 0} => ["head_timeout 0", "seconds, more than 0", "head_timeout 5"],
    {head_timeout: -1.0} => ["head_timeout -1.0"],
    {head_timeout: Float::NAN} => ["head_timeout NaN"],
    {head_timeout: Float::INFINITY} => ["head_timeout Infinity"],
    {head_timeout: "5"} => ['head_timeout "5"'],
    {head_timeout: nil} => ["head_timeout nil"],
    {request_timeout: false} => ["request_timeout false", "or nil"],
    {max_body_size: "10 miles"} => ['max_body_size "10 miles"', "64 KiB"],
    {max_body_size: -1} => ["max_body_size -1"],
    {max_body_size: 1 << 60} => ["max_body_size"],
    {max_head_size: 10} => ["max_head_size 10", "1024 or more"],
    {early_hints: 1} => ["early_hints 1", "true or false"],
    {underscore_headers: :keep} => ["underscore_headers :keep", ":drop, :pass"],
    {access_log: true} => ["access_log true", "false, :common, :json"],
    {access_log_to: 3} => ["access_log to: 3", "a path, or an IO"],
    {error_log: ""} => ['error_log ""'],
    {environment: " "} => ['environment " "'],
    {request_body_path: "uploads"} => ['request_body path: "uploads"', "begins with /"],
    {request_body_path: []} => ["request_body path: []"],
    {queue: 3} => ["queue 3", "limit: and max_wait:", "queue limit: 500"],
    {queue: {limt: 3}} => ["queue limt:", "it takes limit:, max_wait:"],
    {queue: {limit: -1}} => ["queue limit: -1", "0 or more"],
    {queue: {}} => ["queue needs a value", "queue limit:"],
    {max_in_flight: {limit: 3}} => ["max_in_flight limit:", "no keywords"],
    {bind: 3000} => ["bind 3000", "tcp://127.0.0.1:3000"],
    {bind: "127.0.0.1:3000"} => ['bind "127.0.0.1:3000"', "tcp://", "unix://"],
    {bind: "http://127.0.0.1:3000"} => ["there is no http://"],
    {bind: "tcp://127.0.0.1:99999"} => ["port 99999"],
    {bind: ["tcp://127.0.0.1:1", "tcp://::1:3"]} => ['bind "tcp://::1:3"', "brackets"]
  }.each do |directives, parts|
    define_method(:"test_refuses_#{directives}") do
      error = assert_raises(NeverBlock::ConfigurationError) { Configuration.new(**directives) }
      parts.each { |part| assert_includes error.message, part }
      assert_kind_of NeverBlock::Error, error
    end
  end

  def test_unknown_directives_get_a_suggestion
    {
      max_in_fligt: "Did you mean max_in_flight?", threads: "Here the word is max_in_flight", port: "Here the word is bind",
      persistent_timeout: "Here the word is idle_timeout", prune_bundler: "That is a word of Puma's. Needs nothing: ", xyzzy: "docs/configuration.md"
    }.each do |name, part|
      error = assert_raises(NeverBlock::ConfigurationError) { Configuration.new(name => 1) }
      assert_includes error.message, "there is no directive #{name}."
      assert_includes error.message, part
    end
  end

  def test_names_of_other_servers_lead_to_directives
    assert_empty Directives::ELSEWHERE.values - Directives::ALL.keys
    assert_empty Directives::ELSEWHERE.keys & Directives::ALL.keys
  end

  def test_every_example_and_every_default_is_allowed
    Directives::ALL.each_value do |directive|
      written("#{directive.example}\n") { |path| assert_includes Configuration.load(path).inspect, directive.name.to_s }
      directive.settings.reject { |setting| setting.default == [] }.each do |setting|
        assert_equal [setting.default], [setting.type.take(setting.default)], setting.name
      end
      refute_empty directive.says
    end
  end

  def test_an_assignment_in_a_file_is_no_directive
    written("mine = 3\nmax_in_flight = mine + 2\n") do |path|
      error = assert_raises(NeverBlock::ConfigurationError) { Configuration.load(path) }
      assert_equal "#{path}: max_in_flight = 5 assigns a local variable and sets no directive. Write: max_in_flight 5", error.message
    end
  end

  def test_contradictions
    error = assert_raises(NeverBlock::ConfigurationError) { Configuration.new(max_body_size: "2 MiB", body_quota: "1 MiB").check }
    assert_match(/body_quota "1 MiB" is less than max_body_size "2 MiB"/, error.message)
    error = written("\nrequest_body :buffer, path: '/u'") do |path|
      assert_raises(NeverBlock::ConfigurationError) { Configuration.load(path).check }
    end
    assert_match(/:2: request_body path: \["\/u"\] has no meaning .* request_body :stream/, error.message)
    error = assert_raises(NeverBlock::ConfigurationError) { Configuration.new(max_uri_length: "128 KiB").check }
    assert_equal 'max_uri_length "128 KiB" is more than max_head_size "64 KiB", of which it is a part. Raise that, or lower it', error.message
    Configuration.new(max_head_size: "8 KiB").check
    error = assert_raises(NeverBlock::ConfigurationError) { Configuration.new(access_log_to: "log/a").check }
    assert_equal 'access_log to: "log/a" writes nothing without a format. Write: access_log :common, to: "log/a"', error.message
    error = assert_raises(NeverBlock::ConfigurationError) { Configuration.new(access_log_to: "log/a", body_quota: 1).check }
    assert_equal %w[body_quota access_log], error.message.lines.map { |line| line[/\A\w+/] }
    [{max_body_size: "1 MiB", body_quota: "1 MiB"}, {access_log: false, access_log_to: "log/a"}].each do |directives|
      configuration = Configuration.new(**directives)
      assert_same configuration, configuration.check
    end
  end

  # ---- files ----

  def test_a_file
    configuration = load_text(<<~RUBY)
      bind "tcp://127.0.0.1:1"
      bind "unix:///run/app.sock?mode=0660", "tcp://[::1]:2"
      max_in_flight Integer("2") * 2
      queue limit: 5, max_wait: 0.5
      queue limit: 6
      request_body :stream, path: ["/uploads", "/import"]
      access_log :json, to: "log/access.log"
      slow_request nil
    RUBY
    assert_equal %w[tcp://127.0.0.1:1 unix:///run/app.sock tcp://[::1]:2], configuration.addresses.map(&:to_s)
    assert_equal [4, 6, 0.5], [:max_in_flight, :queue_limit, :queue_max_wait].map { |name| configuration[name] }
    assert_equal [:stream, %w[/uploads /import]], [configuration[:request_body], configuration[:request_body_path]]
    assert_equal [:json, "log/access.log", nil], [configuration[:access_log], configuration[:access_log_to], configuration[:slow_request]]
  end

  def test_a_file_s_addresses_take_the_place_of_earlier_ones_and_give_way_to_later_ones
    configuration = Configuration.new(bind: "tcp://127.0.0.1:1")
    written("bind 'tcp://127.0.0.1:2'\nbind 'tcp://127.0.0.1:3'") { |path| configuration.load(path) }
    assert_equal [2, 3], configuration.addresses.map(&:port)
    assert_equal [4], configuration.set(:bind, "tcp://127.0.0.1:4").addresses.map(&:port)
  end

  {
    "\nmax_in_flight :many" => ":2: max_in_flight :many is not a whole number",
    "queue do\nend" => ":1: queue needs a value",
    "\n\n[1].each do |n|\n  head_timeout n - 1\nend" => ":4: head_timeout 0 ",
    "def wrong\n  idle_timeout(-1)\nend\n\nwrong" => ":2: idle_timeout -1 ",
    "\n\nmax_conections 3" => ":3: there is no directive max_conections. Did you mean max_connections?",
    "\nmax_in_flight = 3\nmax_in_flite" => ":3: there is no directive max_in_flite",
    "\nInteger('x')" => ":2: invalid value for Integer()",
    "\nNoSuchConstant" => ":2: uninitialized constant",
    "\nrequire 'no/such/library'" => ":2: cannot load such file",
    "\nbind" => ":2: bind needs a value. For example: bind \"tcp://127.0.0.1:3000\"",
    "\nmax_in_flight 1, 2" => ":2: max_in_flight 1, 2: one value is expected"
  }.each do |text, message|
    define_method(:"test_a_file_with_#{text.inspect}") do
      written(text) do |path|
        error = assert_raises(NeverBlock::ConfigurationError) { Configuration.load(path) }
        assert_includes error.message, "#{path}#{message}"
      end
    end
  end

  # Line numbers of a file's errors.
  {
    "workers(-2)\nbind 3000\n\nmax_conections 3\nhead_timeout 5" => [1, 2, 4],
    "max_in_flight 0\nInteger('x')\nworkers(-2)" => [1, 2], # evaluation can't go on here
    "workers(-2)\nmax_in_flight thredas\nhead_timeout 0" => [1, 2],
    "max_in_flight(-1, 2); head_timeout 0\nidle_timeout 0" => [1, 2],
    "bind address_of('x').to_s\nworkers(-2)" => [1, 2], # a consequence of the reported error
    "queue limt: 3 do\nend\nthreds { }\n2.times { workers(-1) }" => [1, 3, 4]
  }.each do |text, lines|
    define_method(:"test_all_mistakes_of_#{text.inspect}") do
      written(text) do |path|
        error = assert_raises(NeverBlock::ConfigurationError) { Configuration.load(path) }
        assert_equal lines.map { |line| "#{path}:#{line}" }, error.message.lines.map { |line| line[/\A.*?:\d+/] }
      end
    end
  end

  def test_all_assignments_and_refusals
    written("workers(-2)\nmax_in_flight = 5\nbind = 1") do |path|
      error = assert_raises(NeverBlock::ConfigurationError) { Configuration.load(path) }
      assert_equal ["#{path}:1: workers", "#{path}: max_in_flight = 5", "#{path}: bind = 1"], error.message.lines.map { |line| line[/\A\S+ \w+( = \d)?/] }
    end
  end

  def test_a_file_with_a_syntax_error
    written("\nbind 'a") do |path|
      error = assert_raises(NeverBlock::ConfigurationError) { Configuration.load(path) }
      assert_match(/\A#{Regexp.escape(path)}:2: .*unterminated string/m, error.message) # Ruby's parser's words
    end
  end

  def test_a_file_that_is_not_there
    error = assert_raises(NeverBlock::ConfigurationError) { Configuration.load("no/such/file.rb") }
    assert_equal "no/such/file.rb can't be read: No such file or directory. Name an existing file", error.message
  end

  # ---- text ----

  def test_text
    {
      [:max_in_flight, "20"] => 20, [:max_in_flight, "1_000"] => 1000, [:queue_max_wait, "0.5"] => 0.5,
      [:max_body_size, "10 MiB"] => 10 << 20, [:max_body_size, "1gb"] => 1_000_000_000, [:max_body_size, "123"] => 123,
      [:request_timeout, "off"] => nil, [:request_timeout, "3"] => 3.0, [:early_hints, "no"] => false, [:early_hints, "TRUE"] => true,
      [:underscore_headers, "pass"] => :pass, [:access_log, "false"] => false, [:access_log, "json"] => :json,
      [:error_log, "a/b"] => "a/b", [:request_body_path, "/a,/b"] => %w[/a /b], [:tag, "shop"] => "shop"
    }.each do |(name, text), value|
      read = Configuration.new.read(name, text)[name]
      assert_equal [value], [read], "#{name}=#{text}"
    end
    assert_equal ["unix:///a"], Configuration.new.read(:bind, "unix:///a").addresses.map(&:to_s)
  end

  def test_text_that_is_refused
    [[:max_in_flight, "x"], [:max_in_flight, "0"], [:queue_max_wait, "soon"], [:early_hints, "maybe"], [:access_log, "xml"],
      [:bind, "nowhere"], [:request_timeout, "-1"], [:queue, "3"]].each do |name, text|
      error = assert_raises(NeverBlock::ConfigurationError) { Configuration.new.read(name, text, at: "-O #{name}") }
      assert_match(/\A-O #{name}: /, error.message)
    end
  end

  # ---- values for the C core ----

  def test_settings_for_the_core
    names = %i[max_in_flight queue_limit queue_max_wait max_queue_time max_connections max_connections_per_address max_streams head_timeout body_timeout min_body_rate min_body_rate_after
      min_answer_rate min_answer_rate_after idle_timeout write_timeout request_timeout slow_request linger_timeout max_head_size max_uri_length max_header_count
      max_body_size body_memory body_quota stream_paths max_requests_per_connection cancel_on_disconnect pass_underscores
      early_hints log_requests trusted_networks trusts_local forwarded_field]
    core = Configuration.new.to_core
    assert_equal names.sort, core.keys.sort
    assert_equal [nil, false, false], core.values_at(:stream_paths, :pass_underscores, :log_requests)
    assert_equal [true, true, true],
      Configuration.new(request_body: :stream, underscore_headers: :pass, access_log: :common).to_core.values_at(:stream_paths, :pass_underscores, :log_requests)
    assert_equal %w[/u], Configuration.new(request_body: :stream, request_body_path: "/u").to_core[:stream_paths]
    assert core.except(:trusted_networks).values.all? { |value| value.nil? || value == true || value == false || value.is_a?(Numeric) }
  end

  private

  def written(text)
    Tempfile.create(["neverblock", ".rb"]) do |file|
      file.write(text)
      file.close
      yield file.path
    end
  end

  def load_text(text) = written(text) { |path| Configuration.load(path) }
end
