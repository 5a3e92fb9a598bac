# frozen_string_literal: true

module NeverBlock
  class Proxy
    # The content of a client's request, as a source of a {RequestBody}: pieces as they come, at most so many bytes, and
    # not too slowly: a client that sends a byte now and then would keep a connection to the upstream for ever. An error
    # of the client's end is remembered, since it is not the upstream's.
    #
    #   input = LimitedInput.new(env["rack.input"], 1 << 20, least: 500)
    #   input.read(65_536)    # => a piece; nil at the end
    #   input.failure         # => #<EOFError>: the client has left
    # @api private
    class LimitedInput
      include MonotonicClock

      # The content is refused.
      class Refused < NeverBlock::ProtocolError
        include Error
      end

      # More content than allowed.
      TooLarge = Class.new(Refused)
      # Fewer bytes a second than allowed.
      TooSlow = Class.new(Refused)

      # Seconds of waiting for the client before its rate counts.
      GRACE = 10
      private_constant :GRACE

      # @return [Exception, nil] that a read has raised
      attr_reader :failure

      # @param input [#read] Rack's
      # @param limit [Integer, nil] bytes
      # @param least [Integer, nil] bytes a second, of the time in which the client was waited for
      def initialize(input, limit, least: nil)
        @input = input
        @limit = limit
        @least = least
        @waited = 0.0
        @partial = input.respond_to?(:readpartial) && input.respond_to?(:eof?)
        @count = 0
      end

      # Waits for the first bytes.
      # @return [Boolean] whether there are any
      def any?
        @first ||= piece(RequestBody::PIECE)
        !@first.nil?
      end

      # @param most [Integer] bytes
      # @return [String, nil]
      # @raise [TooLarge, TooSlow]
      def read(most)
        found, @first = @first || piece(most), nil
        found
      end

      private

      # A server's `read` may wait until there are as many bytes as asked for.
      def piece(most)
        began = now
        bytes = from(most)
        return if bytes.nil? || bytes.empty?
        @waited += now - began
        @count += bytes.bytesize
        refuse
        bytes
      rescue => error
        @failure = error
        raise
      end

      def from(most)
        return @input.read(most) unless @partial
        @input.readpartial(most) unless @input.eof?
      end

      def refuse
        if @limit && @count > @limit
          raise TooLarge, "the request's content has more than #{@limit} bytes (max_request_body:)"
        end
        return unless @least && @waited > GRACE && @count < @least * @waited
        raise TooSlow, "the request's content came with less than #{@least} bytes a second (min_request_rate:)"
      end
    end
  end
end
