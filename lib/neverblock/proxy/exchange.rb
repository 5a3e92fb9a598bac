# frozen_string_literal: true

module NeverBlock
  class Proxy
    # One request and its response.
    #
    #   exchange = Exchange.new(pool, request, timeouts: {total: 10}, on_interim: ->(status, fields) { … })
    #   exchange.call { |response| response.each { |piece| client << piece } }   # closes the response
    #   response = exchange.call                                                 # the caller closes it
    #
    # The request is sent once more, on a new connection, only if the one before had been used by others and ended
    # without a byte of a response, and the upstream may get it twice (RFC 9110, section 9.2.2; RFC 9112, 9.3.1).
    class Exchange
      include MonotonicClock

      HEAD = ValueType.bytes(least: 256)
      MAX_HEAD = 64 << 10
      private_constant :HEAD, :MAX_HEAD

      # @return [Boolean] whether the request was sent a second time
      attr_reader :retried
      alias_method :retried?, :retried
      # @api private
      # @return [Response, nil] known here first: an exception from outside may come before the caller of {#call} has it
      attr_reader :response
      # @return [Float, nil] seconds until there was a connection, with the wait for a free one; nil: there was none
      attr_reader :connect_seconds
      # @return [Float, nil] seconds from the beginning to the head of the response; nil: none has come
      attr_reader :first_byte_seconds

      # @api private
      # The same as the keywords, which would cost each request two Hashes; checked before.
      attr_writer :on_interim, :max_head

      # @param pool [ConnectionPool]
      # @param request [Request]
      # @param timeouts [Timeouts, Hash{Symbol=>Numeric,nil}, nil] in place of the upstream's; a Hash has what differs
      # @param on_interim [#call, nil] gets the status and the fields of each interim response (1xx) but 101
      # @param max_head [Integer, String] bytes of a response's head
      # @raise [ConfigurationError]
      def initialize(pool, request, timeouts: nil, on_interim: nil, max_head: MAX_HEAD)
        @pool = pool
        @request = request
        @upstream = pool.upstream
        @timeouts = case timeouts
        when nil then @upstream.timeouts
        when Timeouts then timeouts
        else @upstream.timeouts.with(**timeouts.to_h)
        end
        @on_interim = on_interim
        @max_head = (max_head == MAX_HEAD) ? max_head : HEAD.setting(max_head) { "max_head:" }
        @retried = false
      end

      # Sends the request and waits for the head of the response.
      # @yieldparam response [Response] closed at the end of the block
      # @return [Response, Object] the response, to be read to its end or closed; with a block the block's value
      # @raise [ConnectError, ConnectionLost, InvalidResponse, InvalidBody, OverloadError, TimeoutError]
      def call
        return perform unless block_given?
        begin
          yield perform
        ensure
          @response&.close
        end
      end

      private

      def perform
        @response = nil
        deadlines = Deadlines.new(@upstream, @timeouts)
        lease = Lease.new(@pool, deadlines, @upstream.preface(@request.client))
        connection = lease.open
        @connect_seconds = now - deadlines.began
        head = attempt(connection, deadlines, lease)
        @first_byte_seconds = now - deadlines.began
        @response = Response.new(head, lease, @upstream, @sent)
      ensure
        lease&.abandon unless @response
      end

      def attempt(connection, deadlines, lease)
        converse(connection, deadlines)
      rescue ConnectionLost
        raise if @retried || !connection.reused? || connection.received? || !@request.repeatable?
        @retried = true
        @request.body&.rewind
        converse(lease.reopen, deadlines)
      end

      # @return [ResponseHead]
      def converse(connection, deadlines)
        reader = HeadReader.new(connection, @request, @upstream, @max_head, @on_interim)
        sender = Sender.new(connection, @request, @upstream, reader, deadlines)
        early = sender.call
        deadlines.start(:first_byte)
        head = early || reader.wait
        @sent = sender.complete?
        head
      end
    end
  end
end
