# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/puma_files"
require "json"
require "tmpdir"

# Puma configurations: the directives that each word becomes, and the messages.
class ServerFromPumaTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::PumaFiles

  Configuration = NeverBlock::Server::Configuration
  FromPuma = NeverBlock::Server::FromPuma

  # The files of `rails new`, without comments: of Rails 7.1, 7.2, and 8.0 and 8.1.
  RAILS = {
    "7.1" => <<~RUBY,
      max_threads_count = ENV.fetch("RAILS_MAX_THREADS") { 5 }
      min_threads_count = ENV.fetch("RAILS_MIN_THREADS") { max_threads_count }
      threads min_threads_count, max_threads_count
      if ENV["RAILS_ENV"] == "production"
        worker_count = Integer(ENV.fetch("WEB_CONCURRENCY") { 1 })
        workers worker_count if worker_count > 1
        preload_app! unless worker_count > 1
      end
      worker_timeout 3600 if ENV.fetch("RAILS_ENV", "development") == "development"
      port ENV.fetch("PORT") { 3000 }
      environment ENV.fetch("RAILS_ENV") { "development" }
      pidfile ENV.fetch("PIDFILE") { "tmp/pids/server.pid" }
      plugin :tmp_restart
    RUBY
    "7.2" => <<~RUBY,
      threads_count = ENV.fetch("RAILS_MAX_THREADS", 3)
      threads threads_count, threads_count
      port ENV.fetch("PORT", 3000)
      plugin :tmp_restart
      pidfile ENV["PIDFILE"] if ENV["PIDFILE"]
    RUBY
    "8.1" => <<~RUBY
      threads_count = ENV.fetch("RAILS_MAX_THREADS", 3)
      threads threads_count, threads_count
      port ENV.fetch("PORT", 3000)
      plugin :tmp_restart
      plugin :solid_queue if ENV["SOLID_QUEUE_IN_PUMA"]
      pidfile ENV["PIDFILE"] if ENV["PIDFILE"]
    RUBY
  }.freeze

  # Lines and the directives that they set; DIR is the folder of the file.
  BECOMES = {
    'bind "tcp://127.0.0.1:1?low_latency=false&backlog=7"' => {bind: ["tcp://127.0.0.1:1"], backlog: 7},
    'bind "tcp://127.0.0.1:1"; bind "unix:///run/a%20b.sock"' => {bind: ["tcp://127.0.0.1:1", "unix:///run/a b.sock"]},
    'bind "unix://tmp/puma.sock"' => {bind: ["unix://DIR/tmp/puma.sock"]},
    'bind "tcp://127.0.0.1:1"; clear_binds!; bind "tcp://127.0.0.1:2"' => {bind: ["tcp://127.0.0.1:2"]},
    'bind "ssl://127.0.0.1:9?key=a&cert=b"; bind "tcp://127.0.0.1:1"' => {bind: ["tcp://127.0.0.1:1"]},
    'port "80", "127.0.0.1"' => {bind: ["tcp://127.0.0.1:80"]},
    'set_default_host "::1"; port 80; bind "tcp://#{default_host}:81".sub("::1", "[::1]")' => {bind: ["tcp://[::1]:80", "tcp://[::1]:81"]}, # standard:disable Lint/InterpolationCheck
    "bind 'tcp://127.0.0.1:1'; port 2, '::1'; set_remote_address proxy_protocol: :v1" => {bind: ["tcp://127.0.0.1:1?proxy=required", "tcp://[::1]:2?proxy=required"]},
    "bind 'unix:///a?umask=0111'; set_remote_address proxy_protocol: :v1" => {bind: ["unix:///a?proxy=required"]},
    "bind 'tcp://127.0.0.1:1'; bind_to_activated_sockets 'only'" => {bind: ["tcp://127.0.0.1:1"]},
    "ENV['LISTEN_FDS'] = '1'; bind 'tcp://127.0.0.1:1'; bind_to_activated_sockets :only" => {},
    "ENV['LISTEN_FDS'] = '1'; bind 'tcp://127.0.0.1:1'; bind_to_activated_sockets" => {bind: ["tcp://127.0.0.1:1"]},
    "threads 3, 5" => {},
    "threads 1" => {max_in_flight: 1},
    'threads "0", "1"' => {max_in_flight: 1},
    "first_data_timeout 40" => {head_timeout: 40},
    "persistent_timeout '30'" => {idle_timeout: 30},
    "idle_timeout 60" => {},
    "max_keep_alive 10" => {max_requests_per_connection: 10},
    "max_fast_inline Float::INFINITY" => {max_requests_per_connection: nil},
    "max_keep_alive nil" => {},
    "enable_keep_alives false" => {max_requests_per_connection: 1},
    "enable_keep_alives false; max_keep_alive 9" => {max_requests_per_connection: 1},
    "enable_keep_alives" => {},
    "http_content_length_limit 1_000" => {max_body_size: 1_000},
    "http_content_length_limit nil" => {},
    "early_hints" => {early_hints: true},
    "early_hints nil" => {early_hints: false},
    "workers 2" => {workers: 2},
    "workers '2'" => {workers: 2},
    "workers nil" => {workers: 0},
    "workers :auto" => {workers: :auto},
    "workers 'auto'" => {workers: :auto},
    "worker_timeout 3600" => {worker_timeout: 3600},
    "worker_boot_timeout 90" => {boot_timeout: 90},
    "worker_shutdown_timeout 8" => {shutdown_timeout: 8},
    "force_shutdown_after 20; worker_shutdown_timeout 8" => {shutdown_timeout: 8},
    "worker_shutdown_timeout 8; force_shutdown_after 4.5" => {shutdown_timeout: 4.5},
    "force_shutdown_after" => {shutdown_timeout: 366 * 86_400},
    "force_shutdown_after :immediately" => {shutdown_timeout: 0},
    "workers 1; cluster { tag 'many' }; single { tag 'one' }" => {workers: 1, tag: "many"},
    "cluster { tag 'many' }; single { tag 'one' }" => {tag: "one"},
    "environment :staging" => {environment: "staging"},
    "directory '.'" => {directory: "DIR"},
    "pidfile 'tmp/puma.pid'" => {pid_file: "DIR/tmp/puma.pid"},
    "tag 'shop'" => {tag: "shop"},
    "tag ''" => {},
    "activate_control_app 'unix:///run/puma.sock', {auth_token: 'x'}" => {control: "/run/puma.sock"},
    "activate_control_app 'unix://tmp/puma.sock', no_token: true" => {control: "DIR/tmp/puma.sock"},
    "activate_control_app 'tcp://127.0.0.1:9'" => {},
    "activate_control_app" => {},
    "Dir.mkdir('tmp'); activate_control_app" => {control: "DIR/tmp/neverblock.sock"},
    "log_requests" => {access_log: :common},
    "log_requests; quiet" => {access_log: false},
    "quiet false; stdout_redirect 'out', 'err', true" => {access_log: :common, access_log_to: "DIR/out", error_log: "DIR/err"},
    "stdout_redirect 'out', 'err'; log_requests" => {access_log: :common, access_log_to: "DIR/out", error_log: "DIR/err"},
    "stdout_redirect 'out'" => {},
    "plugin :solid_queue" => {sidecar: ["bundle exec rake solid_queue:start"]},
    "Dir.mkdir('bin'); File.write('bin/jobs', ''); plugin 'solid_queue'; solid_queue_mode :async" => {sidecar: ["bin/jobs"]},
    "plugin :tailwindcss; plugin :litestream" => {sidecar: ["bin/rails tailwindcss:watch[always]", "bin/rails litestream:replicate"]},
    "plugin :some_other" => {},
    "inject { tag 'in' }" => {tag: "in"},
    "workers 3; tag get(:workers).to_s + get(:nothing, 'x')" => {workers: 3, tag: "3x"},
    "File.write('b.rb', %(bind 'tcp://127.0.0.1:2'; load 'config/puma.rb')); load 'b.rb'; bind 'tcp://127.0.0.1:1'" => {bind: ["tcp://127.0.0.1:1", "tcp://127.0.0.1:2"]},
    "preload_app!; prune_bundler; fork_worker; queue_requests false; silence_single_worker_warning; debug; shutdown_debug on_force: true" => {},
    "require 'set'; workers Set[1, 2].size if true" => {workers: 2},
    "def so_many = 4\nworkers so_many" => {workers: 4},
    "workers defined?(ErrorLog) ? 1 : 7" => {workers: 7} # no constant of ours is visible
  }.freeze

  BECOMES.each do |text, settings|
    define_method(:"test_becomes_#{text}") do
      reading(text) do |configuration|
        kept = configuration.to_h.reject { |name, _| !configuration.set?(name) }
        kept[:bind] &&= kept[:bind].map(&:to_s)
        assert_equal settings, kept.transform_values { |value| moved(value) }
        assert_operator configuration.notes.size, :>=, 1 unless text.start_with?("inject", "cluster")
      end
    end
  end

  def test_modes_of_unix_sockets
    {"umask=0111" => 0o666, "umask=0117&backlog=5" => 0o660, "mode=770" => 0o770, "mode=0770&umask=0" => 0o770}.each do |query, mode|
      reading("bind 'unix:///run/a.sock?#{query}'") { |configuration| assert_equal mode, configuration.addresses.first.mode }
    end
  end

  def test_a_port_is_on_all_addresses_of_the_machine
    reading("port 3000") do |configuration|
      assert_includes ["tcp://[::]:3000", "tcp://0.0.0.0:3000"], configuration.addresses.join
      assert_equal "config/puma.rb:1: port 3000: here bind #{configuration.addresses.join.inspect}", configuration.notes.join
    end
  end

  # ---- messages ----

  {
    "threads 3, 3" => "threads 3, 3: sets nothing: each process runs up to max_in_flight (1,000 by default) requests at a time",
    "threads 1" => "threads 1: here max_in_flight 1: one request at a time. If the app is thread-safe, take it out",
    "persistent_timeout 30" => "persistent_timeout 30: here idle_timeout 30",
    "idle_timeout 30" => "idle_timeout 30: Has no counterpart: with Puma it ends a server without requests for so long.",
    "activate_control_app 'unix:///a.sock', {auth_token: 'secret'}" => "activate_control_app \"unix:///a.sock\", {…}: here control \"/a.sock\"",
    "on_worker_boot { }" => "on_worker_boot { }: here after_fork, where there are workers",
    "out_of_band { }" => "out_of_band { }: Is not run: ",
    "preload_app! false" => "preload_app! false: The template always loads the app once, and forks.",
    "bind 'unix://@abstract'; bind 'tcp://127.0.0.1:1'" => "bind \"unix://@abstract\": left out: a unix socket has a path here",
    "ssl_bind '0.0.0.0', 9, key_pem: 'secret'; port 1" => "ssl_bind \"0.0.0.0\", 9, {…}: left out: There is no TLS here yet",
    "plugin :yabeda" => "plugin :yabeda: works inside of Puma, and is not loaded",
    "stdout_redirect '/a/out', '/a/err'" => "stdout_redirect \"/a/out\", \"/a/err\": here error_log \"/a/err\"; the app's own output stays"
  }.each do |text, note|
    define_method(:"test_says_of_#{text}") do
      reading(text) { |configuration| assert_includes configuration.notes.first, "config/puma.rb:1: #{note}" }
    end
  end

  def test_notes_are_lines_in_the_order_of_the_file_and_without_secrets
    reading("workers 2\n\npidfile 'a'\nactivate_control_app 'unix:///a', auth_token: 'secret'") do |configuration|
      assert_equal [1, 3, 4], configuration.notes.map { |note| note[/\Aconfig\/puma\.rb:(\d+): /, 1].to_i }
      assert(configuration.notes.none? { |note| note.match?(/secret|`|\n/) })
    end
  end

  RAILS.each do |version, text|
    {{} => 0, {"PORT" => "4000", "RAILS_MAX_THREADS" => "7", "PIDFILE" => "a.pid", "RAILS_ENV" => "production", "WEB_CONCURRENCY" => "2",
               "SOLID_QUEUE_IN_PUMA" => "1"} => 1}.each do |variables, number|
      define_method(:"test_reads_what_rails_#{version}_writes_#{number}") do
        with_environment(variables) do
          reading(text) do |configuration|
            assert_equal [variables.fetch("PORT", "3000").to_i], configuration.addresses.map(&:port)
            assert_equal variables.fetch("RAILS_ENV", "development"), configuration.environment
            assert_operator configuration.notes.size, :>=, 3
            configuration.check
          end
        end
      end
    end
  end

  # ---- unsupported words ----

  REFUSED = {
    "\nworkres 2" => ":2: Puma has no directive workres. Did you mean workers?",
    "metrics_url 'x'" => ":1: Puma has no directive metrics_url. docs/from-puma.md has them all; if one of Puma's plugins brings it, write: … if respond_to?(:metrics_url)",
    "daemonize" => ":1: Puma has no directive daemonize. Puma left it out with version 5",
    "\n\nport" => ":3: port: wrong number of arguments (given 0, expected 1..2)",
    "port 'http'" => ":1: port \"http\": invalid value for Integer(): \"http\"",
    "port 99999" => ":1: bind \"tcp://",
    "threads 5, 3" => ":1: threads 5, 3: the minimum of threads (5) is more than the maximum (3)",
    "threads 0" => ":1: threads 0: the number of threads (0) is not above 0",
    "bind 'http://127.0.0.1:1'" => ":1: bind \"http://127.0.0.1:1\": there is no http://; use tcp:// or unix://",
    "workers 'many'" => ":1: workers \"many\": invalid value for Integer(): \"many\"",
    "worker_timeout 0" => ":1: worker_timeout 0 is not a number of seconds",
    "before_fork" => ":1: before_fork: it takes a block",
    "on_worker_boot(3) { }" => ":1: on_worker_boot 3 { }: its key 3 is not a String or Symbol",
    "directory '/no/such'" => ":1: directory \"/no/such\": there is no such directory",
    "set_remote_address 3" => ":1: set_remote_address 3: it takes :socket,",
    "\nraise 'not here'" => ":2: not here (RuntimeError)",
    "\nbind 'a" => ":2: ",
    "rackup DefaultRackup" => ":1: uninitialized constant ",
    "\n\nrackup DefaultRackup" => "DefaultRackup (NameError). Puma left it out with version 6",
    "workers 1\ncluster { nonsense }" => ":2: Puma has no directive nonsense.",
    "cluster" => ":1: cluster: it takes a block",
    "\nload 'none.rb'" => ":2: load \"none.rb\": there is no such file in "
  }.freeze

  # Errors that Puma finds when it starts.
  LATER = ["port 99999", "bind 'http://127.0.0.1:1'", "directory '/no/such'", "\nload 'none.rb'"].freeze

  REFUSED.each do |text, message|
    define_method(:"test_refuses_#{text.inspect}") do
      error = assert_raises(NeverBlock::ConfigurationError) { reading(text) }
      assert_includes error.message, message.sub(/\A:/, "config/puma.rb:")
    end
  end

  # What belongs to Puma's own code, which isn't loaded, and need not be installed.
  {
    "threads 5\n@options[:pidfile] = false" => ":2: @options belongs to Puma's own code, and does not exist here. Write the word for it, such as pidfile " \
      "(docs/from-puma.md has them all), and for what only Puma needs: … if defined?(Puma)",
    "\nworkers 2 if @options.key?(:workers)" => ":2: @options belongs",
    "@config.options" => ":1: @config belongs",
    "\nrequire 'puma/none'" => ":2: cannot load such file -- puma/none (LoadError). Puma is not loaded to read its configuration, and need not be installed. " \
      "Write: if defined?(Puma)",
    "\nrequire 'nonesuch/puma'" => ":2: cannot load such file -- nonesuch/puma (LoadError)"
  }.each do |text, message|
    define_method(:"test_names_the_remedy_for_#{text.inspect}") do
      error = assert_raises(NeverBlock::ConfigurationError) { reading(text) }
      assert_includes error.message, message.sub(/\A:/, "config/puma.rb:")
      refute_includes error.message, "if defined?(Puma)" if text.include?("nonesuch")
    end
    next if text.include?("none")
    define_method(:"test_the_remedy_helps_for_#{text.inspect}") do
      reading(text.lines.map { |line| line.include?("@") ? "if defined?(Puma)\n\#{line}\nend" : line }.join) { |configuration| configuration.check }
    end
  end

  def test_a_word_can_be_asked_for
    reading("metrics_url 'x' if respond_to?(:metrics_url)\ntag 'a' if respond_to?(:tag)") { |configuration| assert_equal "a", configuration[:tag] }
  end

  def test_an_assignment_is_ruby_s_own
    reading("workers = 3\nthreads = 5\nworkers workers") { |configuration| assert_equal 3, configuration[:workers] }
  end

  def test_addresses_that_are_all_left_out
    reading("ssl_bind '0.0.0.0', 9292") do |configuration|
      error = assert_raises(NeverBlock::ConfigurationError) { configuration.puma.complain }
      assert_match(/\Aconfig\/puma\.rb:1: ssl_bind "0\.0\.0\.0", 9292: no address is left to listen on/, error.message)
      configuration.set(:bind, "tcp://127.0.0.1:0").puma.complain
    end
  end

  # ---- choice of the file ----

  def test_a_puma_configuration_is_known_by_its_name
    %w[config/puma.rb puma.rb /srv/shop/config/puma.rb config/puma/production.rb config/puma/web].each { |path| assert FromPuma.file?(path), path }
    %w[config/neverblock.rb config/my_puma.rb puma.txt puma/config/a.rb config/puma.rb.old].each { |path| refute FromPuma.file?(path), path }
  end

  def test_any_file_can_be_said_to_be_one
    reading("threads 1", file: "web.rb", puma: true) { |configuration| assert_equal 1, configuration[:max_in_flight] }
    error = assert_raises(NeverBlock::ConfigurationError) { reading("threads 1", file: "web.rb") }
    assert_match(/there is no directive threads/, error.message)
  end

  def test_ours_can_follow
    reading("threads 3\nbind 'tcp://127.0.0.1:1'\npersistent_timeout 20") do |configuration|
      File.write("config/neverblock.rb", "max_in_flight 50\nbind 'tcp://127.0.0.1:2'")
      configuration.load("config/neverblock.rb")
      assert_equal [50, 20, [2]], [configuration[:max_in_flight], configuration[:idle_timeout], configuration.addresses.map(&:port)]
    end
  end

  def test_puma_s_variables_for_the_environment
    {{"RAILS_ENV" => "staging"} => "staging", {"APP_ENV" => "a", "RACK_ENV" => "b"} => "a", {"RACK_ENV" => "b", "RAILS_ENV" => "c"} => "b"}.each do |variables, name|
      with_environment(variables) { reading("") { |configuration| assert_equal name, configuration.environment } }
    end
  end

  # ---- the table ----

  # Puma's own words; names that begin with _ are not for files.
  def test_every_word_of_puma_has_a_row
    skip "puma is not among the gems here" unless Gem.loaded_specs.key?("puma")
    words = assert_ruby(<<~RUBY, gems: true).split.map(&:to_sym)
      $VERBOSE = nil
      require "puma"
      require "puma/configuration"
      puts Puma::DSL.public_instance_methods(false)
    RUBY
    assert_operator words.size, :>, 80
    assert_empty words.grep_v(/\A_/) - FromPuma.rows.flat_map(&:names), "without a row in lib/neverblock/server/from_puma/"
  end

  # Without plugins, which are separate gems.
  slow "it loads Puma in a process of its own"
  def test_puma_takes_and_refuses_the_same_files
    skip "puma is not among the gems here" unless Gem.loaded_specs.key?("puma")
    ours = BECOMES.keys.grep_v(/plugin/).product([true]) + (REFUSED.keys - LATER).product([false])
    verdicts = Dir.mktmpdir { |folder| JSON.parse(assert_ruby(<<~RUBY, gems: true)) }
      $VERBOSE = nil
      $stdout, out = $stderr, $stdout
      require "puma"
      require "puma/configuration"
      require "json"
      verdicts = #{ours.map(&:first).inspect}.each_with_index.map do |text, index|
        Dir.mkdir("#{folder}/\#{index}")
        Dir.chdir("#{folder}/\#{index}") do
          Dir.mkdir("config")
          File.write("config/puma.rb", text)
          $stderr = File.open(File::NULL, "w")
          Puma::Configuration.new(config_files: ["config/puma.rb"]).clamp
          true
        rescue ScriptError, StandardError
          false
        end
      end
      out.puts JSON.generate(verdicts)
    RUBY
    assert_equal ours, ours.map(&:first).zip(verdicts)
  end

  def test_rows_say_something_once_and_name_directives_that_there_are
    names = FromPuma.rows.flat_map(&:names)
    assert_equal names.uniq, names
    FromPuma.rows.each do |row|
      assert_match(/\A[A-Z`].*\.\z/, row.says.gsub(/\(.*\)/, "").strip, row.name)
      assert_empty row.here - NeverBlock::Server::Directives::ALL.keys, row.name
    end
  end

  def test_puma_is_not_loaded
    Dir.mktmpdir do |folder|
      File.write("#{folder}/puma.rb", "threads 3\nplugin :tmp_restart\nbefore_fork { }\nPuma.stats")
      said = assert_ruby(<<~RUBY)
        require "neverblock/server"
        begin
          NeverBlock::Server::Configuration.load("#{folder}/puma.rb")
        rescue NeverBlock::ConfigurationError => error
          puts error.message
        end
        p defined?(Puma)
      RUBY
      assert_match(/puma\.rb:4: uninitialized constant .*\. Puma is not loaded to read its configuration\. Write: if defined\?\(Puma\)\nnil\n\z/, said)
    end
  end

  private

  def with_environment(variables)
    ENV.update(variables)
    yield
  ensure
    variables.each_key { |name| ENV.delete(name) }
  end
end
