# frozen_string_literal: true

require "neverblock/server"
require "stringio"
require "tmpdir"
require_relative "wire"

module NeverBlockTest
  # A running server in the test's process, on a thread of its own, and clients for it:
  #
  #   class ServerPipeliningTest < Minitest::Test
  #     include NeverBlockTest::Served
  #
  #     def test_one
  #       serve(max_in_flight: 1) { |env| [200, {}, [env["PATH_INFO"]]] }
  #       wire = connect << get("/a") << get("/b")
  #       assert_equal %w[/a /b], wire.answers(2).map(&:body)
  #     end
  #   end
  #
  # At the end of each test the server is stopped. It must have released everything, and its log must have no line that
  # the test didn't read with `log`, except for more lines of a kind that it did read.
  module Served
    FLOOD = / warn: (\w+): / # lines that come in floods, with their kind
    HELLO = ->(_env) { [200, {"content-type" => "text/plain"}, ["hello"]] }

    # @param app [#call] default: the block, or HELLO
    # @param unix [Boolean] whether it listens on a unix socket
    # @param directives [Hash{Symbol=>Object}]
    # @return [NeverBlock::Server] a running server
    def serve(app = nil, unix: false, **directives, &block)
      bind = unix ? "unix://#{@folder = Dir.mktmpdir("nb")}/s" : "tcp://127.0.0.1:0"
      @server = NeverBlock::Server.new(app || block || HELLO, bind:, error_log: errors, early_hints: true, **directives)
      servers << @server
      @server.start
    end

    # @return [NeverBlock::Server] the one that was started last
    attr_reader :server

    # @return [Wire]
    def connect(to = server, **) = Wire.new(to.addresses.first, **).tap { |wire| wires << wire }

    # @return [Wire::Answer] to these bytes, on a new connection
    def ask(bytes, head: bytes.start_with?("HEAD "))
      wire = connect
      wire << bytes
      wire.answer(head:)
    ensure
      wire&.close
    end

    # The bytes of a request; fields are a Hash or lines.
    # @return [String]
    def request(method, target, *lines, version: "1.1", host: "example.org", body: nil)
      fields = ["#{method} #{target} HTTP/#{version}"]
      fields << "Host: #{host}" if host
      fields << "Content-Length: #{body.bytesize}" if body
      [*fields, *lines, "", body].join("\r\n").b
    end

    def get(target = "/", *lines, **) = request("GET", target, *lines, **)

    def post(target, body, *lines, **) = request("POST", target, *lines, body:, **)

    # A request with a chunked body.
    def post_chunks(target, chunks, *lines)
      body = [*chunks, ""].map { |chunk| "#{chunk.bytesize.to_s(16)}\r\n#{chunk}\r\n" }.join
      request("POST", target, "Transfer-Encoding: chunked", *lines) + body.b
    end

    # Takes the lines out of the error log.
    # @return [Array<String>] lines
    def log
      text = errors.string.dup
      errors.truncate(0)
      errors.rewind
      text.lines(chomp: true).each { |line| looked_at << line[FLOOD, 1] }
    end

    # Waits until so many requests were refused, by kind, and checks the log's lines for each kind.
    # @return [Array<String>] lines, one or two for each kind
    def await_refused(**numbers)
      seen = []
      wait_until("#{numbers} refused, instead of #{server.stats[:refused].reject { |_, count| count.zero? }}") do
        server.stats[:refused].reject { |_, count| count.zero? } == numbers
      end
      wait_until("a line for each of #{numbers.keys} in #{seen}") { (numbers.keys - seen.concat(log).filter_map { |line| line[FLOOD, 1]&.to_sym }).empty? }
      seen
    end

    # Waits for so many lines in the error log.
    # @return [Array<String>]
    def await_log(count = 1)
      wait_until("#{count} lines in the error log, beside #{errors.string.inspect}") { errors.string.count("\n") >= count }
      log
    end

    # Waits until the server's statistics have these values.
    def await_stats(**numbers)
      wait_until("#{numbers}, instead of #{server.stats.slice(*numbers.keys)}") { server.stats.slice(*numbers.keys) == numbers }
    end

    # Serves an app that responds with a request's path and body. Requests to /wait… wait for the gate.
    # @return [Thread::Queue] the gate
    def serve_gated(**directives)
      steps = gate
      serve(**directives) do |env|
        steps.pop if env["PATH_INFO"].start_with?("/wait")
        [200, {}, [env["PATH_INFO"] + env["rack.input"].read]]
      end
      steps
    end

    # A gate for an app's requests: `gate.pop` in the app, `gate << 1` in the test.
    def gate = Thread::Queue.new.tap { |queue| gates << queue }

    def teardown
      wires.each(&:close)
      gates.each(&:close)
      servers.each { |server| assert_let_go(server) }
      before = looked_at.dup
      assert_empty log.reject { |line| before.include?(line[FLOOD, 1]) }, "the error log"
      FileUtils.rm_rf(@folder) if @folder
      super
    end

    private

    def assert_let_go(server)
      server.stop(timeout: 5)
      left = server.stats.slice(:connections, :in_flight, :queued, :streams, :body_bytes).reject { |_, count| count.zero? }
      assert_empty left, "what #{server.inspect} still holds"
    end

    def errors = @errors ||= StringIO.new

    def servers = @servers ||= []

    def looked_at = @looked_at ||= Set.new

    def wires = @wires ||= []

    def gates = @gates ||= []
  end
end
