# frozen_string_literal: true

# Many tasks over a few HTTP connections, each of which is kept open: what the pool says of itself, and what becomes of a
# connection whose task was stopped in the middle of a response.
#
#   bin/ruby examples/shared_connections.rb http://127.0.0.1:8080/
require "neverblock"
require "net/http"

class SharedConnections
  TASKS = 20

  # @param uri [URI::HTTP]
  def initialize(uri)
    @uri = uri
    @pool = NeverBlock::ConnectionPool.new(size: 4, timeout: 30, name: uri.host) do
      Net::HTTP.new(uri.host, uri.port).tap do |http|
        http.max_retries = 0
        http.start
      end
    end
  end

  # @return [String] what the pool says of itself
  def call
    NeverBlock.run do |scope|
      tasks = Array.new(TASKS) { |number| scope.spawn(name: "task #{number}") { ask } }
      NeverBlock.pass until @pool.stats[:held] == @pool.size
      tasks.first.cancel # its response is under way: no other task must get it
      tasks.each(&:join)
    end
    report
  ensure
    @pool.close
  end

  private

  def ask = @pool.with { |http| http.get(@uri.request_uri).body }

  def report
    figures = @pool.stats
    "#{TASKS} tasks, #{figures[:opened]} connections opened, #{figures[:interrupted]} closed in the middle of a response, #{figures[:waits]} waits"
  end
end

abort "Usage: shared_connections.rb URL" unless ARGV.one?
begin
  puts SharedConnections.new(URI(ARGV.first)).call
rescue SystemCallError => error
  abort "shared_connections.rb: #{error.message}"
end
