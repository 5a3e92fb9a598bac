# frozen_string_literal: true

require "fileutils"
require_relative "../servers/launch"

# How each proxy is started: one process with one thread of work, in front of the origin.
#
#   launch = Bench::Proxy::Launch.new(contestant, row, 3000)
#   launch.command(8000)      # => ["/usr/sbin/haproxy", "-db", "-f", ...]
module Bench
  class Proxy
    class Launch < Servers::Launch
      START = File.join(__dir__, "start")
      PROGRAMS = {"nginx" => "nginx", "haproxy" => "haproxy", "varnish" => "varnishd"}.freeze

      # @param name [String] of a program
      # @return [String, nil] its path
      def self.program(name)
        [*ENV.fetch("PATH", "").split(":"), "/usr/sbin"].map { |folder| File.join(folder, name) }.find { |path| File.executable?(path) }
      end

      # @param contestant [Contestant]
      # @param row [Row]
      # @param upstream [Integer] the origin's port
      def initialize(contestant, row, upstream)
        super(contestant, row)
        @upstream = upstream
      end

      # @return [String, nil] why it cannot be started
      def missing
        return if library == "neverblock"
        "#{library} is not installed: apt-get install -y #{library}" unless program
      end

      # @return [String] where it is started
      def folder = File.join(STATE, "proxy", "#{contestant.name.tr(" ", "_")}-#{@row.id}")

      # @return [Boolean] a proxy has no page about itself
      def counts_objects? = false

      # With an empty cache.
      # @param port [Integer]
      # @return [Array<String>]
      def command(port)
        FileUtils.rm_rf(folder)
        FileUtils.mkdir_p(folder)
        case library
        when "neverblock" then neverblock(port)
        when "nginx" then [program, "-e", "stderr", "-p", folder, "-c", configured("nginx.conf", port)]
        when "haproxy" then [program, "-db", "-f", configured("haproxy.cfg", port)]
        when "varnish"
          [program, "-F", "-j", "none", "-n", folder, "-a", "127.0.0.1:#{port}", "-f", configured("varnish.vcl", port), "-s", "malloc,256m", "-T", "none",
            "-p", "listen_depth=4096", "-p", "timeout_idle=3600"]
        end
      end

      private

      def program = Launch.program(PROGRAMS.fetch(library))

      def neverblock(port)
        [RbConfig.ruby, File.join(LoadPath::ROOT, "exe", "neverblock"), "proxy", "--listen", "tcp://127.0.0.1:#{port}",
          "--upstream", "http://127.0.0.1:#{@upstream}", *(["--cache", "memory:256m"] if @row.cached), "-C", File.join(START, "neverblock.rb")]
      end

      def configured(name, port)
        path = File.join(folder, name)
        File.write(path, File.read(File.join(START, name)).gsub("FOLDER", folder).gsub("UPSTREAM", @upstream.to_s).gsub("PORT", port.to_s))
        path
      end
    end
  end
end
