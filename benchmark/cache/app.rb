# frozen_string_literal: true

# The app behind each cache of bin/bench cache: two pages that any cache may keep, and what tells of the app itself.
#
#   app = Measured::CachedApp.new
#   app.call("PATH_INFO" => "/page_1kB")      # => [200, {"cache-control" => "public, max-age=3600", ...}, ["xxx…"]]
#
#   GET /page_1kB, /page_64kB   at once; 304 for the page's ETag
#   GET /report                 after a second: 10 kB
#   GET /hello, /objects        as of the app of bin/bench servers
#   GET /calls                  how often a page or the report was asked for since /forget
#   GET /watch                  ends after /watched was asked: what Hold has found in the meantime, as JSON
require "json"
require_relative "hold"

module Measured
  class CachedApp
    PAGES = {"/page_1kB" => 1_000, "/page_64kB" => 64_000}.transform_values { |size| ("x" * (size - 1) << "\n").freeze }.freeze
    REPORT = ("r" * 9_999 << "\n").freeze
    TAG = '"of-each-page"'
    SHARED = {"cache-control" => "public, max-age=3600", "vary" => "accept-encoding", "etag" => TAG}.freeze
    PAUSE = 1.0 # seconds that the report takes

    # @return [Integer] how often a page or the report was asked for
    attr_reader :calls

    # @return [Float, nil] when the first report was complete
    attr_reader :reported_at

    def initialize = forget

    # Begins to count anew.
    # @return [void]
    def forget
      @calls = 0
      @reported_at = nil
    end

    # @param env [Hash{String=>Object}]
    # @return [Array] for Rack
    def call(env)
      path = env["PATH_INFO"]
      return page(env, PAGES.fetch(path)) if PAGES.key?(path)
      return report if path == "/report"
      text(about(path).to_s)
    end

    private

    def page(env, body)
      @calls += 1
      return [304, SHARED.dup, []] if env["HTTP_IF_NONE_MATCH"] == TAG
      [200, {"content-type" => "text/html", "content-length" => body.bytesize.to_s, **SHARED}, [body]]
    end

    def report
      @calls += 1
      sleep PAUSE
      @reported_at ||= Process.clock_gettime(Process::CLOCK_MONOTONIC)
      [200, {"content-type" => "text/html", "content-length" => REPORT.bytesize.to_s, **SHARED}, [REPORT]]
    end

    def text(string) = [200, {"content-type" => "text/plain", "cache-control" => "no-store"}, [string]]

    def about(path)
      case path
      when "/hello" then "Hello World!"
      when "/calls" then calls
      when "/forget" then forget
      when "/objects" then GC.stat(:total_allocated_objects)
      when "/watch" then JSON.generate((@hold = Hold.new).watch)
      when "/watched" then @hold.stop
      end
    end
  end
end
