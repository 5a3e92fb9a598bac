# frozen_string_literal: true

require "test_helper"
require "support/served"

# No more fibers can be started: the kernel's limit of memory maps. The server refuses what it can't begin, and goes on.
class ServerFiberLimitTest < Minitest::Test
  include NeverBlockTest::Helpers

  MAPS = "/proc/sys/vm/max_map_count"

  slow "as many fibers as there can be"
  def test_a_handler_that_can_not_be_started
    skip "this system has no vm.max_map_count" unless File.exist?(MAPS)
    skip "vm.max_map_count is raised here: #{File.read(MAPS)}" if File.read(MAPS).to_i > 70_000
    output = assert_ruby(<<~RUBY, environment: {"LIMIT" => ((File.read(MAPS).to_i - 4096) / 2).to_s})
      require "neverblock/server"
      require "socket"
      require "stringio"
      others, gate = [], Queue.new
      app = lambda do |env|
        case env["PATH_INFO"]
        when "/fill"
          room = ENV["LIMIT"].to_i - NeverBlock::Scheduler.current.statistics[:fibers] - 2
          room.times { others << NeverBlock.spawn { sleep } }
          NeverBlock.pass until others.all? { |task| task.inspect.include?("waiting for") }
        when "/free" then others.each(&:cancel)
        when "/wait" then gate.pop
        end
        [200, {}, ["ok"]]
      end
      log = StringIO.new
      server = NeverBlock::Server.new(app, bind: "tcp://127.0.0.1:0", error_log: log).start
      ask = lambda do |path|
        TCPSocket.new("127.0.0.1", server.addresses.first[/\\d+\\z/].to_i).tap { |one| one.write("GET \#{path} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n") }
      end
      status = ->(socket) { socket.read[/\\d{3}/] }
      puts status.(ask.("/fill"))
      waiting = Array.new(8) { ask.("/wait") }
      refusals = -> { server.stats[:refused][:fiber] }
      Thread.pass until server.stats[:in_flight] + refusals.call == 8
      refused = []
      refused = waiting.select { |one| one.wait_readable(0.01) } until refused.size == refusals.call
      puts refused.map(&status).uniq.inspect, refused.any?
      (8 - refused.size).times { gate << 1 }
      puts (waiting - refused).map(&status).uniq.inspect
      puts status.(ask.("/")), status.(ask.("/free")), status.(ask.("/"))
      puts server.stats.values_at(:in_flight, :ready).inspect, log.string.include?("no fiber can be started for it")
      server.stop
    RUBY
    assert_equal ["200", '["503"]', "true", '["200"]', "200", "200", "200", "[0, 0]", "true"], output.lines(chomp: true)
  end
end
