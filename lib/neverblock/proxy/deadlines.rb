# frozen_string_literal: true

module NeverBlock
  class Proxy
    # The deadlines of one exchange. All its waits for a socket are here, so none is without a limit.
    #
    #   deadlines = Deadlines.new(upstream, Timeouts.new(first_byte: 5, total: 30))
    #   deadlines.start(:first_byte)
    #   deadlines.wait(socket, IO::READABLE, :first_byte)   # raises FirstByteTimeout after 5 s
    # @api private
    class Deadlines
      include MonotonicClock

      ERRORS = {
        connect: [ConnectTimeout, "no connection was made"],
        first_byte: [FirstByteTimeout, "no response's head came"],
        idle: [IdleTimeout, "no byte could be read or written"],
        total: [TotalTimeout, "the exchange did not end"]
      }.freeze
      private_constant :ERRORS

      # @param upstream [Upstream] for messages
      # @param timeouts [Timeouts]
      def initialize(upstream, timeouts)
        @upstream = upstream
        @timeouts = timeouts
        @began = now
        @total_at = timeouts.total && @began + timeouts.total
      end

      # @return [Float] when the exchange has begun
      attr_reader :began

      # Begins a phase that is limited as a whole; :idle begins anew with each wait.
      # @param phase [:connect, :first_byte]
      # @return [void]
      def start(phase)
        if phase == :first_byte
          @first_byte_at = (limit = @timeouts.first_byte) && now + limit
        else
          @connect_at = (limit = @timeouts.connect) && now + limit
        end
      end

      # Waits for a socket.
      # @param io [IO, OpenSSL::SSL::SSLSocket]
      # @param events [Integer] IO::READABLE, IO::WRITABLE or both
      # @param phase [Symbol]
      # @param most [Numeric, nil] seconds after which it returns without an error
      # @return [Integer, nil] the events that came; nil after `most` seconds
      # @raise [TimeoutError] of the phase, or of the whole
      def wait(io, events, phase, most: nil)
        seconds, phase = left(phase)
        late(phase) if seconds && seconds <= 0
        soon = most && (seconds.nil? || most < seconds)
        io.to_io.wait(events, soon ? most : seconds) || (soon ? nil : late(phase))
      end

      # @param phase [Symbol] as of {#start}, or :head: a head that has begun, each wait and the whole
      # @return [Array(Numeric, Symbol), Array(nil, Symbol)] seconds that are left, and the phase that ends first
      def left(phase)
        time = now
        at = case phase
        when :idle, :head then (limit = @timeouts.idle) && time + limit
        when :first_byte then @first_byte_at
        when :connect then @connect_at
        end
        at, phase = head(at) if phase == :head
        at, phase = @total_at, :total if @total_at && (at.nil? || @total_at < at)
        [at && at - time, phase]
      end

      # For work that goes on without a wait.
      # @return [void]
      # @raise [TotalTimeout]
      def check = (late(:total) if @total_at && now >= @total_at)

      # Runs a block that waits for something else than a socket, such as a name server.
      # @param phase [Symbol]
      # @return [Object] the block's value
      # @raise [TimeoutError]
      def limit(phase, &)
        seconds, phase = left(phase)
        return yield if seconds.nil?
        late(phase) if seconds <= 0
        at = now + seconds
        begin
          NeverBlock.timeout(seconds) { yield }
        rescue Timeout::Error => error
          raise if Error === error || now < at # another one's
          late(phase)
        end
      end

      # The same under the deadline of the whole alone: for a source that is not the upstream's.
      # @return [Object] the block's value
      # @raise [TotalTimeout]
      def limit_total(&) = @total_at ? limit(:total, &) : yield

      # @param phase [Symbol] whose deadline has passed
      # @raise [TimeoutError]
      def late(phase)
        error, what = ERRORS.fetch(phase)
        seconds = @timeouts.public_send(phase)
        raise error.new("upstream #{@upstream}: #{what} within #{seconds} s (the timeout #{phase}:). See to the " \
          "upstream, or raise that timeout", upstream: @upstream, phase:, seconds:), cause: nil
      end

      private

      # The sooner one: a head that comes byte by byte may never be idle.
      def head(idle_at)
        whole = @first_byte_at && (idle_at.nil? || @first_byte_at < idle_at)
        whole ? [@first_byte_at, :first_byte] : [idle_at, :idle]
      end
    end
  end
end
