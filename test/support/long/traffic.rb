# frozen_string_literal: true

# Clients of every kind, good, slow, rude and broken, that visit the server of subject.rb for a while:
#
#   ruby -Ilib -Itest test/support/long/traffic.rb PORT SECONDS SEED
#   # => {"visits":{"plain":120,…},"requests":4321,"refused":3,"wrong":[]}
#
# "refused" counts answers with 503; "wrong" lists incorrect answers.
require "json"
require "neverblock"
require "support/wire"

module NeverBlockTest
  # The kinds of visit, a method each.
  class Traffic
    include Clock

    CLIENTS = 24
    BIG = 1 << 20

    def initialize(port, seconds, seed)
      @address = "tcp://127.0.0.1:#{port}"
      @seconds = seconds
      @random = Random.new(seed)
      @visits = Hash.new(0)
      @requests = @refused = 0
      @wrong = []
    end

    # @return [Hash]
    def call
      deadline = now + @seconds
      NeverBlock.run do
        NeverBlock.concurrently(Array.new(CLIENTS) { |number| number }, limit: CLIENTS) do
          visit(KINDS.sample(random: @random)) while now < deadline
        end
      end
      {visits: @visits.sort.to_h, requests: @requests, refused: @refused, wrong: @wrong.first(10)}
    end

    private

    def visit(kind)
      wire = Wire.new(@address, receive: (kind == :reads_slowly) ? 4_096 : nil)
      catch(:refused) { NeverBlock.timeout(15) { send(kind, wire) } }
      @visits[kind] += 1
    rescue => error
      @wrong << "#{kind}: #{error.class}: #{error.message[0, 300]} at #{error.backtrace.grep(/traffic/).first.to_s[/\d+:.*/]}"
    ensure
      wire&.close
    end

    def ask(wire, text, status = 200, body = nil, head: false)
      wire << text
      take(wire, status, body, head:)
    end

    # 503 is acceptable at any time, since some visits are floods.
    def take(wire, status, body = nil, head: false)
      answer = wire.answer(head:)
      @requests += 1
      if answer.status == 503
        @refused += 1
        throw :refused
      end
      raise "the status #{answer.status}: #{answer.body[0, 100]}" unless answer.status == status
      raise "the body #{answer.body[0, 100].inspect}" unless body.nil? || body === answer.body
      answer
    end

    # Reads the head only.
    def head(wire, status)
      found = wire.read_head.status
      return if found == status
      raise "the status #{found}" unless found == 503
      @refused += 1
      throw :refused
    end

    def get(path, *lines, method: "GET") = "#{method} /#{path} HTTP/1.1\r\nHost: a\r\n#{lines.map { |line| "#{line}\r\n" }.join}\r\n"

    def post(path, length, *lines) = get(path, "Content-Length: #{length}", *lines, method: "POST")

    def some(from, to) = @random.rand(from..to)

    # ---- well-behaved clients ----
    def plain(wire) = some(1, 20).times { ask(wire, get("hello"), 200, "hello") }

    def pipelined(wire)
      count = some(2, 10)
      wire << get("hello") * count
      count.times { take(wire, 200, "hello") }
    end

    def by_length(wire) = some(1, 4).times { some(0, 150_000).then { |size| ask(wire, post("read", size) + "b" * size, 200, size.to_s) } }

    def streamed(wire) = some(0, 150_000).then { |size| ask(wire, post("stream", size) + "b" * size, 200, size.to_s) }

    def in_chunks(wire)
      sizes = Array.new(some(1, 8)) { some(1, 20_000) }
      body = sizes.map { |size| "#{size.to_s(16)}\r\n#{"c" * size}\r\n" }.join + "0\r\nTrailer: x\r\n\r\n"
      ask(wire, get("read", "Transfer-Encoding: chunked", method: "POST") + body, 200, sizes.sum.to_s)
    end

    def after_continue(wire)
      wire << post("read", 5, "Expect: 100-continue")
      head(wire, 100)
      wire << "12345"
      take(wire, 200, "5")
    end

    def waits(wire) = some(1, 5).times { ask(wire, get("wait"), 200, "waited") }

    def downloads(wire) = ask(wire, get("big")).then { |answer| raise "#{answer.body.bytesize} bytes" unless answer.body.bytesize == BIG }

    def streams(wire)
      ask(wire, get("each"))
      ask(wire, get("calls"), 200, "y" * 300)
      ask(wire, get("file"), 200, /frozen_string_literal/)
    end

    def bodiless(wire)
      ask(wire, get("big", method: "HEAD"), head: true)
      ask(wire, get("nothing"), 404, "")
      ask(wire, get("hello"), 200, "hello")
    end

    def hijacks(wire) = ask(wire, get("hijack"), 200, "hijacked")

    def leaves_traces(wire) = 3.times { ask(wire, get("leave"), 204) }

    # ---- slow ----
    def writes_slowly(wire)
      text = post("read", 40) + "d" * 40
      text.scan(/.{1,12}/m) { |piece| (wire << piece) && sleep(0.005) } # real: the server's process reads each piece
      take(wire, 200, "40")
    end

    def reads_slowly(wire)
      wire << get("big")
      head(wire, 200)
      wire.read(some(1_000, 100_000))
      5.times { sleep(0.005) && wire.read(2_000) } # real: the kernel's buffer fills
    end

    def stops_in_its_head(wire)
      wire << "GET /hello HTT"
      take(wire, 408)
    end

    def stops_in_its_body(wire)
      wire << post("read", 100) + "e" * 50
      take(wire, 408)
    end

    # ---- rude ----
    def says_nothing(_wire) = sleep(0.002) # real: the server's process accepts the connection

    def leaves_in_its_head(wire) = wire << "GET /hello HTTP/1.1\r\nHo"

    def leaves_in_its_body(wire) = wire << post(%w[read stream].sample(random: @random), 100_000) + "f" * some(0, 60_000)

    # real: the server's process works on it
    def leaves_before_the_answer(wire) = (wire << get("wait")) && sleep(@random.rand / 100)

    def leaves_in_the_answer(wire)
      wire << get(%w[big pour each file].sample(random: @random))
      head(wire, 200)
      wire.read(some(1, 1_000))
    end

    def resets(wire)
      wire << get(%w[wait big pour hello hijack].sample(random: @random))
      sleep(@random.rand / 100) # real: the server's process works on it
      wire.reset
    end

    def half_closes(wire)
      wire << get("wait")
      wire.close_write
      begin
        take(wire, 200, "waited")
      rescue Wire::Truncated
        nil # the server may treat the client as gone: cancel_on_disconnect is on
      end
    end

    def floods(_wire)
      wires = Array.new(150) { Wire.new(@address) << get("wait") }
      wires.each { |wire| catch(:refused) { take(wire, 200, "waited") } }
    ensure
      wires&.each(&:close)
    end

    # ---- broken ----
    def malformed(wire) = ask(wire, ["GET / HTTP/1.1\n\n", "GET /\r\n\r\n", get("hello", "A : b"), get("hello", "Content-Length: x")].sample(random: @random), 400)

    def too_large(wire) = ask(wire, post("read", 500_000), 413)

    def bad_chunks(wire) = ask(wire, get("read", "Transfer-Encoding: chunked", method: "POST") + "5\r\nabcdefg\r\n", 400)

    def fails(wire) = 3.times { ask(wire, get("fail"), 500) }

    def fails_late(wire)
      ask(wire, get("fail_late"))
      raise "an answer that broke off came whole"
    rescue Wire::Truncated
      nil
    end

    KINDS = private_instance_methods(false) - %i[initialize visit ask take head get post some]
    private_constant :KINDS
  end
end

if $PROGRAM_NAME == __FILE__
  port, seconds, seed = ARGV.map { |text| Integer(text) }
  puts JSON.generate(NeverBlockTest::Traffic.new(port, seconds, seed).call)
end
