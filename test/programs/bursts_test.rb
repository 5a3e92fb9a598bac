# frozen_string_literal: true

# slow: it starts servers (15 s)

require "test_helper"
require "support/serve_process"
require "json"

# A burst of requests that compute, as any app has after a deployment, on a whole server: nobody is refused, and probes
# are answered meanwhile.
class BurstsTest < Minitest::Test
  include NeverBlockTest::Helpers

  APP = <<~RUBY
    run(lambda do |_env|
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.05
      nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
      [200, {"content-type" => "text/plain"}, ["computed"]]
    end)
  RUBY

  [0, 2].each do |workers|
    define_method(:"test_with_#{workers}_workers") do
      Dir.mktmpdir("nb") do |folder|
        health = "#{folder}/health"
        config = "workers #{workers}\nbind 'tcp://127.0.0.1:0'\nhealth 'unix://#{health}'\n"
        NeverBlockTest::ServeProcess.open(APP, config:) do |served|
          served.addresses
          served.until_true("readiness") { probe(health, "/readyz").start_with?("HTTP/1.1 200") }
          sockets = Array.new(100) { served.connect.tap { |socket| socket << "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" } }
          probes = 0
          until sockets.last.wait_readable(0)
            %w[/livez /readyz].each { |path| assert_match(%r{\AHTTP/1\.1 200 }, probe(health, path)) }
            probes += 1
          end
          assert_operator probes, :>=, 3
          sockets.each { |socket| assert_match(/\AHTTP\/1\.1 200 .*computed\z/m, socket.read) }
          refused = JSON.parse(probe(health, "/stats")[/\{.*/m])["workers"].sum { |worker| worker["stats"]["refused"].values.sum }
          assert_equal 0, refused
          refute_match(/ warn: /, served.errors)
        end
      end
    end
  end

  private

  def probe(health, path)
    Timeout.timeout(NeverBlockTest::ServeProcess::LIMIT) do
      UNIXSocket.open(health) do |socket|
        socket << "GET #{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        socket.read
      end
    end
  rescue Errno::ENOENT, Errno::ECONNREFUSED
    ""
  end
end
