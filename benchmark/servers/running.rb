# frozen_string_literal: true

# A server in a process of its own, tied to its core, for as long as the block runs.
#
#   Bench::Servers::Running.open(launch) do |server|
#     server.expect(row)
#     server.watch { client.run(server.port) }      # => {"cpu" => 1.9, "objects" => 2_400_000, ...}
#   end
require "net/http"
require "tempfile"
require_relative "../bench/clock"
require_relative "../bench/failure"
require_relative "../bench/load_path"
require_relative "core"
require_relative "process_tree"
require_relative "../../test/support/peer"

module Bench
  class Servers
    class Running
      START = 20 # seconds until it must answer
      PATIENCE = 10 # seconds for one answer of a server that is still busy with requests of an earlier client
      LOOK = 0.02
      STREAMED = 0.06 # seconds in which the beginning of a stream of 90 ms must be here

      # @param launch [Launch]
      # @yieldparam server [Running]
      # @return [Object] the block's value
      # @raise [Failure]
      def self.open(launch)
        raise Failure, launch.missing if launch.missing
        server = new(launch)
        begin
          server.await
          yield(server).tap { server.alive! }
        ensure
          server.stop
        end
      end

      # @return [Integer]
      attr_reader :port
      # @return [ProcessTree]
      attr_reader :tree

      # @param launch [Launch]
      def initialize(launch)
        @log = Tempfile.new("server")
        @port = NeverBlockTest::Peer.free_port
        @counts_objects = launch.counts_objects?
        @pid = Process.spawn(launch.environment, *launch.core.tie(*launch.command(@port)),
          chdir: launch.folder, in: File::NULL, out: @log.path, err: @log.path, pgroup: true)
        @tree = ProcessTree.new(@pid)
      end

      # Waits until it answers.
      # @raise [Failure]
      def await
        deadline = Clock.now + START
        until answers?
          alive!
          raise failure("did not answer within #{START} s") if Clock.now > deadline
          sleep LOOK
        end
      end

      # Asks once, since a wrong answer may be a fast one.
      # @param row [Row]
      # @return [Hash{String=>Object}] "streamed": whether a stream's beginning came before its end
      # @raise [Failure] for a wrong answer
      def expect(row)
        request = Net::HTTPGenericRequest.new(row.verb, !row.sent.zero?, true, row.path, "Accept-Encoding" => "identity")
        request.body = "x" * row.sent unless row.sent.zero?
        first = body = nil
        started = Clock.now
        http do |connection|
          connection.request(request) do |response|
            body = +""
            response.read_body { |part| first ||= Clock.now - started if body.concat(part) }
            raise Failure, "#{row.path} was answered with #{response.code}" unless response.code == "200"
          end
        end
        raise Failure, "#{row.path} was answered with #{body.bytesize} wrong bytes: #{body[0, 60].inspect}" unless row.right?(body)
        (row.path == "/stream") ? {"streamed" => first < STREAMED} : {}
      end

      # @param objects [Boolean] whether to count them: it takes two answers
      # @yieldreturn [Hash{String=>Object}] a client's figures
      # @return [Hash{String=>Object}] those figures, and the server's costs in that time
      def watch(objects: true)
        objects = objects ? allocated : nil
        cpu, busy, started = tree.cpu, Core::SERVER.busy, Clock.now
        figures = yield
        cpu, busy, wall = tree.cpu - cpu, Core::SERVER.busy - busy, Clock.now - started
        alive!
        memory = tree.memory
        objects = allocated&.-(objects) if objects
        {**figures, "cpu" => cpu, "objects" => objects, "memory" => memory, "others" => [(busy - cpu) / wall, 0.0].max}.compact
      end

      # @raise [Failure] if it has ended
      def alive!
        return unless @pid && Process.wait(@pid, Process::WNOHANG)
        status, @pid = $?, nil
        raise failure("ended with #{status.inspect[/exit \d+|SIG\w+/] || status}")
      end

      # Ends it and all that it has started.
      def stop
        pids = @pid ? tree.pids : []
        Process.kill(:KILL, -@pid) if @pid
        pids.each { |pid| end_process(pid) }
        Process.wait(@pid) if @pid
      rescue Errno::ESRCH, Errno::ECHILD
        nil # it has ended by itself
      ensure
        @pid = nil
        @log.close!
      end

      private

      def end_process(pid)
        Process.kill(:KILL, pid)
      rescue Errno::ESRCH
        nil # with its group
      end

      def answers?
        http { |connection| connection.get("/hello").code == "200" }
      rescue SystemCallError, IOError, Timeout::Error, Net::ProtocolError, Net::HTTPBadResponse
        false
      end

      # @return [Integer, nil] nil where it cannot tell, or is too busy to
      def allocated
        Integer(http { |connection| connection.get("/objects").body }) if @counts_objects
      rescue Timeout::Error
        nil
      rescue SystemCallError, IOError => error
        alive!
        raise failure("does not answer: #{error.message}")
      end

      def http(&) = Net::HTTP.start("127.0.0.1", port, open_timeout: PATIENCE, read_timeout: PATIENCE, &)

      def failure(reason) = Failure.of(reason, File.readlines(@log.path))
    end
  end
end
