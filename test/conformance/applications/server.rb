# frozen_string_literal: true

require "socket"
%w[bench/ratio bench/statistics servers/core servers/process_tree].each { |file| require_relative "../../../benchmark/#{file}" }

module Conformance
  module Applications
    # A server with an application, for the time of the block, in a session of its own, by which Linux divides the
    # processors, and on a processor of its own.
    #
    #   Server.open(application, contestant) { |server| server.port }
    class Server
      START = 120 # seconds until it must accept connections

      # @param application [Application]
      # @param contestant [Contestant]
      # @return [Object] the block's value
      def self.open(application, contestant)
        server = new(application, contestant)
        yield server.await
      ensure
        server&.stop
      end

      # @return [Integer]
      attr_reader :port
      # @return [Bench::Servers::ProcessTree]
      attr_reader :tree

      def initialize(application, contestant)
        @port = NeverBlockTest::Peer.free_port
        @log = File.join(application.folder, "log", "#{contestant.name.tr(" ", "-")}.log")
        environment = {**application.environment(("neverblock-postgresql" if contestant.ours?)), **contestant.environment}
        command = Bench::Servers::Core::SERVER.tie("bundle", "exec", *contestant.command(@port))
        @pid = Process.spawn(environment, "setsid", *command, chdir: application.folder, in: IO::NULL, out: [@log, "a"], err: %i[child out])
        @tree = Bench::Servers::ProcessTree.new(@pid)
      end

      # @return [self] once it accepts connections
      # @raise [RuntimeError] if that takes too long
      def await
        deadline = now + START
        begin
          TCPSocket.open("127.0.0.1", @port).close
        rescue Errno::ECONNREFUSED
          raise "the server did not start within #{START} s, or ended:\n#{File.readlines(@log).last(20).join}" if now > deadline || Process.wait(@pid, Process::WNOHANG)
          sleep 0.05
          retry
        end
        self
      end

      # Kills it with all of its processes.
      # @return [void]
      def stop
        Process.kill(:KILL, -@pid)
        Process.wait(@pid)
      rescue Errno::ESRCH, Errno::ECHILD
        nil # it has ended by itself
      end

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
