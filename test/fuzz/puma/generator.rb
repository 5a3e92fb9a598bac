# frozen_string_literal: true

require_relative "apps/respond"
require_relative "conversation"
require_relative "vocabulary"

module NeverBlockPumaFuzz
  # Makes a conversation from a seed. All random choices of the comparison are made here.
  #
  #   Generator.new(7).conversation
  #
  # Most requests have at most one oddity, so that a difference has one cause and what follows is still compared.
  class Generator
    include Vocabulary

    # What a request is about, and how often.
    KINDS = {plain: 10, body: 10, respond: 10, rails: 4, framing: 3, chunk_fault: 3, long: 1, line: 3, host: 2, many_fields: 0.3}.freeze
    PIPELINE = [1, 1, 1, 2, 2, 3, 4].freeze
    LAST = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    private_constant :KINDS, :PIPELINE, :LAST

    # @param seed [Integer]
    def initialize(seed)
      @seed = seed
      @random = Random.new(seed)
    end

    # @return [Conversation]
    def conversation
      parts = Array.new(one(PIPELINE)) { request }.flatten
      faults(parts) if chance(0.12)
      parts << LAST.b if chance(0.8)
      pauses(parts) if chance(0.15)
      parts << :half_close if chance(0.05)
      Conversation.new(@seed, parts)
    end

    private

    def one(list) = list.sample(random: @random)

    def chance(share) = @random.rand < share

    def kind
      at = @random.rand * KINDS.values.sum
      KINDS.find { |_, weight| (at -= weight) < 0 }.first
    end

    # @return [Array<String, Symbol>]
    def request = send(:"#{kind}_request")

    def plain_request(method: chance(0.8) ? "GET" : one(METHODS), target: one(TARGETS.first(10)), version: "HTTP/1.1", host: "Host: a", lines: fields, body: [])
      ["#{method} #{target} #{version}\r\n".b, "#{host}\r\n".b, *lines.map { |line| "#{line}\r\n".b }, "\r\n".b, *body]
    end

    def fields(most = 4) = Array.new(@random.rand(most + 1)) { one(FIELDS) }

    # With one odd thing in its first line.
    def line_request
      odd = one([{method: one(METHODS)}, {target: one(TARGETS)}, {version: one(VERSIONS)}, {method: one(METHODS), target: one(TARGETS), version: one(VERSIONS)}])
      plain_request(**odd, lines: fields(2))
    end

    def host_request = plain_request(host: one(HOSTS), version: one(VERSIONS.first(19)), target: one(TARGETS.first(15)), lines: fields(2))

    def many_fields_request = plain_request(lines: Array.new(one([90, 105, 130])) { |number| "X-#{number}: 1" })

    def long_request = plain_request(target: "/#{"x" * one([3_000, 9_000])}", lines: ["X-Long: #{"y" * one([1_000, 20_000])}"])

    # A body as it should be, with a length or in chunks.
    def body_request(content: one(CONTENTS), version: chance(0.9) ? "HTTP/1.1" : "HTTP/1.0")
      lines = ["Content-Type: #{one(CONTENT_TYPES)}", *fields(2)]
      framing, body = chance(0.5) ? sized(content) : chunked(content)
      lines.insert(@random.rand(lines.size + 1), framing)
      lines << "Expect: 100-continue" if chance(0.15)
      body = [:pause, *body] if chance(0.08)
      plain_request(method: body_method, target: body_target, version:, lines:, body:)
    end

    def body_method = chance(0.75) ? one(%w[POST PUT PATCH]) : one(METHODS.first(14))

    def body_target = chance(0.5) ? "/rails/#{one(%w[a b?c=1 b?a=2])}" : one(["/", "/lint", "/x?y", "/respond?body=array", "/respond?read=1"])

    def sized(content) = ["Content-Length: #{content.bytesize}", content.empty? ? [] : [content]]

    def chunked(content)
      size = [content.bytesize / @random.rand(1..4), 1].max
      pieces = (0...content.bytesize).step(size).map { |at| content.byteslice(at, size) }
      digits = chance(0.2) ? "%X" : "%x"
      ["Transfer-Encoding: chunked", [*pieces.map { |piece| "#{digits % piece.bytesize}\r\n#{piece}\r\n".b }, "0\r\n\r\n".b]]
    end

    # What says where the body ends is odd, or says something else than the body.
    def framing_request
      content = one(CONTENTS.first(8))
      _, body = chance(0.4) ? sized(content) : chunked(content)
      framing = chance(0.7) ? one(FRAMING) : "Content-Length: #{[content.bytesize + one([-2, -1, 1, 20]), 0].max}"
      plain_request(method: body_method, target: body_target, version: chance(0.8) ? "HTTP/1.1" : "HTTP/1.0", lines: [framing, *fields(1)], body:)
    end

    def chunk_fault_request
      framing, body = chunked(one(CONTENTS.first(12)))
      fault, replacement = one(CHUNK_FAULTS)
      plain_request(method: body_method, target: body_target, lines: [framing, *fields(1)], body: [body.join.sub(fault, replacement)])
    end

    # About responses.
    def respond_request
      words = ["status=#{chance(0.6) ? 200 : one(STATUSES)}", "body=#{one(Apps::Respond::BODIES.keys)}"]
      words << one(RESPONSE_FIELDS) if chance(0.5)
      words << one(HINTS) if chance(0.2)
      words << one(LENGTHS) if chance(0.1)
      words << "raise=1" if chance(0.02)
      method = one(%w[GET GET GET HEAD POST])
      words.replace(["hijack=#{one(%w[full partial])}"]) if method == "GET" && chance(0.05)
      words[0] = words[0].sub("status=2", "status_text=2") if chance(0.05)
      name = @random.rand(1_000_000) if !words.first.start_with?("hijack") && chance(0.15)
      words << "record=#{name}" if name
      request = plain_request(method:, target: "/respond?#{words.join("&")}", version: chance(0.85) ? "HTTP/1.1" : "HTTP/1.0", lines: fields(2))
      name ? request + plain_request(method: "GET", target: "/respond?tell=#{name}", lines: []) : request
    end

    def rails_request
      method = one(%w[GET GET GET HEAD POST])
      plain_request(method:, target: one(RAILS_RESPONSES), version: chance(0.85) ? "HTTP/1.1" : "HTTP/1.0", lines: fields(2))
    end

    # One or two wrong bytes somewhere, but not in what Apps::Respond is asked for: the table has its words.
    def faults(parts)
      @random.rand(1..2).times do
        place = @random.rand(parts.size)
        next if !(String === parts[place]) || parts[place].empty? || parts[place].include?("/respond?")
        parts[place] = damaged(parts[place].dup)
      end
    end

    def damaged(bytes)
      at = @random.rand([bytes.bytesize, 200].min)
      case @random.rand(4)
      when 0 then bytes[at, 1] = one(BITS)
      when 1 then bytes.insert(at, one(BITS))
      when 2 then bytes[at, @random.rand(1..3)] = ""
      else bytes.setbyte(at, bytes.getbyte(at) ^ (1 << @random.rand(8)))
      end
      bytes
    end

    # Waits between, or in the middle of, parts.
    def pauses(parts)
      place = @random.rand(parts.size)
      part = parts[place]
      return unless String === part
      at = @random.rand(part.bytesize + 1)
      parts[place, 1] = [part.byteslice(0, at), :pause, part.byteslice(at..)]
    end
  end
end
