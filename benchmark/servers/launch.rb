# frozen_string_literal: true

# How each server is started: one worker process, as its documentation says for an app
# in production, with what the row asks for.
#
#   launch = Bench::Servers::Launch.new(Contestant.named("puma"), row)
#   launch.missing          # => nil, or why it cannot be started here
#   launch.command(3000)    # => ["/usr/bin/ruby", ".../bin/puma", ...]
require "fileutils"
require "rbconfig"
require_relative "../bench/load_path"
require_relative "core"

module Bench
  class Servers
    class Launch
      FOLDER = __dir__
      STATE = File.join(LoadPath::ROOT, "tmp", "bench")
      THREADS = 5
      WAITING_THREADS = 16 # where requests wait, so that threads have something to offer
      NGINX = [*ENV.fetch("PATH", "").split(":"), "/usr/sbin"].map { |folder| File.join(folder, "nginx") }.freeze

      # @param address [String] such as "tcp://127.0.0.1:3000"
      # @param rackup [String] a path
      # @param root [String] the checkout
      # @return [Array<String>] the command of NeverBlock's server, with one configuration for all benchmarks
      def self.serve(address, rackup, root: LoadPath::ROOT)
        [RbConfig.ruby, File.join(root, "exe", "neverblock"), "serve", "-b", address, "-C", File.join(FOLDER, "start", "neverblock.rb"), rackup]
      end

      attr_reader :contestant

      # @param contestant [Contestant]
      # @param row [Row]
      def initialize(contestant, row)
        @contestant = contestant
        @row = row
      end

      # @return [String, nil] why it cannot be started
      def missing
        return ("nginx is not installed: apt-get install -y nginx-light" unless nginx) if library == "nginx"
        "the gem is not installed: .neverblock/log/bench-bundle.log says why" unless library == "neverblock" || specification
      end

      # @return [String] where it is started
      def folder = FOLDER

      # @return [Core] that it is tied to
      def core = Core::SERVER

      # @return [Boolean] whether it tells how many objects it has made
      def counts_objects? = library != "nginx"

      # @param port [Integer]
      # @return [Array<String>]
      def command(port)
        case library
        when "neverblock" then Launch.serve("tcp://127.0.0.1:#{port}", rackup, root: contestant.root)
        when "falcon" then ruby(executable, "serve", "--bind", "http://127.0.0.1:#{port}", "--count", 1, "--config", rackup)
        when "puma" then ruby(executable, "-b", "tcp://127.0.0.1:#{port}?backlog=4096", "-t", "#{threads}:#{threads}", "-w", 0, "-e", "production", rackup)
        when "iodine" then ruby(executable, "-R", "-b", "http://127.0.0.1:#{port}", "-t", @row.waits ? threads : 1, "-w", 1, rackup)
        when "agoo" then ruby(start("agoo.rb"), port, @row.waits ? threads : 1)
        when "itsi" then ruby(executable, "serve", "-C", start("itsi.rb"), "-b", "http://127.0.0.1:#{port}", "-t", 1, *(["-f", "true"] if @row.waits))
        when "nginx" then [nginx, "-e", "stderr", "-p", STATE, "-c", nginx_configuration(port)]
        end
      end

      # @return [Hash{String=>String, nil}] YJIT is there by the environment, since some start themselves again
      def environment
        own = (library == "neverblock") ? [File.join(contestant.root, "lib")] : []
        LoadPath::UNBUNDLED.merge(
          "RUBY_YJIT_ENABLE" => "1", "RACK_ENV" => "production",
          "CONSOLE_LEVEL" => "error", "RUBYLIB" => [*own, *LoadPath.folders(:rack, library.to_sym)].join(":"), **contestant.environment
        )
      end

      private

      def library = contestant.library

      def ruby(*arguments) = [RbConfig.ruby, *arguments.map(&:to_s)]

      def specification
        name = (library == "itsi") ? "itsi-server" : library
        LoadPath.peers(library.to_sym).find { |specification| specification.name == name }
      end

      def executable = File.join(specification.full_gem_path, specification.bindir, library)

      def rackup = File.join(FOLDER, "app.ru")

      def start(file) = File.join(FOLDER, "start", file)

      def threads = @row.waits ? WAITING_THREADS : THREADS

      def nginx = NGINX.find { |path| File.executable?(path) }

      def nginx_configuration(port)
        FileUtils.mkdir_p(STATE)
        path = File.join(STATE, "nginx.conf")
        File.write(path, File.read(start("nginx.conf")).gsub("FOLDER", STATE).gsub("PORT", port.to_s))
        path
      end
    end
  end
end
