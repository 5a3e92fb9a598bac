# frozen_string_literal: true

# wrk, the client of the rows in which every connection sends as soon as it was
# answered: one thread on the client's core.
#
#   Bench::Servers::Wrk.run(3000, row, 2.0)
#   # => {"operations" => 240_000, "wall" => 2.0, "p50" => 0.0002, "p99" => 0.0009, "errors" => 0, "client_busy" => 0.7}
require "json"
require "open3"
require_relative "../bench/failure"
require_relative "core"

module Bench
  class Servers
    module Wrk
      SCRIPT = File.join(__dir__, "wrk.lua")
      PATIENCE = "10s" # for one answer
      CONNECTING = 2_000 # connections a second, at the least: until all are open it measures nothing

      module_function

      # @return [String, nil] its version
      def version
        @version ||= Open3.capture2e("wrk", "-v").first[/\d[\d.]*/]
      rescue Errno::ENOENT
        nil
      end

      # @return [String, nil] what is missing for it
      def missing = ("wrk is not installed: apt-get install -y wrk" unless version)

      # @param port [Integer]
      # @param row [Row]
      # @param seconds [Numeric]
      # @return [Hash{String=>Numeric}]
      # @raise [Failure]
      def run(port, row, seconds)
        seconds = [seconds, row.connections.fdiv(CONNECTING)].max
        busy = children_cpu
        figures = parse(output(command(port, row, seconds), seconds))
        busy = children_cpu - busy
        {"operations" => figures["answers"], "wall" => figures["seconds"], "rate" => figures["answers"] / figures["seconds"],
         **figures.slice("p50", "p99", "longest", "errors"), "client_busy" => busy / figures["seconds"]}
      end

      # Runs the same load without using its figures: it may get no answer at all.
      # @return [void]
      def warm_up(port, row, seconds)
        output(command(port, row, seconds), seconds)
      end

      # @param text [String] the output of wrk with our script
      # @return [Hash{String=>Numeric}]
      # @raise [Failure] where it has no figures
      def parse(text)
        figures = JSON.parse(text[/^\{.*\}$/] || raise(Failure, "wrk printed no figures: #{text.lines.last&.strip}"))
        raise Failure, "no request was answered; #{figures["errors"]} errors" unless figures["answers"].positive?
        figures
      end

      def command(port, row, seconds)
        Core::CLIENT.tie("wrk", "-t1", "-c#{row.connections}", "-d#{seconds.ceil}s", "--timeout", PATIENCE, "-s", SCRIPT,
          "http://127.0.0.1:#{port}#{row.path}", "--", row.verb, row.sent.to_s, *row.fields)
      end
      private_class_method :command

      # wrk takes whole seconds only, and stops early for an INT.
      def output(command, seconds)
        Open3.popen2e(*command, pgroup: true) do |input, output, thread|
          input.close
          unless seconds == seconds.ceil
            thread.join(seconds)
            Process.kill(:INT, thread.pid) if thread.alive?
          end
          output.read
        end
      end
      private_class_method :output

      def children_cpu = Process.times.then { |times| times.cutime + times.cstime }
      private_class_method :children_cpu
    end
  end
end
