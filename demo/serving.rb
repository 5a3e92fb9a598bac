# frozen_string_literal: true

# The other side: an ordinary Rack app that sleeps, served by one NeverBlock process, asked by many clients at once,
# and a table of what the server counts meanwhile.
#
#   outcome = Demo::Serving.new(server, screen).run(1_000)
#   outcome.seconds, outcome.right      # => 1.3, 1000
require "neverblock"
require_relative "requests"

module Demo
  class Serving
    # requests: a Requests::Result of the clients; most: requests in the app at the same time; threads: Ruby threads
    # that ran the app; cpu: seconds of the server's processor time; memory: its resident bytes at the most
    Outcome = Struct.new(:requests, :most, :threads, :cpu, :memory)

    LOOK = 0.1 # seconds between two looks at the server's counters

    # @param server [BackEnd] running demo/rack_server.rb
    # @param screen [Screen]
    def initialize(server, screen)
      @server = server
      @screen = screen
    end

    # @param count [Integer] requests
    # @return [Outcome]
    def run(count)
      before = @server.stats
      @most = @memory = @looks = 0
      watcher = Thread.new { watch(count, before) }
      result = Requests.new(@server).under_neverblock(count, Silent.new)
      watcher.kill.join
      after = @server.stats
      look(after)
      draw(count, after, before, result.seconds)
      @screen.picture_done
      Outcome.new(result, @most, after["threads"], after["cpu"] - before["cpu"], @memory)
    end

    # A bar that shows nothing: the table does.
    class Silent
      def advance = nil

      def finish = nil
    end

    private

    def watch(count, before)
      started = now
      loop do
        figures = @server.stats
        look(figures)
        draw(count, figures, before, now - started) if @screen.live?
        sleep LOOK
      end
    rescue SystemCallError, IOError
      nil # the server has gone: the requests say so
    end

    def look(figures)
      @looks += 1
      @most = [@most, figures["in_flight"] - 1].max # but for the one that asks
      @memory = [@memory, figures["memory"]].max
    end

    def draw(count, figures, before, seconds)
      rows = {
        "answered" => "#{(figures["answered"] - before["answered"] - @looks).clamp(0, count)} of #{count}",
        "in the app now" => [figures["in_flight"] - 1, 0].max,
        "in the app at most" => @most,
        "processes, threads" => "1, #{figures["threads"]}",
        "processor time" => format("%.2f s", figures["cpu"] - before["cpu"]),
        "memory" => format("%d MB", figures["memory"] / 1_000_000),
        "time" => format("%.2f s", seconds)
      }
      lines = rows.map { |name, value| format("  %-20s %16s", name, value) }
      @screen.live? ? @screen.picture(lines) : lines.each { |line| @screen.puts(line) }
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
