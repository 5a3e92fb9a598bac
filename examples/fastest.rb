# frozen_string_literal: true

# Asks several back ends for the same thing at the same time and takes the first
# good answer. The requests that lost are cancelled, their connections closed.
#
#   bin/ruby examples/fastest.rb http://127.0.0.1:8080/a?wait=2 http://127.0.0.1:8080/b
#
# Status 1 when none of them gave a good answer in time.
require "neverblock"
require "net/http"
require "optparse"

class Fastest
  # An answer that is none of use: the race goes on without it.
  class BadAnswer < StandardError; end

  # @param seconds [Numeric] for the whole race
  def initialize(seconds:)
    @seconds = seconds
  end

  # @param urls [Array<String>] back ends of equal worth
  # @return [Array(String, String)] the winner and its answer
  # @raise [NeverBlock::TimeoutError] when the time was up
  # @raise [StandardError] the first error, when all have failed
  def call(urls)
    NeverBlock.timeout(@seconds) { NeverBlock.race(*urls.map { |url| -> { [url, ask(url)] } }) }
  end

  private

  def ask(url)
    response = Net::HTTP.get_response(URI(url))
    raise BadAnswer, "#{url} answered #{response.code}" unless response.is_a?(Net::HTTPSuccess)
    response.body
  end
end

seconds = 10
OptionParser.new do |parser|
  parser.banner = "Usage: fastest.rb [--seconds SECONDS] URL URL..."
  parser.on("--seconds SECONDS", Float, "for the whole race (10)") { |limit| seconds = limit }
end.parse!
abort "fastest.rb: name at least one URL" if ARGV.empty?

begin
  winner, body = Fastest.new(seconds:).call(ARGV)
  puts "#{winner} was first: #{body}"
rescue NeverBlock::TimeoutError
  abort "fastest.rb: no server answered within #{seconds} s"
rescue Fastest::BadAnswer, SystemCallError, SocketError => error
  abort "fastest.rb: no server gave a good answer; the first to fail: #{error.message}"
end
