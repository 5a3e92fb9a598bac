# frozen_string_literal: true

# slow: it starts servers (20 s)

require "test_helper"
require "support/serve_process"
require "json"

# Requests that whole servers refuse or accept, with probes meanwhile; with workers and without.
class RefusalsTest < Minitest::Test
  include NeverBlockTest::Helpers

  APP = <<~RUBY
    run(lambda do |_env|
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.05
      nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
      [200, {"content-type" => "text/plain"}, ["computed"]]
    end)
  RUBY

  [0, 2].each do |workers|
    # As any app gets them after a deployment.
    define_method(:"test_a_burst_of_requests_that_compute_with_#{workers}_workers") do
      serve(workers) do |served|
        sockets = Array.new(100) { served.connect.tap { |socket| socket << "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" } }
        probes = 0
        served.until_true("the end of the burst") do
          %w[/livez /readyz].each { |path| assert_equal 200, probe(path).first }
          probes += 1
          sockets.last.wait_readable(0)
        end
        assert_operator probes, :>=, 3
        sockets.each { |socket| assert_match(/\AHTTP\/1\.1 200 .*computed\z/m, socket.read) }
        assert_equal 0, refused.values.sum
        refute_match(/ warn: /, served.errors)
      end
    end

    define_method(:"test_refused_requests_are_told_and_counted_with_#{workers}_workers") do
      serve(workers) do |served|
        5.times { served.connect.tap { |socket| socket << "GET / HTTP/1.1\r\n\r\n" }.then { |socket| assert_match(/\AHTTP\/1\.1 400 /, socket.read) } }
        served.until_true("the counters") { refused.reject { |_, count| count.zero? } == {"bad_request" => 5} }
        served.until_true("the lines") { served.errors.scan(LINE).sum { |count| count.first&.to_i || 1 } == 5 }
      end
    end
  end

  LINE = /warn: bad_request: a request from 127\.0\.0\.1 is refused with 400: no Host(?: \(the last of (\d+) in \d+\.\d s\))?$/

  private

  def serve(workers)
    Dir.mktmpdir("nb") do |folder|
      @health = "#{folder}/health"
      config = "workers #{workers}\nbind 'tcp://127.0.0.1:0'\nhealth 'unix://#{@health}'\n"
      NeverBlockTest::ServeProcess.open(APP, config:) do |served|
        served.addresses
        served.until_true("readiness") { probe("/readyz").first == 200 }
        yield served
      end
    end
  end

  # @return [Hash{String=>Integer}] by reason, summed over the workers
  def refused
    workers = JSON.parse(probe("/stats").last)["workers"]
    workers.map { |worker| worker.dig("stats", "refused") }.compact.reduce({}) { |all, one| all.merge(one) { |_, a, b| a + b } }
  end

  # @return [Array(Integer, String)] status and body; 0 if the port isn't open yet
  def probe(path)
    Timeout.timeout(NeverBlockTest::LIMIT) do
      UNIXSocket.open(@health) do |socket|
        socket << "GET #{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        head, body = socket.read.split("\r\n\r\n", 2)
        [head[/ (\d+)/, 1].to_i, body]
      end
    end
  rescue Errno::ENOENT, Errno::ECONNREFUSED
    [0, ""]
  end
end
