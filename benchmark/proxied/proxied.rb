# frozen_string_literal: true

# bin/bench proxied: nginx in front of the server, reaching it by TCP and by a unix socket;
# a comparison promised in 2008. nginx and the server share one core, the client has another.
#
#   Bench::Proxied.new(options).run      # => Bench::Proxied::Report
require_relative "../bench/benchmark"
require_relative "../servers/servers"
require_relative "report"
require_relative "stack"

module Bench
  class Proxied
    include Benchmark

    SECONDS = 2.0
    QUICK_SECONDS = 0.5
    CONTESTANTS = [
      Contestant.new("tcp", "neverblock", {"NEVERBLOCK_ENGINE" => "epoll"}, "#7f8c8d"),
      Contestant.new("unix", "neverblock", {"NEVERBLOCK_ENGINE" => "epoll"}, "#c0392b")
    ].freeze

    # title; asked: a row of the servers benchmark; keep: whether nginx keeps its connections to the server.
    Row = Data.define(:title, :asked, :keep) do
      def id = title
    end

    ROWS = [
      Row.new("hello", "hello_32", true),
      Row.new("hello, a connection per request to the server", "hello_32", false),
      Row.new("120 KB", "big", true),
      Row.new("upload of 16 KB", "upload", true)
    ].freeze

    private

    def missing = Servers::Core.missing || Stack.missing || Servers::Wrk.missing

    def sample(_place, row, contestant)
      asked = Servers::Row.named(row.asked)
      Stack.open(contestant, keep: row.keep) do |stack|
        stack.expect(asked)
        Servers::Wrk.warm_up(stack.port, asked, Servers.warm_up(@seconds))
        stack.watch { Servers::Wrk.run(stack.port, asked, @seconds) }
      end
    end
  end
end
