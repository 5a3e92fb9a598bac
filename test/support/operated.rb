# frozen_string_literal: true

require "json"
require_relative "operated_app"
require_relative "prometheus_text"
require_relative "serve_process"

module NeverBlockTest
  # What tests of operations do to a server with the operated app, and ask at its health address.
  #
  #   include NeverBlockTest::Operated
  #   serve(2, "drain_delay 1\n") { |served| served.until_true("readiness") { probe("/readyz").first == 200 } }
  module Operated
    private

    def serve(workers, more = "", environment: {}, files: {})
      Dir.mktmpdir("nb") do |folder|
        @health = "#{folder}/health"
        config = "workers #{workers}\nbind 'tcp://127.0.0.1:0'\nhealth 'unix://#{@health}'\n#{more}"
        NeverBlockTest::ServeProcess.open(NeverBlockTest::OperatedApp.text, config:, environment:, files:) do |served|
          served.addresses
          yield served
        end
      end
    end

    # @return [Array(Integer, String)] status and body
    def probe(path)
      socket = UNIXSocket.new(@health)
      socket.timeout = NeverBlockTest::LIMIT
      socket << "GET #{path} HTTP/1.0\r\n\r\n"
      head, body = socket.read.split("\r\n\r\n", 2)
      [head[/\d{3}/].to_i, body]
    rescue Errno::ENOENT, Errno::ECONNREFUSED
      [0, ""]
    ensure
      socket&.close
    end

    def stats = JSON.parse(probe("/stats").last, symbolize_names: true)

    def metrics = NeverBlockTest::PrometheusText.new(probe("/metrics").last)

    def pids = stats[:workers].select { |worker| worker[:state] == "serving" }.map { |worker| worker[:pid] }

    # @return [TCPSocket] whose request runs until it is cancelled
    def hold(served)
      (@held ||= []) << served.connect # or the garbage collection would close it
      @held.last << "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"
      served.until_true("the request") { requests(:in_flight) == @held.size }
      @held.last
    end

    # @return [Integer] of all workers
    def requests(*kinds) = stats[:workers].sum { |worker| kinds.sum { |kind| worker.dig(:stats, kind).to_i } }
  end
end
