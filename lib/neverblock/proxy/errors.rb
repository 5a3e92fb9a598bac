# frozen_string_literal: true

module NeverBlock
  class Proxy
    # What the errors of an exchange have in common. Each class includes it.
    #
    #   rescue NeverBlock::Proxy::Error => error
    #     error.upstream   # => #<NeverBlock::Proxy::Upstream http://127.0.0.1:3000>
    #     error.phase      # => :first_byte
    module Error
      include NeverBlock::Error

      # @return [Upstream, nil] that was asked
      attr_reader :upstream
      # @return [Symbol, nil] what was under way: :queue, :connect, :tls, :first_byte, :head, :idle, :body or :total
      attr_reader :phase

      # @param message [String]
      # @param upstream [Upstream, nil]
      # @param phase [Symbol, nil]
      def initialize(message = nil, upstream: nil, phase: nil)
        super(message)
        @upstream = upstream
        @phase = phase
      end
    end

    # A request can't be sent as HTTP, or is of a kind that a proxy does not send. Nothing of it was sent.
    class InvalidRequest < NeverBlock::ProtocolError
      include Error
    end

    # The source of a request's body has failed to give as many bytes as were announced.
    class InvalidBody < NeverBlock::ProtocolError
      include Error
    end

    # No connection could be made. The `cause` is the error of the last address that was tried.
    class ConnectError < StandardError
      include Error
    end

    # The upstream's certificate was not accepted, or it does not speak TLS.
    class TLSError < ConnectError
    end

    # The connection ended before the response did.
    class ConnectionLost < StandardError
      include Error
    end

    # What came is not a response of HTTP/1.1, or it is doubtful where it ends.
    class InvalidResponse < NeverBlock::ProtocolError
      include Error
    end

    # All connections to an upstream are in use, and none became free in time, or too many wait.
    class OverloadError < NeverBlock::OverloadError
      include Error
    end

    # A deadline has passed. Each phase has a class of its own.
    class TimeoutError < NeverBlock::TimeoutError
      include Error

      # @return [Numeric] the limit
      attr_reader :seconds

      # @param message [String]
      # @param upstream [Upstream, nil]
      # @param phase [Symbol, nil]
      # @param seconds [Numeric, nil]
      def initialize(message = nil, upstream: nil, phase: nil, seconds: nil)
        super(message, upstream:, phase:)
        @seconds = seconds
      end
    end

    # No connection was made in time; the name's look-up and TLS count.
    class ConnectTimeout < TimeoutError
    end

    # The request was sent, and no response began in time.
    class FirstByteTimeout < TimeoutError
    end

    # No byte could be read, or written, for too long.
    class IdleTimeout < TimeoutError
    end

    # The exchange as a whole took too long.
    class TotalTimeout < TimeoutError
    end
  end
end
