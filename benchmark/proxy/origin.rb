# frozen_string_literal: true

require_relative "../cache/launch"

# What stands behind the proxies, on the client's core: nginx that returns a text, and for crowds the app of bin/bench cache,
# whose report takes a second.
#
#   Bench::Servers::Running.open(Bench::Proxy::Origin.new) { |origin| origin.port }
#   Bench::Servers::Running.open(Bench::Proxy::SlowOrigin.new) { |origin| origin.port }
module Bench
  class Proxy
    class Origin < Servers::Launch
      def initialize = super(Contestant.named("nginx"), Row::ALL.first)

      # @return [Servers::Core]
      def core = Servers::Core::CLIENT

      # @param port [Integer]
      # @return [Array<String>]
      def command(port)
        folder = File.join(STATE, "proxy", "origin")
        FileUtils.mkdir_p(folder)
        path = File.join(folder, "origin.conf")
        page = PAGE.sub("\n", "\\n")
        File.write(path, File.read(File.join(__dir__, "start", "origin.conf")).gsub("FOLDER") { folder }.gsub("PORT", port.to_s).gsub("PAGE") { page })
        [nginx, "-e", "stderr", "-p", folder, "-c", path]
      end
    end

    class SlowOrigin < Bench::Cache::Launch
      def initialize
        super(Contestant.new("alone", "alone", {"NEVERBLOCK_ENGINE" => "epoll"}, "#34495e"), Bench::Cache::Row.named("clients_10000"))
      end

      # @return [Servers::Core]
      def core = Servers::Core::CLIENT
    end
  end
end
