# frozen_string_literal: true

require "net/http"

# wrk asks for one page that is stored. That the app was not asked, and that the body is right, is checked beside it.
#
#   hits = Bench::Cache::Hits.new(row, seconds: 0.5)
#   hits.prepare(server)
#   hits.call(server)      # => {"rate" => 30_000.0, "cpu" => 0.4, "objects" => 900_000, "calls" => 0, ...}
module Bench
  class Cache
    class Hits
      # @param row [Row]
      # @param seconds [Numeric] of a turn
      def initialize(row, seconds:)
        @row = row
        @seconds = seconds
      end

      # Stores the page, and lets YJIT compile.
      # @param server [Servers::Running]
      # @raise [Failure] for a wrong answer
      def prepare(server)
        2.times { check(server) }
        Servers::Wrk.warm_up(server.port, @row, Servers.warm_up(@seconds))
        check(server)
      end

      # @param server [Servers::Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        before = calls(server)
        figures = server.watch { Servers::Wrk.run(server.port, @row, @seconds) }
        {**figures, "calls" => calls(server) - before}
      end

      private

      # Another page is stored by the plain request, for a row of conditional ones.
      def check(server)
        get(server, @row.path).then { |response| wrong(response) unless @row.answer.nil? || right?(response) }
        response = get(server, @row.path, @row.fields)
        wrong(response) unless right?(response)
      end

      def right?(response) = @row.answer ? response.code == "200" && response.body == @row.answer : response.code == "304"

      def wrong(response) = raise(Failure, "#{@row.path} was answered with #{response.code} and #{response.body.to_s.bytesize} wrong bytes")

      def calls(server) = Integer(get(server, "/calls").body)

      # The body as it is sent.
      def get(server, path, fields = FIELDS)
        request = Net::HTTP::Get.new(path, fields.to_h { |field| field.split(": ", 2) })
        Net::HTTP.start("127.0.0.1", server.port, open_timeout: 10, read_timeout: 10) { |http| http.request(request) }
      end
    end
  end
end
