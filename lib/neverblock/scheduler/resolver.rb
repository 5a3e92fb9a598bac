# frozen_string_literal: true

require "socket"

module NeverBlock
  # Host names for a scheduler. It uses the system's getaddrinfo, and so its hosts files, nsswitch and mDNS, on native
  # threads. NeverBlock::Scheduler includes it and has the native part, #getaddrinfo.
  #
  #   NeverBlock.run { Fiber.scheduler.address_resolve("localhost") }
  #   # => ["::1", "127.0.0.1"]
  #
  # Concurrent callers share one look-up per name, across loops too. The look-up belongs to no caller: it continues when
  # a caller times out or is cancelled, and ends when the last caller leaves. Nothing is cached.
  #
  # `resolver/look_up.rb` is one such look-up.
  module Resolver
    # Errors about the name itself. They count as a result for all callers.
    ANSWERS = SocketError
    private_constant :ANSWERS

    # @return [Flight] the look-ups of this Ractor, shared by the loops of its threads
    def self.flight
      Ractor.current[:neverblock_look_ups] ||= Flight.new(share: ANSWERS)
    end
    flight # creates the main Ractor's flight now, before two threads could each create one

    # Formats a packed socket address as numbers. Ruby's own methods call getnameinfo(3), for which Ruby 3.4
    # starts a native thread each time.
    # @param sockaddr [String]
    # @return [String]
    def self.address(sockaddr)
      return sockaddr.unpack("x4 C4").join(".") if sockaddr.bytesize < 24
      sockaddr.unpack("x8 n8").map { |group| group.to_s(16) }.join(":").sub(/(?:\A|:)(?:0(?::|\z)){2,}/, "::")
    end

    # The hook for every forward look-up.
    #
    # Ruby parses the returned addresses and can't represent the scope of a link-local one, so `fe80::1%eth0` loses its
    # `%eth0` here. TCPSocket.new keeps it.
    # @param host [String] a name
    # @return [Array<String>, nil] addresses in the system's order of preference; nil for an unknown name, for
    #   which Ruby raises its own error
    # @raise [Socket::ResolutionError] if the look-up failed for another reason
    # @raise [SystemCallError] if the system couldn't look up at all
    def address_resolve(host)
      answers = Thread::Queue.new
      look_up = subscribe(answers, host, nil, Socket::AF_UNSPEC)
      _, result = answers.pop
      return result.map { |_, sockaddr| Resolver.address(sockaddr) }.uniq unless result.is_a?(Exception)
      raise result unless result.is_a?(Socket::ResolutionError) && result.error_code == Socket::EAI_NONAME
    ensure
      look_up&.unsubscribe(answers)
    end

    # Looks a name up without waiting. Pushes `[look_up, result]` onto the queue; the result is an array of
    # `[family, sockaddr, ...]`, or an exception.
    # @api private
    # @param answers [Thread::Queue]
    # @param host [String]
    # @param service [String, nil] a service name; nil leaves the port 0
    # @param family [Integer] Socket::AF_INET, AF_INET6, or AF_UNSPEC for both
    # @return [LookUp] the caller must give it up with LookUp#unsubscribe
    def subscribe(answers, host, service, family)
      @look_ups ||= {}
      question = [host.to_str.dup.freeze, service, family].freeze
      look_up = @look_ups[question] || LookUp.new(self, question, @look_ups)
      look_up.subscribe(answers)
    end
  end
end

require_relative "resolver/look_up"
