# frozen_string_literal: true

# A server with nginx in front, both on the servers' core, for as long as the block runs.
#
#   Bench::Proxied::Stack.open(contestant, keep: true) do |stack|
#     stack.watch { client.run(stack.port) }      # => {"app_cpu" => 1.2, "nginx_cpu" => 0.7, ...}
#   end
require "fileutils"
require "net/http"
require "tmpdir"
require_relative "../bench/clock"
require_relative "../bench/failure"
require_relative "../servers/core"
require_relative "../servers/launch"
require_relative "../servers/process_tree"
require_relative "../../test/support/peer"

module Bench
  class Proxied
    class Stack
      START = 20 # seconds until it must answer
      NGINX = Servers::Launch::NGINX.find { |path| File.executable?(path) }

      # @return [String, nil] the reason why it can't run
      def self.missing = ("nginx is not installed: apt-get install -y nginx" unless NGINX)

      # @param contestant [Contestant] named "tcp" or "unix"
      # @param keep [Boolean] whether nginx keeps its connections to the server
      # @yieldparam stack [Stack]
      # @return [Object] the block's value
      # @raise [Failure]
      def self.open(contestant, keep:)
        Dir.mktmpdir("nb") do |folder|
          stack = new(folder, contestant, keep)
          begin
            stack.await
            yield stack
          ensure
            stack.stop
          end
        end
      end

      # @return [Integer] nginx's
      attr_reader :port

      def initialize(folder, contestant, keep)
        @folder = folder
        @port, app_port = Array.new(2) { NeverBlockTest::Peer.free_port }
        place = (contestant.name == "unix") ? "unix:#{folder}/app.sock" : "127.0.0.1:#{app_port}"
        uri = (contestant.name == "unix") ? "unix://#{folder}/app.sock" : "tcp://#{place}"
        row = Servers::Row.named("hello_32")
        launch = Servers::Launch.new(Contestant.named("neverblock epoll"), row)
        @app = start(launch.environment, *Servers::Launch.serve(uri, File.join(Servers::Launch::FOLDER, "app.ru")))
        File.write("#{folder}/nginx.conf", configuration(place, keep))
        @nginx = start({}, NGINX, "-e", "stderr", "-p", folder, "-c", "nginx.conf")
      end

      # Waits until it answers.
      # @raise [Failure]
      def await
        deadline = Clock.now + START
        sleep 0.02 until answers? || Clock.now > deadline
        raise Failure, "it did not answer within #{START} s: #{File.read("#{@folder}/log").lines.last(3).join(" / ")}" unless answers?
      end

      # Asks once, since a wrong answer may be a fast one.
      # @param row [Servers::Row]
      # @raise [Failure]
      def expect(row)
        request = Net::HTTPGenericRequest.new(row.verb, !row.sent.zero?, true, row.path)
        request.body = "x" * row.sent unless row.sent.zero?
        response = http { |connection| connection.request(request) }
        raise Failure, "#{row.path} was answered with #{response.code}" unless response.code == "200" && row.right?(response.body)
      end

      # @yieldreturn [Hash{String=>Object}] a client's figures
      # @return [Hash{String=>Object}] those figures, and the processor time of both
      def watch
        app, nginx = [@app, @nginx].map { |pid| Servers::ProcessTree.new(pid) }
        before = [app.cpu, nginx.cpu]
        figures = yield
        {**figures, "app_cpu" => app.cpu - before[0], "nginx_cpu" => nginx.cpu - before[1]}
      end

      # @return [void]
      def stop
        [@nginx, @app].compact.each do |pid|
          Process.kill(:KILL, -pid)
          Process.wait(pid)
        rescue Errno::ESRCH, Errno::ECHILD
          nil # it has ended by itself
        end
      end

      private

      def start(environment, *command)
        Process.spawn(environment, *Servers::Core::SERVER.tie(*command), chdir: @folder, in: File::NULL, out: ["#{@folder}/log", "a"], err: %i[child out], pgroup: true)
      end

      def answers?
        http { |connection| connection.get("/hello").code == "200" }
      rescue SystemCallError, IOError, Timeout::Error
        false
      end

      def http(&) = Net::HTTP.start("127.0.0.1", port, open_timeout: START, read_timeout: START, &)

      # As docs/deploy/nginx.md has it.
      def configuration(place, keep)
        <<~NGINX
          daemon off;
          master_process off;
          worker_processes 1;
          pid #{@folder}/nginx.pid;
          error_log stderr crit;
          events { worker_connections 4096; }
          http {
            access_log off;
            keepalive_requests 1000000000;
            #{%w[client_body proxy fastcgi uwsgi scgi].map { |name| "#{name}_temp_path #{@folder}/#{name};" }.join(" ")}
            upstream app {
              server #{place} fail_timeout=0;
              #{"keepalive 64; keepalive_requests 1000000000;" if keep}
            }
            server {
              listen 127.0.0.1:#{port} backlog=4096;
              location / {
                proxy_pass http://app;
                proxy_http_version 1.1;
                proxy_set_header Connection "#{"close" unless keep}";
                proxy_set_header Host $http_host;
                proxy_set_header X-Forwarded-For $remote_addr;
                proxy_set_header X-Forwarded-Proto $scheme;
                proxy_buffering off;
                proxy_request_buffering off;
              }
            }
          }
        NGINX
      end
    end
  end
end
