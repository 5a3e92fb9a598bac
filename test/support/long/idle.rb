# frozen_string_literal: true

require_relative "watched_server"

module NeverBlockTest
  # Measures the cost of idle connections.
  #
  #   Idle.new(10_000).call   # => {connections: 10000, bytes: 812, kept: 10000, …}
  class Idle
    BASE = 32
    PROGRAM = File.join(__dir__, "crowd.rb")

    # @param connections [Integer]
    def initialize(connections)
      @connections = connections
    end

    # @return [Hash{Symbol=>Numeric}] :bytes of PSS per connection, above those of a warm server with 32; :answered and
    #   :kept, the number of answers at first, and again at the end
    def call
      WatchedServer.open(queue_limit: 2 * @connections, queue_max_wait: 60) do |server|
        crowd(server.port) do |ask|
          ask.call("open #{BASE}")
          20.times { ask.call("ask") }
          before = server.at_rest(staying: BASE)
          answered = ask.call("open #{@connections}")
          full = server.at_rest(staying: BASE + @connections)
          kept = ask.call("ask") - BASE
          {connections: @connections, answered:, kept:, bytes: (full["pss"] - before["pss"]).fdiv(@connections).round,
           rss: (full["rss"] - before["rss"]).fdiv(@connections).round, objects: (full["objects"] - before["objects"]).fdiv(@connections).round(3),
           pss_before: before["pss"], pss_full: full["pss"]}
        end.tap { |result| result[:left] = server.at_rest["descriptors"] }
      end
    end

    private

    # @yieldparam ask [Proc] sends a command to the crowd and returns its number
    def crowd(port)
      limit = Process.getrlimit(:NOFILE).last
      from, input = IO.pipe
      output, to = IO.pipe
      pid = WatchedServer.spawn(PROGRAM, port.to_s, in: from, out: to, rlimit_nofile: [limit, limit])
      [from, to].each(&:close)
      ask = lambda do |command|
        input.puts(command)
        raise Minitest::Assertion, "the crowd does not answer" unless output.wait_readable(120)
        output.gets.to_i
      end
      value = yield(ask)
      input.close
      Process.wait(pid)
      pid = nil
      value
    ensure
      Process.kill(:KILL, pid) && Process.wait(pid) if pid
      [input, output].each(&:close)
    end
  end
end
