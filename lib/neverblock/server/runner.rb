# frozen_string_literal: true

module NeverBlock
  class Server
    # Serves in the foreground until a signal ends it.
    #
    #   Runner.new(server).call   # => true: every request came to its end
    # @api private
    class Runner
      SIGNALS = %w[TERM INT].freeze

      # @param server [Server]
      def initialize(server)
        @server = server
        @configuration = server.configuration
        @signals = 0
        @stopping = Thread::Queue.new
      end

      # @return [Boolean] whether nothing was cut short
      # @raise [BindError]
      def call
        before = nil
        NeverBlock.run do
          @server.start
          before = SIGNALS.to_h { |name| [name, trap(name) { signalled }] }
          announce
          NeverBlock.spawn(name: "signals") { tell_what_runs if @stopping.pop }
          @server.service.wait.tap { |whole| say(whole ? "stopped" : "stopped; running requests were cancelled") }
        ensure
          @stopping.close
        end
      ensure
        before&.each { |name, handler| trap(name, handler || "DEFAULT") }
      end

      private

      # In a signal's handler: nothing here may take a lock. A third one is for the kernel: Ruby's own handlers raise, and
      # what runs could rescue that.
      def signalled
        @signals += 1
        SIGNALS.each { |name| trap(name, "SYSTEM_DEFAULT") } if @signals == 2
        @stopping << true if @signals == 1
        @server.service.stop((@signals == 1) ? @configuration[:shutdown_timeout] : 0)
      end

      def tell_what_runs
        requests, queued, streams = @server.stats.values_at(:in_flight, :queued, :streams)
        left = {"request" => requests + queued, "stream" => streams}.select { |_, count| count > 0 }
        return if left.empty?
        words = left.map { |word, count| "#{count} #{word}#{"s" if count > 1}" }.join(", ")
        say("stopping: #{words} left, for up to #{@configuration[:shutdown_timeout]} s; a second signal cancels what is left")
      end

      def announce
        tag = @configuration[:tag] || File.basename(Dir.pwd)
        Process.setproctitle("neverblock #{VERSION} (#{@server.addresses.join(", ")}) [#{tag}]")
        say("NeverBlock #{VERSION}, Ruby #{RUBY_VERSION}, #{NeverBlock.engine.name}: #{tag} at #{@server.addresses.map { |uri| uri.sub("tcp:", "http:") }.join(" and ")}")
        say(shallow) if shallow
      end

      # @return [String, nil] a warning where fibers have less of a stack than was asked for
      def shallow
        wanted, got = @configuration[:stack_depth_vm], RubyVM::DEFAULT_PARAMS[:fiber_vm_stack_size]
        return unless wanted && got < wanted
        "requests have stacks of #{got / 1024} KiB, where stack_depth asks for #{wanted / 1024}: start with neverblock serve, " \
          "or set RUBY_FIBER_VM_STACK_SIZE=#{wanted} and RUBY_FIBER_MACHINE_STACK_SIZE=#{@configuration[:stack_depth_machine] || wanted}"
      end

      def say(message) = @server.events.error_log.info(message)
    end
  end
end
