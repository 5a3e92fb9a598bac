# frozen_string_literal: true

require "json"
require_relative "operated_app"
require_relative "serve_process"

module NeverBlockTest
  # Helpers for tests of supervision, for a server with the operated app.
  #
  #   include NeverBlockTest::Supervised
  #   serve(2) { |served| kill(served.workers) && served.until_true("an answer") { answers?(served) } }
  module Supervised
    HEALTH = "health \"unix://\#{Dir.pwd}/health\"\n"

    private

    # @return [TCPSocket] a client whose request runs until the file "go" exists
    def hold(served)
      served.connect.tap do |socket|
        socket << "GET /until?#{served.folder}/go HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        served.until_true("the request") { served.workers.any? { |pid| cmdline(pid).include?(" 1 requests") } }
      end
    end

    def refused?(served)
      served.connect.close
      false
    rescue Errno::ECONNREFUSED
      true
    end

    # @return [Boolean] whether it ends within five seconds
    def ends?(served)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 5
      # real: the server's process
      sleep 0.01 while (running = served.running?) && Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
      !running
    end

    # A server with an app that loads until the file "go" exists.
    def booting(workers = 2)
      app = "File.write('loading', '')\nsleep 0.01 until File.exist?('go')\n#{OperatedApp.text}"
      config = "workers #{workers}\nbind 'tcp://127.0.0.1:0'\npid_file 'server.pid'\naccess_log :common, to: 'access.log'\n"
      ServeProcess.open(app, config:) do |served|
        served.until_true("its load") { File.exist?("#{served.folder}/loading") }
        yield served
      end
    end

    # @return [Integer] the status
    def probe(served, path) = ask(served, path)[/\d{3}/].to_i

    def stats(served) = JSON.parse(ask(served, "/stats").split("\r\n\r\n", 2).last)

    def ask(served, path)
      socket = UNIXSocket.new("#{served.folder}/health")
      socket << "GET #{path} HTTP/1.0\r\n\r\n"
      socket.read
    ensure
      socket&.close
    end

    def kill(pids) = pids.each { |pid| Process.kill(:KILL, pid) }

    # @return [Integer] the youngest template process
    def template(served)
      served.until_true("a template") { served.children.select { |pid| cmdline(pid).match?(/\Aneverblock \S+: template/) }.max }
    end

    # Limits new descriptors: open ones stay.
    def limit_descriptors(served, count) = assert(system("prlimit", "--pid", served.pid.to_s, "--nofile=#{count}:"))

    def sidecar(served) = served.children.find { |pid| cmdline(pid).start_with?("sleep\0") }

    def cmdline(pid)
      File.read("/proc/#{pid}/cmdline")
    rescue SystemCallError
      "" # it has just ended
    end

    # @return [Boolean] whether a request is answered within a second
    def answers?(served, body = "first")
      socket = served.connect
      socket.timeout = 1
      socket << "GET / HTTP/1.0\r\n\r\n"
      socket.read.end_with?(body)
    rescue SystemCallError, IO::TimeoutError
      false
    ensure
      socket&.close
    end

    # @return [Boolean] whether its health address reports readiness
    def ready?(served)
      probe(served, "/readyz") == 200
    rescue SystemCallError
      false # it doesn't listen yet
    end

    # @return [Array<String>] paths of a process's open logs
    def open_logs(pid)
      Dir["/proc/#{pid}/fd/*"].filter_map { |link| File.readlink(link) rescue nil }.grep(/\.log/).uniq # standard:disable Style/RescueModifier
    end

    # @param listens [Boolean] whether to wait for the address on standard error; with a log of its own, it waits for
    #   readiness
    def serve(workers, more = "", app: OperatedApp.text, listens: true, **)
      ServeProcess.open(app, config: "workers #{workers}\nbind 'tcp://127.0.0.1:0'\n#{more}", **) do |served|
        listens ? served.addresses : served.until_true("readiness") { ready?(served) && served.workers.size == workers }
        yield served
      end
    end
  end
end
