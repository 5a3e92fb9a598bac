# frozen_string_literal: true

module NeverBlock
  class Proxy
    # Checks all upstreams again and again, on a thread of its own, and says when one goes down or comes back. Each
    # process of a server does so for itself, from its first request on: a server forks after the app was loaded.
    #
    #   health = Health.new(backends, probe)
    #   health.start    # at each request; only the first one matters
    #   health.stop
    # @api private
    class Health
      # By so much a pause is longer or shorter, so that the checks of several processes spread out.
      SPREAD = 0.1
      private_constant :SPREAD

      # @param backends [Backends]
      # @param probe [Probe]
      # @param log [Log]
      def initialize(backends, probe, log: Log.new)
        @backends = backends
        @probe = probe
        @log = log
        @lock = Thread::Mutex.new
        @started = false
        Forks.watch(self)
      end

      # @return [void]
      def start
        return if @started
        @lock.synchronize do
          next if @started
          @started = true
          @thread = Thread.new { run }
          @thread.name = "NeverBlock::Proxy::Health"
        end
      end

      # Later requests start no new checks.
      # @return [void]
      def stop
        @started = true
        @thread&.kill&.join
      end

      # In a forked child, where the thread is not: the child's first request starts one.
      # @return [void]
      def disown
        @lock = Thread::Mutex.new
        @started = @thread = nil
      end

      private

      def run
        NeverBlock.run do |scope|
          @backends.all.each { |backend| scope.spawn(name: backend.upstream.url) { watch(backend) } }
        end
      end

      # The pool of the requests may be full. A new connection each time tells whether the upstream accepts any.
      def watch(backend)
        pool = ConnectionPool.new(backend.upstream, max_connections: 1, max_idle: 0)
        loop do
          check(backend, @probe.call(pool))
          sleep(@probe.every * (1 - SPREAD + 2 * SPREAD * rand))
        end
      ensure
        pool&.close
      end

      def check(backend, failure)
        in_a_row = failure ? @probe.fall : @probe.rise
        return unless @backends.checked(backend, failure.nil?, in_a_row:)
        checks = "#{in_a_row} #{(in_a_row == 1) ? "check" : "checks"} of GET #{@probe.path}"
        say(backend, failure ? "no more requests, since #{checks} failed. The last: #{failure}" :
          "requests again, since #{checks} passed")
      end

      def say(backend, text) = UpstreamLines.write(@log, $stderr, backend, text)
    end
  end
end
