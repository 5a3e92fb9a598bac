# frozen_string_literal: true

require "json"
require "net/http"
require "rbconfig"
require_relative "../clock"
require_relative "../limit"

module NeverBlockTest
  # The server of subject.rb in a process of its own, and the resources that it holds.
  #
  #   WatchedServer.open do |server|
  #     server.port
  #     server.at_rest   # => {"pss" => 31_457_280, "descriptors" => 9, "objects" => 60_000, "server" => {…}, …}
  #   end
  class WatchedServer
    include Clock

    PROGRAM = File.join(__dir__, "subject.rb")

    # @param directives [Hash{Symbol=>Object}] override those of subject.rb
    # @yieldparam server [WatchedServer]
    # @return [Object] the block's value
    # @raise [Minitest::Assertion] if the server doesn't end with status 0
    def self.open(**directives)
      server = new(directives)
      value = yield server
      server.finish
      value
    ensure
      server&.kill
    end

    # @return [Integer]
    attr_reader :port

    # Starts Ruby with our lib/ in its path, for all children of the long tests.
    # @param arguments [Array<String>]
    def self.spawn(*arguments, **)
      library = [*ENV["NEVERBLOCK_TEST_LIBRARY"], File.join(ROOT, "lib")].flat_map { |folder| ["-I", folder] }
      Process.spawn(RbConfig.ruby, "-W0", *library, "-I", File.join(ROOT, "test"), *arguments, pgroup: true, **)
    end

    # @param directives [Hash{Symbol=>Object}]
    def initialize(directives)
      limit = Process.getrlimit(:NOFILE).last
      input, @lifeline = IO.pipe
      output, out = IO.pipe
      @pid = self.class.spawn(PROGRAM, JSON.generate(directives), in: input, out:, rlimit_nofile: [limit, limit])
      [input, out].each(&:close)
      raise Minitest::Assertion, "the server did not come up" unless output.wait_readable(LIMIT)
      @port = output.gets.to_i
      output.close
    end

    # @return [Hash{String=>Object}] current resources, after a garbage collection
    def numbers
      JSON.parse(Net::HTTP.start("127.0.0.1", @port, read_timeout: LIMIT) { |http| http.get("/numbers").body })
    end

    # The same, once all other connections have ended.
    # @param staying [Integer] connections
    # @return [Hash{String=>Object}]
    # @raise [Minitest::Assertion] if they don't end in time
    def at_rest(staying: 0)
      wanted = {"connections" => staying + 1, "in_flight" => 1, "queued" => 0, "streams" => 0, "body_bytes" => 0}
      deadline = now + 20
      loop do
        found = numbers
        held = found["server"].slice(*wanted.keys)
        return found if held == wanted
        raise Minitest::Assertion, "the server holds #{held} still, instead of #{wanted}" if now > deadline
        sleep 0.05 # real: the server's process
      end
    end

    # @return [void]
    def finish
      @lifeline.close
      deadline = now + LIMIT
      # real: the server's process ends
      sleep 0.02 until (status = Process.wait2(@pid, Process::WNOHANG)&.last) || now > deadline
      raise Minitest::Assertion, "the server ended with #{status.inspect}" unless status&.success?
      @pid = nil
    end

    # @return [void]
    def kill
      return unless @pid
      Process.kill(:KILL, @pid)
      Process.wait(@pid)
    rescue Errno::ESRCH, Errno::ECHILD
      nil # it has ended by itself and was waited for
    ensure
      @lifeline.close unless @lifeline.closed?
    end
  end
end
