# frozen_string_literal: true

# slow: many requests

require "test_helper"
require "support/fronted"

# Upstreams that fail in every way, at random, under many clients: each client gets the response to its own request, or an
# error, or a response that is recognisably cut off.
class ProxyChaosTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Fronted

  Wire = NeverBlockTest::Wire
  CLIENTS, REQUESTS = 12, 60
  FAULTS = %i[fine fine fine fine chunks chunks interim until_close surplus cut cut_chunks reset nothing garbage stall early].freeze

  def test_no_response_crosses
    random = Random.new(Minitest.seed)
    lock = Mutex.new
    fault = -> { lock.synchronize { FAULTS.sample(random:) } }
    scripted = Array.new(2) { NeverBlockTest::ScriptedUpstream.new(->(peer) { play(peer, fault) }) }
    front_of(scripted.map(&:url), timeouts: {first_byte: 0.2, idle: 0.2}, out_for: 0.01, longest_out: 0.02, max_connections: 5)
    counts = Array.new(CLIENTS) { |client| Thread.new { converse(client) } }.map(&:value).reduce { |one, other| one.merge(other) { |_, a, b| a + b } }
    assert_equal CLIENTS * REQUESTS, counts.values.sum
    assert_operator counts.fetch(200), :>, CLIENTS * REQUESTS / 3, counts
    assert_empty counts.keys - [200, 500, 502, 503, 504, :cut], counts
    wait_until("the end of all exchanges") { proxy.stats.each_value.all? { |stats| stats[:in_flight].zero? && stats[:connections][:held].zero? } }
  ensure
    log
    proxy&.close
    scripted&.each(&:close)
  end

  private

  # @return [Hash{Integer,Symbol=>Integer}] responses by their status
  def converse(client)
    counts = Hash.new(0)
    wire = nil
    REQUESTS.times do |number|
      wire ||= Wire.new(server.addresses.first)
      own = "#{client}-#{number}-#{"x" * (number % 7) * 100}"
      wire << (number.odd? ? get("/#{own}") : post("/#{own}", own))
      answer = wire.answer
      counts[answer.status] += 1
      counts[:crossed] += 1 if answer.status == 200 && answer.body != "/#{own}"
      wire = wire.close if answer["connection"] == "close"
    rescue Wire::Truncated, Errno::ECONNRESET, Errno::EPIPE
      counts[:cut] += 1
      wire.close
      wire = nil
    end
    counts
  ensure
    wire&.close
  end

  def play(peer, fault)
    loop do
      what = fault.call
      if what == :early
        head = peer.head or return
        return peer << "HTTP/1.1 200 OK\r\nContent-Length: #{path(head).bytesize}\r\n\r\n#{path(head)}"
      end
      text = peer.request or return
      body = path(text)
      sized = "HTTP/1.1 200 OK\r\nContent-Length: #{body.bytesize}\r\n\r\n"
      case what
      when :fine then peer << sized << body
      when :chunks then peer << "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" << "#{body.bytesize.to_s(16)}\r\n" << "#{body}\r\n" << "0\r\n\r\n"
      when :interim then peer << "HTTP/1.1 102 x\r\n\r\nHTTP/1.1 103 x\r\nLink: </a>\r\n\r\n" << sized << body
      when :until_close then return peer << "HTTP/1.1 200 OK\r\n\r\n" << body
      # In one piece: what comes after the next request was sent, no reader can tell from its response.
      when :surplus then peer << sized + body + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"
      when :cut then return peer << sized << body[0..1]
      when :cut_chunks then return peer << "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n#{body.bytesize.to_s(16)}\r\n" << body[0..1]
      when :reset then return peer.reset
      when :nothing then return
      when :garbage then return peer << "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nno"
      when :stall then peer << sized << body[0..1] and return peer.ended?
      end
    end
  end

  def path(text) = text[%r{\A\w+ (/\S*)}, 1]
end
