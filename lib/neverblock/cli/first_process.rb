# frozen_string_literal: true

module NeverBlock
  class CLI
    # Process 1 of a container: whatever its parent has left behind becomes a child of this one, and stays a zombie until it
    # is waited for; and signals without a handler do nothing to it. So the server is a process below it, as behind tini.
    #
    #   FirstProcess.take_over    # returns in the server's process; elsewhere than in process 1 it does nothing
    # @api private
    class FirstProcess
      # Those that are for the server.
      SIGNALS = %w[TERM INT QUIT HUP USR1 USR2 TTIN TTOU].freeze
      # As a shell has it, for a process that a signal has ended.
      SIGNALLED = 128

      # @return [void]
      def self.take_over
        new.call if Process.pid == 1
      end

      def initialize
        @early = []
      end

      # Goes on in the server's process; this one ends with it, and with its status.
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

      # What a terminal sends goes to both of us.
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
