# frozen_string_literal: true

# slow: it starts servers (10 s)

require "test_helper"
require "support/operated"

# What a server says of itself at its health address: probes, figures, metrics; with workers and without.
class OperationsProbesTest < Minitest::Test
  include NeverBlockTest::Operated

  [0, 2].each do |workers|
    define_method(:"test_probes_with_#{workers}_workers") do
      serve(workers, "drain_delay 600\n") do |served|
        assert_equal [200, "live\n"], probe("/livez")
        served.until_true("readiness") { probe("/readyz") == [200, "ready\n"] }
        assert_equal 404, probe("/").first
        stats = JSON.parse(probe("/stats").last, symbolize_names: true)
        assert_equal({state: "serving", pid: served.pid, version: NeverBlock::VERSION, addresses: served.addresses.map { |uri| uri.sub("http:", "tcp:") }},
          stats.slice(:state, :pid, :version, :addresses))
        assert_equal [workers, 1].max, stats[:workers].size
        served.signal(:TERM)
        served.until_true("no readiness") { probe("/readyz").first == 503 }
        assert_equal 200, probe("/livez").first
        assert_match(/first\z/, served.get("/")) # still accepting
        served.signal(:TERM) # it ends the delay
        assert_equal 0, served.wait.exitstatus, served.errors
      end
    end

    define_method(:"test_metrics_with_#{workers}_workers") do
      serve(workers) do |served|
        3.times { served.get("/") }
        served.until_true("the requests") { metrics["neverblock_requests_answered_total"] == 3 }
        all = metrics
        assert_equal [[workers, 1].max, 1, 1], [all["neverblock_workers", state: "serving"], all["neverblock_live"], all["neverblock_ready"]]
        assert_equal "counter", all.types["neverblock_requests_total"]
        assert_operator all["neverblock_worker_memory_bytes", worker: 0], :>, 1_000_000
        assert_operator all["neverblock_loop_switches_total", worker: 0, loop: 0], :>, 0
        assert_operator all["neverblock_pool_threads_limit", pool: "offload"], :>, 0
      end
    end
  end

  def test_a_loop_that_stands_still_is_seen
    serve(0, "worker_timeout 1\n") do |served|
      socket = served.connect
      socket << "GET /stand?#{served.folder}/go HTTP/1.1\r\nHost: a\r\n\r\n"
      served.until_true("the alarm") { probe("/livez").first == 503 && stats[:state] == "down" }
      File.write("#{served.folder}/go", "")
      served.until_true("its end") { probe("/livez").first == 200 }
    end
  end

  [0, 1].each do |workers|
    define_method(:"test_a_health_port_that_is_taken_with_#{workers}_workers") do
      taken = TCPServer.new("127.0.0.1", 0)
      config = "workers #{workers}\nbind 'tcp://127.0.0.1:0'\nhealth 'tcp://127.0.0.1:#{taken.local_address.ip_port}'\n"
      NeverBlockTest::ServeProcess.open(NeverBlockTest::OperatedApp.text, config:) do |served|
        assert_equal 1, served.wait.exitstatus
        assert_match(%r{\Aneverblock: health tcp://127.0.0.1:\d+: Address already in use[^\n]*\. Stop the process that listens there[^\n]*\n\z}, served.errors)
      end
    ensure
      taken&.close
    end
  end

  # Silent ones, halves of heads, and such as never read their answers: more than the health port has room for.
  [0, 1].each do |workers|
    define_method(:"test_probes_are_answered_whatever_clients_do_with_#{workers}_workers") do
      serve(workers) do |served|
        served.until_true("its first probe") { probe("/readyz").first == 200 }
        kinds = ["", "GET /livez HT", "POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", "GET /stats HTTP/1.1\r\nHost: a\r\n\r\n" * 500]
        clients = Array.new(280) { |n| UNIXSocket.new(@health).tap { |socket| socket.write_nonblock(kinds[n % 4], exception: false) unless kinds[n % 4].empty? } }
        assert_equal [[200, "live\n"], [200, "ready\n"]], %w[/livez /readyz].map { |path| probe(path) }
      ensure
        clients&.each(&:close)
      end
    end
  end
end
