# frozen_string_literal: true

# A processor core that something is tied to: the server has one of its own and the
# client another, so that neither slows the other down.
#
#   Bench::Servers::Core::SERVER.tie("puma", "app.ru")     # => ["taskset", "-c", "0", "puma", "app.ru"]
#   Bench::Servers::Core::SERVER.busy                      # => 812.3, seconds since the machine's start
require "etc"

module Bench
  class Servers
    Core = Data.define(:number) do
      # @return [String, nil] the reason why it can't run
      def self.missing
        return "it needs Linux: it ties processes to cores and reads /proc" unless RUBY_PLATFORM.include?("linux")
        return "it needs two cores, one for the server and one for the client" if Etc.nprocessors < 2
        "taskset is not installed: apt-get install -y util-linux" unless system("taskset", "--version", out: File::NULL, err: File::NULL)
      end

      # @param command [Array<String>]
      # @return [Array<String>] the command that runs it on this core alone
      def tie(*command) = ["taskset", "-c", number.to_s, *command]

      # Ties this process, and what it starts, until the block has ended.
      # @return [Object] the block's value
      def hold
        hold_to(number.to_s)
        yield
      ensure
        hold_to("0-#{Etc.nprocessors - 1}")
      end

      # @return [Float] seconds for which processes, and other virtual machines, have had it
      def busy
        user, nice, system, _idle, _wait, _irq, _softirq, steal = File.read("/proc/stat")[/^cpu#{number} (.*)/, 1].split.map(&:to_i)
        (user + nice + system + steal).fdiv(Etc.sysconf(Etc::SC_CLK_TCK))
      end

      private

      def hold_to(cores) = system("taskset", "-cp", cores, Process.pid.to_s, out: File::NULL)
    end

    Core::SERVER = Core.new(0)
    Core::CLIENT = Core.new(1)
  end
end
