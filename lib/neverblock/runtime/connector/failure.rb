# frozen_string_literal: true

module NeverBlock
  class Connector
    # Records the last failure and words it as Ruby's TCPSocket.new does.
    # @api private
    class Failure
      # Ruby 4.0 and later raise an IO::TimeoutError with the host for each time limit.
      NAMED_TIMEOUTS = RUBY_VERSION >= "4.0"

      def initialize(host, port, local_host, local_port)
        @remote = [host, port]
        @local = [local_host, local_port]
      end

      # @return [String] the next system call, such as "bind(2)"
      attr_writer :call

      # @return [Addrinfo] the last address, if no other attempt or look-up is pending
      attr_writer :only_attempt

      # Notes that one family only is looked up.
      def only_family
        @only_family = true
      end

      # @param error [SystemCallError, Exception] the error of an attempt
      def attempt(error)
        @exception = error.is_a?(SystemCallError) ? name(error.errno) : error
      end

      # Ignores "no address of this family" for IPv6, which is asked for speculatively: it says nothing about the name.
      # @param family [Integer]
      # @param error [Exception]
      def resolution(family, error)
        return @exception = error if @only_family || !error.is_a?(Socket::ResolutionError)
        return if family == Socket::AF_INET6 && error.error_code == Socket::EAI_ADDRFAMILY
        @exception = error.exception(error.message.sub("getaddrinfo:", "getaddrinfo(3):"))
      end

      # @return [Exception] the error to raise when every attempt has failed
      attr_reader :exception

      # @return [Exception] the error to raise when a time limit has passed
      def timeout
        if NAMED_TIMEOUTS
          target = @only_attempt ? @only_attempt.inspect_sockaddr : @remote.join(" port ")
          IO::TimeoutError.new("user specified timeout for #{target}")
        elsif @only_attempt
          IO::TimeoutError.new("Connect timed out!")
        else
          Errno::ETIMEDOUT.new("user specified timeout")
        end
      end

      private

      def name(errno)
        host, port = (@call == "bind(2)") ? @local : @remote
        message = "#{@call} for #{host.inspect} port #{port}"
        (errno == Errno::ETIMEDOUT::Errno) ? IO::TimeoutError.new(message) : SystemCallError.new(message, errno)
      end
    end
    private_constant :Failure
  end
end
