# frozen_string_literal: true

require "etc"
require "fileutils"
require "rbconfig"

module NeverBlockTest
  # A slow or broken network before a server on this machine: a process of its own, compiled from delay_proxy.c when
  # needed. It ends with the block, and with the process that started it.
  #
  #   DelayProxy.open(to: postgres.socket, delay: 0.001) do |proxy|    # 1 ms of round trip; `to:` is a path or a port
  #     PG.connect(host: "127.0.0.1", port: proxy.port, dbname: "postgres", user: "postgres")
  #     proxy.cut                   # all connections, with a reset
  #   proxy.silence               # forwards nothing, closes nothing, accepts nothing …
  #     proxy.resume                # … until now, and nothing is lost
  #   proxy.answers(100)          # falls silent after 100 more bytes from the server
  #   proxy.refuse                # closes new connections only, until `resume`
  #     proxy.delay = 0.0005
  #   proxy.count                 # => 1, open connections
  #   proxy.trips                 # => 5, round trips since the last call
  #   end
  #
  # A command has taken effect when its method returns. PostgreSQL's cancel requests, which use their own connections,
  # pass as well.
  class DelayProxy
    SOURCE = File.join(__dir__, "delay_proxy.c")
    FOLDER = File.expand_path("../../tmp", __dir__)
    COMPILER = RbConfig::CONFIG["CC"].split.first
    WARNINGS = %w[-std=c11 -Wall -Wextra -Wshadow].freeze

    # @return [String, nil] why the proxy can't be built
    def self.missing
      return "the delay proxy is written for Linux (epoll, timerfd)" unless RUBY_PLATFORM.include?("linux")
      "there is no C compiler (#{COMPILER}), which the delay proxy needs" unless system(COMPILER, "--version", out: File::NULL, err: File::NULL)
    end

    # @param to [String, Integer] the server's unix socket, or its port on 127.0.0.1
    # @param delay [Float] seconds of round trip
    # @param socket [String, nil] a unix socket to listen at in addition
    # @param flags [Array<String>] for the compiler
    # @yieldparam proxy [DelayProxy]
    # @return [Object] the block's value
    def self.open(to:, delay: 0.0, socket: nil, flags: [])
      proxy = new(to:, delay:, socket:, flags:)
      yield proxy
    ensure
      proxy&.close
    end

    # Compiles the proxy unless that has been done. Several processes may do so at the same time.
    # @param flags [Array<String>]
    # @return [String] the program's path
    # @raise [RuntimeError]
    def self.program(*flags)
      path = File.join(FOLDER, ["delay_proxy", *flags.map { |flag| flag.delete("^a-z,") }].join("-"))
      return path if File.exist?(path) && File.mtime(path) > File.mtime(SOURCE)
      FileUtils.mkdir_p(FOLDER)
      draft = "#{path}.#{Process.pid}"
      system(COMPILER, "-O2", *WARNINGS, *flags, "-o", draft, SOURCE) or raise "#{SOURCE} could not be compiled: the compiler's message is above"
      File.rename(draft, path)
      path
    end

    # @return [Integer] its port on 127.0.0.1
    attr_reader :port
    # @return [Integer] its process ID
    attr_reader :pid

    def initialize(to:, delay: 0.0, socket: nil, flags: [])
      @socket = socket
      @turn = Mutex.new
      input, @commands = IO.pipe
      @answers, output = IO.pipe
      @pid = Process.spawn(self.class.program(*flags), micros(delay), to.to_s, *socket, in: input, out: output, pgroup: true)
      [input, output].each(&:close)
      @port = Integer(@answers.gets || raise("the delay proxy ended at once: its message is above"))
    end

    # Closes all connections at once: with a reset where they are TCP.
    def cut = command("cut")

    # Forwards nothing from now on, closes nothing, and accepts nothing.
    def silence = command("silence")

    # Falls silent after so many more bytes from the server.
    # @param bytes [Integer]
    def answers(bytes) = command("answers #{Integer(bytes)}")

    # Closes new connections.
    def refuse = command("refuse")

    # Ends `silence`, `answers` and `refuse`. Bytes that were held back go first.
    def resume = command("resume")

    # @param seconds [Float] of round trip, for bytes sent from now on
    def delay=(seconds)
      command("delay #{micros(seconds)}")
    end

    # @return [Integer] how many connections are open
    def count = Integer(command("count"))

    # @return [Integer] round trips since the last call: how often a client spoke first, or after an answer. With a
    #   `delay`, bytes sent in one go count once, however many packets carry them
    def trips = Integer(command("trips"))

    # @return [Float] seconds of processor time it has taken so far
    def cpu = File.read("/proc/#{@pid}/stat").rpartition(") ").last.split.values_at(11, 12).sum(&:to_i).fdiv(Etc.sysconf(Etc::SC_CLK_TCK))

    # Ends it; all connections are closed.
    # @return [Process::Status]
    def close
      return if @commands.closed?
      @commands.puts("end")
      Process.wait2(@pid).last
    rescue Errno::EPIPE # it has ended by itself
      Process.wait2(@pid).last
    ensure
      [@commands, @answers].each(&:close)
      File.delete(@socket) if @socket && File.socket?(@socket)
    end

    private

    def micros(seconds) = (seconds * 1_000_000).round.to_s

    def command(line)
      answer = @turn.synchronize do
        @commands.puts(line)
        @answers.gets
      end
      raise "the delay proxy has ended" unless answer
      raise "the delay proxy: #{answer.chomp}" if answer.start_with?("error")
      answer
    rescue Errno::EPIPE
      raise "the delay proxy has ended"
    end
  end
end
