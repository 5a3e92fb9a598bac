# frozen_string_literal: true

require "test_helper"
require "timeout"
require "support/runs"
require "support/virtual_time"
require "support/cached_app"

# Clients that are cancelled, timed out and killed at random, of an app that does all kinds of things. Afterwards nothing
# is left, all bodies were closed, and no client has got a response of another client or a part of one as whole.
class CacheInterruptionsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::CachedApp

  ROUNDS = 60
  CLIENTS = 12
  PART = "part of the body "

  # A body that waits, and perhaps fails.
  class Body
    attr_reader :closed

    def initialize(name, random)
      @name = name
      @random = random
    end

    def each
      5.times do
        NeverBlock.pass if @random.rand(2).zero?
        raise IOError, "away" if @random.rand(40).zero?
        yield "#{PART}#{@name}"
      end
    end

    def close = @closed = true
  end

  def test_in_fibers
    3.times do |seed|
      @random = Random.new(seed)
      NeverBlockTest::VirtualTime.during do
        in_run do |scope|
          start { sleep 0.001 }
          ROUNDS.times { disturb(Array.new(CLIENTS) { |n| scope.spawn { visit(n) } }) }
          assert_nothing_left_of_requests
        end
      end
    end
  end

  def test_in_threads
    @random = Random.new(7)
    start { 5.times { Thread.pass } }
    (ROUNDS / 4).times do
      clients = Array.new(CLIENTS) { |n| Thread.new { visit(n) } }
      clients.each { |client| client.report_on_exception = false }
      clients.sample(4, random: @random).each do |client|
        Thread.pass
        (@random.rand(2).zero? ? client.kill : client.raise(Timeout::Error))
      end
      clients.each { |client| outcome_of { assert client.join(NeverBlockTest::LIMIT) } }
    end
    assert_nothing_left_of_requests
  end

  private

  # The block is how an app waits.
  def start
    @bodies = []
    @wrong = []
    cached(memory: 40, spool: 100, window: 40, wait: 0.02, max_unattended: 3, max_released: 5) do |env|
      [1, 0].sample(random: @random).times { NeverBlock.pass }
      yield if @random.rand(5).zero?
      name = env["HTTP_USER_AGENT"] || "all"
      case @random.rand(12)
      when 0 then raise IOError, "away"
      when 1 then respond(name, "cache-control" => "private")
      when 2 then [503, {}, kept("all")]
      when 3 then respond(name, "cache-control" => "max-age=60", "set-cookie" => name)
      when 4 then respond(name, "cache-control" => "max-age=60", "vary" => "user-agent")
      when 5 then respond("all", "cache-control" => "max-age=60, stale-while-revalidate=60, stale-if-error=60", "age" => "61")
      else respond("all", "cache-control" => "max-age=60", "cache-tag" => "page")
      end
    end
  end

  def respond(name, headers) = [200, headers, kept(name)]

  def kept(name) = Body.new(name, @random).tap { |body| @bodies << body }

  def visit(number)
    name = "client #{number}"
    response = get("/#{number % 2}", "HTTP_USER_AGENT" => name, **(@random.rand(6).zero? ? {"HTTP_CACHE_CONTROL" => "no-cache"} : {}))
    return if ["#{PART}all" * 5, "#{PART}#{name}" * 5].include?(response.body)
    @wrong << [name, response.body]
  rescue IOError, NeverBlock::Error
    nil
  end

  def disturb(clients)
    clients.sample(5, random: @random).each do |client|
      @random.rand(4).times { NeverBlock.pass }
      client.cancel
      case @random.rand(6)
      when 0 then @cache.purge("http://example.org/#{@random.rand(2)}")
      when 1 then @cache.purge_tag("page")
      when 2 then outcome_of { Timeout.timeout(0.0005) { visit(9) } }
      end
    end
    clients.each(&:join)
    @cache.clear if @random.rand(3).zero?
  end

  def outcome_of
    yield
  rescue Timeout::Error
    nil
  end

  def assert_nothing_left_of_requests
    pass_until("the end of all fetches") { @cache.stats[:fetching].zero? && @now.zero? }
    pass_until("the places") { @cache.stats[:unattended].zero? }
    pass_until("the end of all bodies") { @bodies.all?(&:closed) }
    assert_empty @wrong
    assert_equal 0, @cache.stats[:released]
    assert_operator @bodies.size, :>, 10
  end
end
