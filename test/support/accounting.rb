# frozen_string_literal: true

require "socket"

module NeverBlockTest
  # Clients that ask as fast as they are answered, and account for every request: whatever was sent and not answered is
  # told with what happened to it.
  #
  #   accounting = Accounting.new(port, clients: 6).start
  #   …
  #   accounting.stop            # => {answered: 9000, lost: []}
  class Accounting
    LIMIT = 10 # seconds for an answer

    # @return [Hash{String=>Integer}] how often each body came
    attr_reader :bodies

    # @return [Array<String>] requests without an answer, or with a wrong one
    attr_reader :lost

    # @param clients [Integer] every other one keeps its connection
    # @param path [String]
    def initialize(port, clients: 6, path: "/")
      @port = port
      @clients = clients
      @path = path
      @bodies = Hash.new(0)
      @lost = []
    end

    # @return [self]
    def start
      @threads = Array.new(@clients) { |number| Thread.new { ask_on(number.even?) until @stopped } }
      self
    end

    # @return [self]
    def stop
      @stopped = true
      @threads.each(&:join)
      self
    end

    # @return [Integer]
    def answered = @bodies.values.sum

    private

    def ask_on(keep)
      socket = TCPSocket.new("127.0.0.1", @port)
      socket.timeout = LIMIT
      served = 0
      loop do
        answer = ask(socket, keep)
        served += 1
        break if @stopped || !answer
      end
    rescue SystemCallError, IOError => error
      @lost << "#{error.class} after #{served.inspect} answers on the connection#{" that is kept" if keep}"
    ensure
      socket&.close
    end

    # @return [Boolean] whether the connection goes on
    def ask(socket, keep)
      socket << "GET #{@path} HTTP/1.1\r\nHost: a\r\n#{"Connection: close\r\n" unless keep}\r\n"
      answer = +""
      answer << socket.readpartial(4_096) until answer.include?("\r\n\r\n")
      head, body = answer.split("\r\n\r\n", 2)
      length = head[/^content-length: *(\d+)/i, 1].to_i
      body << socket.readpartial(4_096) while body.bytesize < length
      head.start_with?("HTTP/1.1 200") ? @bodies[body] += 1 : @lost << head.lines.first
      !head.match?(/^connection: *close/i) && keep
    end
  end
end
