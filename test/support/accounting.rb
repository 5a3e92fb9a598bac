# frozen_string_literal: true

require "socket"
require_relative "limit"

module NeverBlockTest
  # Clients that account for every request: a request without an answer is reported with what happened to it. Each
  # client sends its next request as soon as it has an answer, or after a pause, which leaves the processor to the
  # program under test.
  #
  #   accounting = Accounting.new(port, clients: 6).start
  #   …
  #   accounting.stop
  #   accounting.answered     # => 9000
  #   accounting.lost         # => []
  class Accounting
    LATEST = 4 # answers that are kept per client

    # A request without an answer, or with a wrong one: what happened, the client's port, and the time on the monotonic
    # clock.
    Loss = Struct.new(:what, :port, :at)

    # One client, on a thread of its own.
    class Client
      # @return [Integer] requests that it has begun to send
      attr_reader :sent

      # @return [Hash{String=>Integer}] how often each body came
      attr_reader :bodies

      # @return [Array<Loss>]
      attr_reader :lost

      # @param keep [Boolean] whether it keeps its connections
      # @param requests [Array<Array(String, Integer)>] paths, each with the bytes of its body; taken in turn
      # @param latest [Array<String>] the bodies of all clients' last answers
      # @param pause [Numeric] seconds before each request
      def initialize(port, keep, requests, latest, pause)
        @port = port
        @keep = keep
        @requests = requests
        @latest = latest
        @pause = pause
        @sent = 0
        @bodies = Hash.new(0)
        @lost = []
      end

      # @return [void]
      def start
        @thread = Thread.new { ask_on_a_connection until @stopped }
      end

      # @return [void]
      def stop = @stopped = true

      # @return [void]
      def join = @thread.join

      private

      def ask_on_a_connection
        @sent += 1
        answers = 0
        @own_port = nil
        socket = TCPSocket.new("127.0.0.1", @port)
        socket.timeout = LIMIT
        @own_port = socket.local_address.ip_port
        while ask(socket)
          answers += 1
          break if @stopped
          @sent += 1
        end
      rescue SystemCallError, IOError => error
        lose("#{error.class} after #{answers} answers on a connection#{" that is kept" if @keep}")
        sleep @pause # real: the server, which may be down
      ensure
        socket&.close
      end

      # @return [Boolean] whether the connection goes on
      def ask(socket)
        sleep @pause if @pause > 0 # real: the server works for other clients as well
        path, size = @requests[@sent % @requests.size]
        socket << "#{size.zero? ? "GET" : "POST"} #{path} HTTP/1.1\r\nHost: a\r\n#{"Connection: close\r\n" unless @keep}" \
          "#{"Content-Length: #{size}\r\n" unless size.zero?}\r\n#{"x" * size}"
        answer = +""
        answer << socket.readpartial(4_096) until answer.include?("\r\n\r\n")
        head, body = answer.split("\r\n\r\n", 2)
        length = head[/^content-length: *(\d+)/i, 1].to_i
        body << socket.readpartial(4_096) while body.bytesize < length
        head.start_with?("HTTP/1.1 200") ? count(body) : lose(head.lines.first.chomp)
        !head.match?(/^connection: *close/i) && @keep
      end

      def count(body)
        @bodies[body] += 1
        @latest << body
        @latest.shift
      end

      def lose(what)
        @lost << Loss.new(what, @own_port, Process.clock_gettime(Process::CLOCK_MONOTONIC))
      end
    end

    # @param clients [Integer] every other one keeps its connection
    # @param path [String, Array<String>] several are taken in turn
    # @param size [Integer] bytes that are sent with each request
    # @param pause [Numeric] seconds between an answer and the client's next request
    def initialize(port, clients: 6, path: "/", size: 0, pause: 0)
      @latest = Array.new(clients * LATEST)
      requests = Array(path).map { |one| [one, size] }
      @clients = Array.new(clients) { |number| Client.new(port, number.even?, requests, @latest, pause) }
    end

    # @return [self]
    def start
      @clients.each(&:start)
      self
    end

    # @return [self]
    def stop
      @clients.each(&:stop).each(&:join)
      self
    end

    # @return [Integer] requests begun; after {#stop}, those answered and those lost
    def sent = @clients.sum(&:sent)

    # @return [Integer]
    def answered = @clients.sum { |client| client.bodies.values.sum }

    # @return [Hash{String=>Integer}] how often each body came
    def bodies = @clients.map(&:bodies).reduce { |all, some| all.merge(some) { |_, one, other| one + other } }

    # @return [Array<Loss>]
    def lost = @clients.flat_map(&:lost)

    # @param body [String]
    # @return [Boolean] whether each client's latest answers all have this body
    def only?(body) = @latest.all?(body)
  end
end
