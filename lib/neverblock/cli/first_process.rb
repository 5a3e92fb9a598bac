# frozen_string_literal: true

module NeverBlock
  class CLI
    # Process 1 of a container. It inherits all orphaned processes and has to reap them, and signals without a handler
    # do not affect it. So the server runs in a child process, as it would below tini.
    #
    #   FirstProcess.take_over    # returns in the server's process; does nothing unless this is process 1
    # @api private
    class FirstProcess
      # Passed on to the server.
      SIGNALS = %w[TERM INT QUIT HUP USR1 USR2 TTIN TTOU].freeze
      # Added to a signal's number for the exit status, as a shell does.
      SIGNALLED = 128

      # @return [void]
      def self.take_over
        new.call if Process.pid == 1
      end

      def initialize
        @early = []
      end

      # Returns in the server's process. This process ends when the server does, with its status.
      # @return [void]
      def call
        before = SIGNALS.to_h { |name| [name, trap(name) { pass_on(name) }] }
        server = fork
        return before.each { |name, handler| trap(name, handler || "DEFAULT") } unless server
        @server = server
        @early.each { |name| pass_on(name) }
        status = wait_for_all
        exit!(status.exitstatus || SIGNALLED + status.termsig)
      end

      private

      # A terminal sends INT to both processes.
      def pass_on(name)
        return @early << name unless @server
        Process.kill(name, @server) unless name == "INT" && $stdin.tty?
      end

      # @return [Process::Status] the server's
      def wait_for_all
        loop do
          pid, status = Process.wait2(-1)
          return status if pid == @server
        end
      end
    end
  end
end
