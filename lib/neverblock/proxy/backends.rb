# frozen_string_literal: true

require_relative "backend"

module NeverBlock
  class Proxy
    # Chooses the upstream of a request by a policy, {LeastRequests} or {ConsistentHash}, among those that are well. One
    # that fails is left alone for a while, each time for longer; the last one never is. One that {Health} finds down
    # gets requests only if all are.
    #
    #   backend = backends.pick([], key)
    #   backends.well(backend)                     # it has responded; => true: the log gets a line
    #   backends.failed(backend, connect: true)    # => 0.8: it is left alone for so many seconds, and the log says so
    #   backends.release(backend)         # the exchange is over
    # @api private
    class Backends
      include MonotonicClock

      # @return [Array<Backend>]
      attr_reader :all

      # @param all [Array<Backend>]
      # @param most_failures [Integer] in a row that take one out
      # @param shortest [Numeric] seconds
      # @param longest [Numeric] seconds
      # @param policy [LeastRequests, ConsistentHash]
      # @param random [#rand]
      def initialize(all, most_failures:, shortest:, longest:, policy: LeastRequests.new, random: Random)
        @all = all
        @most_failures = most_failures
        @shortest = shortest
        @longest = longest
        @random = random
        @policy = policy
        @lock = Thread::Mutex.new
        Forks.watch(self)
      end

      # In a forked child: the parent's requests are not the child's.
      # @return [void]
      def disown
        @lock = Thread::Mutex.new
        @all.each do |backend|
          backend.in_flight = backend.tunnels = 0
          backend.trying = false
        end
      end

      # @param env [Hash] Rack's
      # @return [String, nil] for {#pick}
      def key(env) = @policy.key(env)

      # @param tried [Array<Backend>] that have failed this request
      # @param key [String, nil] of the request
      # @return [Backend, nil] to be released; nil: all were tried
      def pick(tried, key = nil)
        @lock.synchronize do
          left = tried.empty? ? @all : @all - tried
          if (backend = (left.size == 1) ? left.first : best(left, now, key))
            backend.trying = true if backend.out_until
            backend.in_flight += 1
          end
          backend
        end
      end

      # @param backend [Backend] whose request is over
      # @return [void]
      def release(backend)
        @lock.synchronize do
          # A forked child may end a request of its parent's.
          backend.in_flight -= 1 if backend.in_flight.positive?
          backend.trying = false
        end
      end

      # @param backend [Backend]
      # @param most [Integer] tunnels at a time
      # @return [Boolean] whether there is a place
      def enter_tunnel(backend, most)
        @lock.synchronize do
          free = backend.tunnels < most
          backend.tunnels += 1 if free
          free
        end
      end

      # @param backend [Backend] of which {#enter_tunnel} had a place
      # @return [void]
      def leave_tunnel(backend)
        @lock.synchronize { backend.tunnels -= 1 if backend.tunnels.positive? }
      end

      # @param backend [Backend] that has begun a response
      # @return [Boolean] whether the log gets a line: it was left alone, and is not any more
      def well(backend)
        return false if backend.failures.zero? && backend.out_until.nil? && !backend.told
        @lock.synchronize do
          backend.failures = backend.times_out = 0
          backend.out_until = nil
          backend.trying = false
          backend.tell?(false, now)
        end
      end

      # @param backend [Backend] that has not
      # @param connect [Boolean] whether there was no connection
      # @return [Float, nil] seconds for which it is left alone, if the log gets a line; nil: it is not left alone, or
      #   was so before
      def failed(backend, connect:)
        time = now
        @lock.synchronize do
          backend.failures += 1
          backend.counts[:connect_failures] += 1 if connect
          # Several requests may fail of one cause: it is taken out once.
          out = backend.out_until && time < backend.out_until
          next if out || !(connect || backend.out_until || backend.failures >= @most_failures)
          next if @all.none? { |other| !other.equal?(backend) && other.out_until.nil? && !other.down }
          backend.times_out += 1
          backend.counts[:taken_out] += 1
          backend.out_until = time + (seconds = pause(backend.times_out))
          seconds if backend.tell?(true, time)
        end
      end

      # @param backend [Backend] that was checked
      # @param well [Boolean] whether the check has passed
      # @param in_a_row [Integer] checks of this outcome that change its state
      # @return [Boolean] whether its state has changed
      def checked(backend, well, in_a_row:)
        @lock.synchronize do
          backend.counts[well ? :checks_passed : :checks_failed] += 1
          backend.checks = (well == backend.down) ? backend.checks + 1 : 0
          next false if backend.checks < in_a_row
          backend.down = !well
          backend.checks = 0
          true
        end
      end

      private

      # A request that fails otherwise may as well try those that are out.
      def best(backends, time, key)
        usable = backends.select { |backend| backend.usable?(time) }
        usable = backends.reject(&:down) if usable.empty?
        @policy.call(usable.empty? ? backends : usable, key)
      end

      # Between one half and the whole of it, so that several proxies do not come back at the same time.
      def pause(times)
        seconds = [@shortest * 2**[times - 1, 16].min, @longest].min
        seconds * (0.5 + @random.rand / 2)
      end
    end
  end
end
