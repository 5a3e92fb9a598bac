# frozen_string_literal: true

# The one Rack app that all contestants of bin/bench servers serve: an answer for
# every row. No server's own words, nothing that only one of them can do.
#
#   Bench::App.new.call("PATH_INFO" => "/hello")      # => [200, {...}, ["Hello World!"]]
module Bench
  class App
    HELLO = "Hello World!"
    CHUNK = ("x" * 119 << "\n").freeze
    CHUNKS = 10
    BIG = ("x" * 122_879 << "\n").freeze
    ROUNDS = 225_000 # of the CPU row: about a millisecond with YJIT
    PAUSE = 0.01 # seconds between a stream's chunks

    # 1.2 KB in pieces, of a length that no server can know beforehand.
    class Pieces
      def each
        CHUNKS.times { yield CHUNK }
      end
    end

    # The same over 100 ms, each piece on its way before the next one is made.
    class Stream
      def each
        CHUNKS.times do |i|
          sleep PAUSE unless i.zero?
          yield CHUNK
        end
      end
    end

    PIECES = Pieces.new
    STREAM = Stream.new

    def call(env)
      case env["PATH_INFO"]
      when "/hello" then text(HELLO)
      when "/env" then read(env) ? text(HELLO) : [400, {}, []]
      when "/chunks" then [200, {"content-type" => "text/plain"}, PIECES]
      when "/big" then text(BIG)
      when "/upload" then text(env["rack.input"].read.bytesize.to_s)
      when "/sleep" then sleep(0.01) && text(HELLO)
      when "/second" then sleep(1) && text(HELLO)
      when "/cpu" then text(work.to_s)
      when "/stream" then [200, {"content-type" => "text/plain"}, STREAM]
      when "/objects" then text(GC.stat(:total_allocated_objects).to_s)
      else [404, {"content-type" => "text/plain"}, ["There is no #{env["PATH_INFO"]}\n"]]
      end
    end

    # @return [Integer] the right answer of the CPU row
    def work
      sum = 0
      ROUNDS.times { |i| sum = (sum * 31 + i) & 0xffffff }
      sum
    end

    private

    def text(string) = [200, {"content-type" => "text/plain"}, [string]]

    # Every key and value, so that no server gains by not making them.
    def read(env)
      bytes = 0
      env.each_pair do |key, value|
        bytes += key.bytesize
        bytes += value.bytesize if String === value
      end
      bytes > 0
    end
  end
end
