# frozen_string_literal: true

# Fetches many URLs, some at a time, and prints a line for each, in their order.
# A URL that fails or takes too long gets its own line and stops no other.
#
#   bin/ruby examples/fetch_many.rb --limit 10 http://127.0.0.1:8080/{1..30}
#   bin/ruby examples/fetch_many.rb < urls.txt
#
# Status 1 when any of them failed.
require "neverblock"
require "net/http"
require "optparse"

class FetchMany
  # The result of one URL.
  Outcome = Struct.new(:url, :ok, :text) do
    def to_s = "#{ok ? "ok    " : "FAILED"} #{url}: #{text}"
  end

  # @param limit [Integer] requests at a time
  # @param seconds [Numeric] for each request in all, name and connection included
  def initialize(limit:, seconds:)
    @limit = limit
    @seconds = seconds
  end

  # @param urls [Enumerable<String>] is read only as fast as requests are made
  # @return [Array<Outcome>] in the order of the URLs
  def call(urls)
    NeverBlock.concurrently(urls, limit: @limit) { |url| fetch(url) }
  end

  private

  def fetch(url)
    response = NeverBlock.timeout(@seconds) { Net::HTTP.get_response(URI(url)) }
    Outcome.new(url, response.is_a?(Net::HTTPSuccess), "#{response.code}, #{response.body.bytesize} bytes")
  rescue NeverBlock::TimeoutError
    Outcome.new(url, false, "no answer within #{@seconds} s")
  rescue SystemCallError, SocketError, IOError, OpenSSL::SSL::SSLError, URI::Error, Timeout::Error => error
    Outcome.new(url, false, error.message)
  end
end

options = {limit: 20, seconds: 10}
OptionParser.new do |parser|
  parser.banner = "Usage: fetch_many.rb [options] [URL...]     (without URLs: one a line from standard input)"
  parser.on("--limit COUNT", Integer, "requests at a time (20)") { |limit| options[:limit] = limit }
  parser.on("--seconds SECONDS", Float, "for each request (10)") { |seconds| options[:seconds] = seconds }
end.parse!

urls = ARGV.any? ? ARGV : $stdin.each_line(chomp: true)
outcomes = FetchMany.new(**options).call(urls)
puts outcomes
exit outcomes.all?(&:ok)
