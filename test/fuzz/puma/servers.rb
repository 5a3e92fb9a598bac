# frozen_string_literal: true

require "neverblock/server"
require "puma"
require "puma/server"
require_relative "apps"

module NeverBlockPumaFuzz
  # Puma and our server, each in a process of its own with the same apps.
  #
  #   Servers.open do |servers|
  #     servers.ports              # => {ours: 40123, puma: 40124}
  #     servers.restart(:ours)     # after it has ended
  #   end
  #
  # Each has one request at a time, so that a request that is answered on one connection shows that those before it on
  # others have been looked at (Client#settled?). No limit of time ends a request or a connection: the client does.
  class Servers
    LONG = 3_600 # seconds

    # @param engine [String, nil] of our server
    # @yieldparam servers [Servers]
    def self.open(engine: nil)
      servers = new(engine)
      yield servers
    ensure
      servers&.kill
    end

    # @return [Hash{Symbol=>Integer}]
    attr_reader :ports

    def initialize(engine)
      @engine = engine
      @ports = {}
      @pids = {}
      @errors = {}
      %i[ours puma].each { |name| restart(name) }
    end

    # @return [void]
    def restart(name)
      stop(name) if @pids[name]
      reader, writer = IO.pipe
      @errors[name] ||= Tempfile.new("neverblock-fuzz")
      @pids[name] = fork do
        reader.close
        Process.setpgrp
        [$stdout, $stderr].each { |io| io.reopen(@errors[name]) }
        send(name) { |port| writer.puts(port) }
      end
      writer.close
      @ports[name] = Integer(reader.gets || raise("#{name} did not start: #{errors(name)}"))
      reader.close
    end

    # @return [Boolean]
    def running?(name) = Process.wait(@pids[name], Process::WNOHANG).nil?

    # @return [String] the end of what the server has written to its log
    def errors(name) = File.read(@errors[name].path).lines.last(2).join

    # @return [void]
    def kill = @pids.each_key { |name| stop(name) }

    private

    def stop(name)
      Process.kill(:KILL, @pids[name])
      Process.wait(@pids[name])
    rescue Errno::ESRCH, Errno::ECHILD
      nil # it has ended
    end

    def ours
      ENV["NEVERBLOCK_ENGINE"] = @engine if @engine
      server = NeverBlock::Server.new(Apps, bind: "tcp://127.0.0.1:0", early_hints: true, max_in_flight: 1, error_log: $stderr,
        head_timeout: LONG, body_timeout: LONG, idle_timeout: LONG, write_timeout: LONG, min_body_rate: 0, min_answer_rate: 0)
      server.start
      yield server.addresses.first[/\d+\z/]
      sleep
    end

    def puma
      server = Puma::Server.new(Apps, nil, environment: "production", early_hints: true, min_threads: 1, max_threads: 1,
        log_writer: Puma::LogWriter.new($stdout, $stderr), supported_http_methods: Puma::Const::IANA_HTTP_METHODS,
        first_data_timeout: LONG, persistent_timeout: LONG)
      yield server.add_tcp_listener("127.0.0.1", 0).addr[1]
      server.run.join
    end
  end
end
