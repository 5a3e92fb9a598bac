# frozen_string_literal: true

require "test_helper"
require "support/peer"
require "support/serve_process"
require "json"

# `neverblock serve` and `rackup -s neverblock` as users see them: start, requests, signals.
class ServeTest < Minitest::Test
  include NeverBlockTest::Helpers

  ServeProcess = NeverBlockTest::ServeProcess

  # Responds with its process ID; waits, for the file "go" or for ever; refuses to end.
  APP = <<~'RUBY'
    waits = ->(file) do
      $stdout.syswrite("begun\n")
      sleep(0.01) until file && File.exist?(file) # real: the test's process makes the file
    ensure
      $stdout.syswrite("ensured\n")
    end
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/slow" then waits.call("go")
      when "/stuck" then waits.call(nil)
      when "/stubborn" then begin; waits.call(nil); ensure; sleep; end
      when "/immortal" then begin; waits.call(nil); rescue Exception; retry; end
      when "/fail" then raise "no\nway"
      when "/env" then return [200, {}, [ENV.values_at("RACK_ENV", "RUBY_FIBER_VM_STACK_SIZE", "NEVERBLOCK_BOOT").inspect]]
      when "/deep" then return [200, {}, [(down = ->(n) { n.zero? ? 0 : 1 + down.(n - 1) }) && Deep.down(9_000).to_s]]
      when "/proc" then return [200, {}, [File.read("/proc/self/cmdline"), " ", Process.getrlimit(:NOFILE).first.to_s]]
      end
      [200, {"content-type" => "text/plain"}, ["hello from #{Process.pid}"]]
    end)
    module Deep
      def self.down(n) = n.zero? ? 0 : 1 + down(n - 1)
    end
  RUBY

  slow "it starts servers"
  def test_it_serves_and_ends_with_term
    serve("-p", "0") do |served|
      assert_match(/\AHTTP\/1\.1 200 OK\r\n.*hello from #{served.pid}\z/m, served.get("/"))
      served.signal(:TERM)
      assert_equal 0, served.wait.exitstatus
      lines = served.errors.lines(chomp: true)
      assert_equal 2, lines.size, served.errors
      assert_match(/\A\S+Z \[#{served.pid}\] info: NeverBlock #{NeverBlock::VERSION}, Ruby #{RUBY_VERSION}, \w+: .* at http:\/\/127\.0\.0\.1:\d+\z/, lines[0])
      assert_match(/info: stopped\z/, lines[1])
      assert_raises(Errno::ECONNREFUSED) { served.connect }
    end
  end

  slow "it starts servers"
  def test_requests_have_stacks_as_deep_as_a_thread_s
    [[], ["--yjit"]].each do |ruby|
      next if ruby.any? && !defined?(RubyVM::YJIT)
      serve("-p", "0", ruby:) { |served| assert_match(/\r\n\r\n9000\z/, served.get("/deep")) }
    end
  end

  slow "it starts servers"
  def test_programs_of_the_app_do_not_inherit_that
    serve("-p", "0") { |served| assert_match(/\["development", nil, nil\]\z/, served.get("/env")) }
    serve("-p", "0", environment: {"RUBY_FIBER_VM_STACK_SIZE" => "2000000"}) do |served|
      assert_match(/\["development", "2000000", nil\]\z/, served.get("/env"))
    end
  end

  slow "it starts servers"
  def test_stacks_of_ruby_s_own
    serve(config: "bind 'tcp://127.0.0.1:0'\nstack_depth vm: nil, machine: nil") do |served|
      assert_match(/\AHTTP\/1\.1 500 /, served.get("/deep"))
      served.until_true("the error's line") do
        served.errors.match?(/error: GET \/deep HTTP\/1\.1: SystemStackError: stack level too deep/)
      end
    end
  end

  slow "it starts servers"
  def test_environments
    serve("-p", "0", "-e", "production", environment: {"RACK_ENV" => "test"}) { |served| assert_match(/"production"/, served.get("/env")) }
    serve("-p", "0", environment: {"RACK_ENV" => "test"}) { |served| assert_match(/"test"/, served.get("/env")) }
  end

  slow "it starts servers"
  def test_its_title_and_its_descriptors
    skip "no /proc here" unless File.exist?("/proc/self/cmdline")
    serve("-p", "0", config: "tag 'shop'") do |served|
      title, limit = served.get("/proc")[/\r\n\r\n(.*)\z/m, 1].then { |text| [text[/\A[^\0]*/], text[/\d+\z/].to_i] }
      assert_equal "neverblock #{NeverBlock::VERSION} (tcp://127.0.0.1:#{served.port}) [shop]", title.strip
      assert_equal [21_024, Process.getrlimit(:NOFILE).last].min, [21_024, limit].min
    end
  end

  slow "it starts servers"
  def test_a_configuration_file_and_a_unix_socket
    Dir.mktmpdir("nb") do |folder|
      config = <<~RUBY
        bind "unix://#{folder}/app.sock?mode=0600"
        access_log :json, to: "access.log"
        error_log "error.log"
      RUBY
      serve(config:) do |served|
        served.until_true("the socket") { NeverBlockTest::Peer.accepts?("#{folder}/app.sock") }
        UNIXSocket.open("#{folder}/app.sock") do |socket|
          socket << "GET /fail?x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
          assert_match(/\AHTTP\/1\.1 500 /, socket.read)
        end
        assert_equal 0o600, File.stat("#{folder}/app.sock").mode & 0o777
        served.signal(:TERM)
        assert_equal 0, served.wait.exitstatus
        assert_empty Dir.children(folder)
        access = File.readlines("#{served.folder}/access.log").map { |line| JSON.parse(line) }
        assert_equal [["/fail", "x", 500]], access.map { |line| line.values_at("path", "query", "status") }
        assert_match(/error: GET \/fail\?x HTTP\/1\.1: RuntimeError: no\\nway \|/, File.read("#{served.folder}/error.log"))
        assert_empty served.errors
      end
    end
  end

  slow "it starts servers"
  def test_term_lets_requests_end
    serve_during("/slow") do |served, client|
      served.signal(:TERM)
      stops(served)
      assert_equal 0, served.wait.exitstatus
      assert_match(/hello/, client.value)
      assert_match(/info: stopping: 1 request left, for up to 30 s; a second signal cancels the rest\n.*info: stopped\n\z/, served.errors)
    end
  end

  slow "it starts servers"
  def test_interrupt_is_the_same
    serve_during("/slow") do |served, client|
      served.signal(:INT)
      stops(served)
      assert_equal 0, served.wait.exitstatus
      assert_match(/hello/, client.value)
      refute_match(/Interrupt/, served.errors)
    end
  end

  slow "it starts servers"
  def test_after_the_shutdown_timeout_requests_are_cancelled
    serve_during("/stuck", config: "shutdown_timeout 0.1") do |served, client|
      served.signal(:TERM)
      assert_equal 1, served.wait.exitstatus
      assert_match(/ensured/, served.output)
      assert_match(/stopped; running requests were cancelled/, served.errors)
      assert_match(/\A(HTTP\/1\.1 503 .*)?\z/m, client.value)
    end
  end

  slow "it starts servers"
  def test_a_second_term_stops_at_once
    serve_during("/stuck") do |served, client|
      served.signal(:TERM)
      served.until_true("the first signal to be taken") { refused?(served) }
      assert_predicate served, :running?
      served.signal(:TERM)
      assert_equal 1, served.wait.exitstatus
      assert_match(/ensured/, served.output)
      client.join
    end
  end

  slow "it starts servers"
  def test_a_third_one_ends_it_whatever_a_request_does
    %w[/stubborn /immortal].product(%i[TERM INT]) do |path, signal|
      serve_during(path) do |served, client|
        served.signal(signal)
        served.until_true("the first signal to be taken") { refused?(served) }
        served.signal(signal)
        served.until_true("the second one") { served.output.include?("ensured") }
        assert_predicate served, :running?
        served.signal(signal)
        assert_equal Signal.list.fetch(signal.to_s), served.wait.termsig
        client.join
      end
    end
  end

  slow "it starts servers"
  def test_access_lines_do_not_wait_in_a_buffer
    serve("-p", "0", config: "access_log :common") do |served|
      served.get("/")
      served.until_true("the line") { served.output.match?(/"GET \/ HTTP\/1\.1" 200/) }
      assert_predicate served, :running?
    end
  end

  slow "it starts servers"
  def test_an_address_in_use
    TCPServer.open("127.0.0.1", 0) do |taken|
      uri = "tcp://127.0.0.1:#{taken.local_address.ip_port}"
      serve("-b", uri) do |served|
        assert_equal 1, served.wait.exitstatus
        assert_match(/\Aneverblock: #{uri}: .*in use.*\n\z/, served.errors)
      end
    end
  end

  slow "it starts servers"
  def test_an_app_that_can_not_be_loaded
    ServeProcess.open("require 'no/such/library'", "-p", "0") do |served|
      assert_equal 1, served.wait.exitstatus
      assert_match(/\Aneverblock: config\.ru can't be loaded\n.*cannot load such file -- no\/such\/library \(LoadError\).*config\.ru:1:/m, served.errors)
    end
  end

  slow "it starts servers"
  def test_a_rackup_file_without_an_app
    ServeProcess.open("run 5", "-p", "0") do |served|
      assert_equal 1, served.wait.exitstatus
      assert_equal "neverblock: config.ru runs 5, which is not a Rack app: it does not respond to call\n", served.errors
    end
  end

  slow "it starts servers"
  def test_a_value_that_can_not_be
    serve(config: "\nmax_in_flight 'many'") do |served|
      assert_equal 64, served.wait.exitstatus
      assert_match(/\Aneverblock: config\/neverblock\.rb:2: max_in_flight "many" is not .*\n\z/, served.errors)
    end
  end

  slow "it starts servers"
  def test_port_in_the_environment
    port = NeverBlockTest::Peer.free_port
    serve(environment: {"PORT" => port.to_s}) do |served|
      assert_equal ["http://0.0.0.0:#{port}"], served.addresses
      assert_match(/hello/, served.get("/"))
    end
  end

  slow "it starts servers"
  def test_rackup
    rackup = [Gem.bin_path("rackup", "rackup"), "-s", "neverblock", "-o", "127.0.0.1", "-p", "0", "-E", "none", "-O", "max_in_flight=7", "-O", "tag=x"]
    ServeProcess.open(APP, command: rackup) do |served|
      assert_match(/hello/, served.get("/"))
      assert_match(/x at http:/, served.errors)
      assert_match(/warn: requests have stacks of 128 KiB, where stack_depth asks for 1024/, served.errors)
      served.signal(:INT)
      assert_equal 0, served.wait.exitstatus
      assert_match(/info: stopped$/, served.errors)
    end
  end

  # As the gem refrigerator does.
  FROZEN = <<~'RUBY'
    modules = ->(place) { place.constants(false).reject { |name| place.autoload?(name) }.map { |name| place.const_get(name) }.grep(Module) }
    ours = /\A(NeverBlock|NB|Rack|Rackup|Gem|Bundler)\z/
    modules[Object].reject { |one| one.name.match?(ours) }.flat_map { |one| [one, one.singleton_class, *modules[one]] }.each(&:freeze)
    run ->(env) { [200, {}, ["frozen: #{IO.frozen?}, #{File.open(__FILE__, &:gets).size}"]] }
  RUBY

  # A3 of the review of applications: "can't modify frozen class: IO".
  slow "it starts servers"
  def test_an_app_that_freezes_ruby_s_classes
    [[], ["-w", "1"]].each do |workers|
      ServeProcess.open(FROZEN, "-p", "0", *workers) do |served|
        assert_match(/frozen: true, \d+\z/, served.get("/"))
        served.stop
      end
    end
  end

  # rackup loads the app before it looks for the server.
  slow "it starts servers"
  def test_rackup_with_an_app_that_freezes_ruby_s_classes
    rackup = [Gem.bin_path("rackup", "rackup"), "-s", "neverblock", "-o", "127.0.0.1", "-p", "0", "-E", "none"]
    ServeProcess.open("Thread::Mutex.freeze\nrun ->(env) { }", command: rackup) do |served|
      assert_equal 64, served.wait.exitstatus
      assert_match(/\Aneverblock: can't patch \S+: it is frozen.*NeverBlock::Patches.apply before.*\n\z/, served.errors)
    end
    ServeProcess.open("require 'neverblock/server'\nNeverBlock::Patches.apply\n#{FROZEN}", command: rackup) do |served|
      assert_match(/frozen: true, \d+\z/, served.get("/"))
    end
  end

  # Regression (A5): a concurrency of one started three processes.
  slow "it starts servers"
  def test_a_web_concurrency_of_one_is_this_process
    serve("-p", "0", environment: {"WEB_CONCURRENCY" => "1"}) do |served|
      assert_match(/hello from #{served.pid}\z/, served.get("/"))
      assert_empty served.children
    end
  end

  slow "it starts servers"
  def test_the_example
    folder = File.join(NeverBlockTest::ROOT, "examples", "server")
    serve("-C", "#{folder}/neverblock.rb", "#{folder}/config.ru", environment: {"PORT" => "0"}) do |served|
      assert_match(/stock answered\nprices answered\nreviews answered\n/, served.get("/"))
      assert_match(/that took a second/, served.get("/slow"))
      assert_match(/tick 1\n.*tick 3\n/m, served.get("/ticks?count=3"))
      assert_match(/\AHTTP\/1\.1 404 .*no such page/m, served.get("/other"))
      socket = served.connect
      socket << "POST /words HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 13\r\n\r\none two three"
      assert_match(/3 words\n\z/, socket.read)
      socket.close
      served.signal(:TERM)
      assert_equal 0, served.wait.exitstatus
      assert_equal 5, served.output.lines.grep(/\A127\.0\.0\.1 - - \[.*\] "\w+ \/.* HTTP\/1\.1" \d{3} \d+$/).size
    end
  end

  private

  def serve(*arguments, **options, &)
    ServeProcess.open(APP, *arguments, **options, &)
  end

  # Lets the request end, once the server waits for it.
  def stops(served)
    served.until_true("the stop") { served.errors.include?("info: stopping: 1 request left") }
    File.write("#{served.folder}/go", "")
  end

  # Serves while a client asks for a path whose request has begun.
  # @yieldparam served [ServeProcess]
  # @yieldparam client [Thread] whose value is the response
  def serve_during(path, **)
    serve("-p", "0", **) do |served|
      client = Thread.new { served.get(path) }
      begun(served)
      yield served, client
    end
  end

  def begun(served) = served.until_true("the request") { served.output.include?("begun") }

  def refused?(served)
    served.connect.close
    false
  rescue Errno::ECONNREFUSED
    true
  end
end
