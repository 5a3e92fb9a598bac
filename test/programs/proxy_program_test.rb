# frozen_string_literal: true

# slow: it starts servers (15 s)

require "test_helper"
require "json"
require "support/accounting"
require "support/peer"
require "support/prometheus_text"
require "support/scripted_upstream"
require "support/serve_process"

# `neverblock proxy` as a program: its commands, its logs, and new upstreams without a lost request.
class ProxyProgramTest < Minitest::Test
  include NeverBlockTest::Helpers

  ServeProcess = NeverBlockTest::ServeProcess
  EXE = File.join(NeverBlockTest::ROOT, "exe", "neverblock")

  # Responds with a text for as long as there are requests.
  def upstream(text, *lines)
    response = ["HTTP/1.1 200 OK", *lines, "Content-Length: #{text.bytesize}", "", text].join("\r\n")
    NeverBlockTest::ScriptedUpstream.new(->(peer) { peer << response while peer.request }).tap { |one| (@upstreams ||= []) << one }
  end

  def teardown
    @upstreams&.each(&:close)
    super
  end

  def proxy(*arguments, config: nil)
    ServeProcess.open("", config:, command: [EXE, "proxy", "--port", "0", "--control", "control.sock", *arguments]) do |served|
      served.addresses
      yield served
    end
  end

  def read_health(socket, path)
    UNIXSocket.open(socket) { |io| (io << "GET #{path} HTTP/1.0\r\n\r\n") && io.read.split("\r\n\r\n", 2).last }
  end

  def ask(served, *arguments) = ServeProcess.command(served.folder, "proxy", *arguments, "--control", "control.sock")

  def test_explain_and_purge
    up = upstream("hello", "Content-Type: text/plain")
    proxy("--upstream", up.url, "--ttl", "20", "--collapse=same-url") do |served|
      url = "http://example.org/page?a=b"
      assert_match(/\Akey: #{Regexp.escape(url)}\nthe upstream is asked, and its response stored if it may be shared\nupstream #{up.url}: in use, not asked so far, 0 in flight\n\z/, ask(served, "explain", url))
      2.times { assert_operator served.get("/page?a=b"), :end_with?, "\r\n\r\nhello" }
      assert_equal 1, up.requests.size
      assert_match(/a stored response is used: fresh for \d+ s/, ask(served, "explain", url))
      assert_match(/is not shared: cookie/, ask(served, "explain", url, "-H", "Accept: */*", "-H", "Cookie: a=1; b=2"))
      assert_equal "1 response removed\n", ask(served, "purge", url)
      served.get("/page?a=b")
      assert_equal 2, up.requests.size
      assert_match(/neverblock: proxy explain: .*is not a URL/, ask(served, "explain", "nonsense"))
      served.stop
      assert_match(/no server answers at control.sock/, ask(served, "explain", url))
    end
  end

  # examples/proxy/neverblock.rb, before one that is well and one that is not.
  def test_the_example_asks_the_one_that_is_well
    well = upstream("well", "Cache-Control: max-age=60")
    ill = NeverBlockTest::ScriptedUpstream.new(->(peer) { peer << "HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n" while peer.request })
    @upstreams << ill
    environment = {"UPSTREAMS" => "#{well.url} #{ill.url}", "CONTROL" => "control.sock"}
    ServeProcess.open("", environment:, command: [EXE, "proxy", "--port", "0", "-C", File.join(NeverBlockTest::ROOT, "examples/proxy/neverblock.rb")]) do |served|
      served.addresses
      served.get("/")
      served.until_true("the state of the checks") { ask(served, "explain", "http://a/").include?("upstream #{ill.url}: down by its checks") }
      10.times { |number| assert_operator served.get("/#{number}"), :end_with?, "well" }
      asked = well.requests.size
      10.times { |number| served.get("/#{number}") }
      assert_equal 0, well.requests.drop(asked).grep_v(/\AGET \/up /).size
      assert_match(/^[^ ]+Z \[\d+\] warn: neverblock proxy: upstream #{ill.url}: no more requests, since 2 checks of GET \/up failed. The last: its status is 503/, served.errors)
    end
  end

  # Also after the file was renamed.
  def test_the_error_log_has_the_lines_about_upstreams
    up = upstream("well")
    [0, 1].each do |workers|
      config = "drain_delay 0\nerror_log 'error.log'\nupstream '#{up.url}', 'http://127.0.0.1:9'\nproxy options: {hosts: ['a.example']}"
      Dir.mktmpdir("nb") do |folder|
        command = [EXE, "proxy", "--listen", "unix://#{folder}/s", "--control", "control.sock", "--workers", workers.to_s]
        ServeProcess.open("", config:, command:) do |served|
          log = "#{served.folder}/error.log"
          get = ->(host) { UNIXSocket.open("#{folder}/s") { |io| (io << "GET / HTTP/1.0\r\nHost: #{host}\r\n\r\n") && io.read } }
          served.until_true("the server") { File.exist?(log) && File.read(log).include?("info: NeverBlock") }
          served.until_true("a line") { get.call("a.example") && File.read(log).match?(/^[^ ]+Z \[\d+\] warn: neverblock proxy: upstream http:\/\/127\.0\.0\.1:9: left alone/) }
          File.rename(log, "#{log}.1")
          ServeProcess.command(served.folder, "reopen", "--control", "control.sock")
          served.until_true("a line in the new file") { get.call("b.example") && File.read(log).include?("warn: neverblock proxy: http_request_denied") }
          served.stop
          refute_includes served.errors, "neverblock proxy:"
        end
      end
    end
  end

  def test_several_workers_are_all_asked
    up = upstream("hello", "Cache-Control: max-age=60")
    proxy("--upstream", up.url, "--cache", "memory:1m", "--workers", "2", config: "drain_delay 0") do |served|
      served.until_true("a response of each worker") { served.get("/") && up.requests.size == 2 }
      assert_equal "each of 2 workers: 1 response removed\n", ask(served, "purge", "http://example.org/")
      assert_match(/the upstream is asked/, ask(served, "explain", "http://example.org/"))
    end
  end

  def test_logs_and_metrics
    up = upstream("hello")
    config = "access_log :json, to: 'access.log'\nhealth 'unix://#{Dir.tmpdir}/nb-health-#{Process.pid}'\nupstream '#{up.url}'"
    proxy(config:) do |served|
      served.get("/a")
      line = served.until_true("a line") { File.exist?("#{served.folder}/access.log") && File.read("#{served.folder}/access.log")[/.*\n/] }
      entry = JSON.parse(line)
      assert_equal [up.url, "/a", 200], entry.values_at("upstream", "path", "status")
      assert_operator entry["upstream_connect_seconds"], :<=, entry["upstream_seconds"]
      metrics = read_health("#{Dir.tmpdir}/nb-health-#{Process.pid}", "/metrics")
      assert_equal 1, NeverBlockTest::PrometheusText.new(metrics)["neverblock_upstream_requests_total", outcome: "2xx", upstream: up.url]
    end
  end

  def test_figures_of_the_cache
    up = upstream("hello", "Cache-Control: max-age=60")
    [0, 1].each do |workers|
      health = "#{Dir.tmpdir}/nb-health-#{Process.pid}-#{workers}"
      proxy("--upstream", up.url, "--cache", "memory:1m", "--workers", workers.to_s, config: "drain_delay 0\nhealth 'unix://#{health}'") do |served|
        3.times { served.get("/a") }
        served.get("/a", Cookie: "a=1")
        metrics = served.until_true("the worker's report") do
          read = NeverBlockTest::PrometheusText.new(read_health(health, "/metrics"))
          read if read["neverblock_cache_requests_total", outcome: "bypass"] == 1
        end
        assert_equal [1, 2, 1], %w[miss hit bypass].map { |outcome| metrics["neverblock_cache_requests_total", outcome:, cache: "cache"] }
        assert_equal [1, 1 << 20], %w[entries bytes_limit].map { |name| metrics["neverblock_cache_#{name}"] }
        stats = JSON.parse(read_health(health, "/stats"))
        assert_equal 2, stats.dig("workers", 0, "stats", "runtime", "caches", "cache", "requests", "hit")
      end
    end
  end

  def test_new_upstreams_without_a_lost_request
    first, second = upstream("first"), upstream("second")
    proxy("--workers", "1", config: "drain_delay 0\nupstream '#{first.url}'") do |served|
      accounting = NeverBlockTest::Accounting.new(served.port, clients: 3).start
      served.until_true("responses") { accounting.bodies.key?("first") }
      File.write("#{served.folder}/config/neverblock.rb", "drain_delay 0\nupstream '#{second.url}'")
      assert_match(/1 of 1 workers have been replaced/, ServeProcess.command(served.folder, "reload", "--control", "control.sock"))
      served.until_true("responses of the new one") { accounting.bodies.key?("second") }
      accounting.stop
      assert_empty accounting.lost
      assert_equal %w[first second], accounting.bodies.keys
      served.stop
    end
  end

  def test_a_reload_keeps_what_is_in_files_and_no_memory
    {"memory:1m" => /NeverBlock; fwd=uri-miss/, "file:/FOLDER/cache?bytes=1m" => /NeverBlock; hit/}.each do |store, outcome|
      up = upstream("well", "Cache-Control: max-age=60")
      Dir.mktmpdir("nb") do |folder|
        proxy("--upstream", up.url, "--cache", store.sub("/FOLDER", folder), "--workers", "1", config: "drain_delay 0") do |served|
          served.get("/a")
          assert_match(/1 of 1 workers have been replaced/, ServeProcess.command(served.folder, "reload", "--control", "control.sock"))
          assert_match(outcome, served.get("/a"))
          served.stop
        end
      end
    end
  end

  # With one process the old program would be gone before the next one finds the mistake.
  def test_a_reload_of_one_process_with_a_mistake_in_the_file
    up = upstream("well")
    good = "upstream '#{up.url}'"
    proxy(config: good) do |served|
      reload = ->(text) { File.write("#{served.folder}/config/neverblock.rb", text) && ServeProcess.command(served.folder, "reload", "--control", "control.sock") }
      File.write("#{served.folder}/file", "")
      {
        "upstream 'ftp://x'" => /config\/neverblock\.rb:1: the upstream "ftp:\/\/x" is not an address/,
        "#{good}\nproxy options: {out_for: -1}" => /config\/neverblock\.rb:2: out_for: -1 is not a number of seconds/,
        "#{good}\n\nproxy cache: 'memory:1x'" => /config\/neverblock\.rb:3: memory: "1x" is not a number of bytes/,
        "#{good}\nproxy cache: 'memory:1m', cache_options: {wiat: 1}" => /config\/neverblock\.rb:2: .*wiat/,
        "#{good}\nproxy cache: 'file:#{served.folder}/file?bytes=1m'" => /config\/neverblock\.rb:2: the cache's folder .*\/file is not a folder/,
        "" => /no upstream given/
      }.each do |text, reason|
        assert_match(/reload: the program can't be started again; this one goes on: .*#{reason}/, reload.call(text))
        assert_operator served.get("/"), :end_with?, "well"
      end
      assert_match(/the app has been loaded/, reload.call("#{good}\nproxy cache: 'file:#{served.folder}/cache?bytes=1m'"))
      served.stop
    end
  end

  # The template of a server finds the socket of that server.
  def test_no_worker_takes_its_own_control_socket_for_another_one_s
    up = upstream("well")
    Dir.mktmpdir("nb") do |folder|
      command = [EXE, "proxy", "--port", "0", "--upstream", up.url, "--workers", "1"]
      ServeProcess.open("", config: "drain_delay 0", environment: {"XDG_RUNTIME_DIR" => folder}, command:) do |served|
        served.addresses
        assert_operator served.get("/"), :end_with?, "well"
        served.stop
        refute_match(/another proxy's/, served.errors)
      end
    end
  end

  def test_a_configuration_that_is_wrong
    assert_match(/\Aneverblock: no upstream given/, ServeProcess.command(Dir.tmpdir, "proxy"))
    assert_match(/\Aneverblock: .*there is no store|\Aneverblock: store/, ServeProcess.command(Dir.tmpdir, "proxy", "--upstream", "http://127.0.0.1:9", "--cache", "other:1m"))
  end
end
