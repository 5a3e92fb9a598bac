# frozen_string_literal: true

require "socket"

module NeverBlock
  # Host names for a scheduler: the system's own getaddrinfo, and so hosts files,
  # nsswitch and mDNS, on native threads kept for it. Included by
  # NeverBlock::Scheduler, whose #getaddrinfo does the native part.
  #
  #   NeverBlock.run { Fiber.scheduler.address_resolve("localhost") }
  #   # => ["::1", "127.0.0.1"]
  #
  # All who ask for a name while it is looked up share that look-up, across loops
  # too. It belongs to none of them: a caller that times out or is cancelled leaves
  # it going for the others, and the last to leave ends it. Nothing is cached.
  module Resolver
    # Errors that say something about the name, not about who asked.
    ANSWERS = SocketError
    private_constant :ANSWERS

    # @return [Flight] the look-ups of this Ractor, shared by its threads' loops
    def self.flight
      Ractor.current[:neverblock_look_ups] ||= Flight.new(share: ANSWERS)
    end
    flight # the main Ractor's, before threads could make two

    # Writes the address of a packed socket address in numbers. Ruby's own ways ask
    # getnameinfo(3), for which Ruby 3.4 starts a native thread each time.
    # @param sockaddr [String]
    # @return [String]
    def self.address(sockaddr)
      return sockaddr.unpack("x4 C4").join(".") if sockaddr.bytesize < 24
      sockaddr.unpack("x8 n8").map { |group| group.to_s(16) }.join(":").sub(/(?:\A|:)(?:0(?::|\z)){2,}/, "::")
    end

    # Ruby's hook for every forward look-up.
    #
    # Ruby parses the addresses again and has no place for the scope of a link-local
    # one, so that `fe80::1%eth0` loses its `%eth0` here; TCPSocket.new keeps it.
    # @param host [String] a name
    # @return [Array<String>, nil] addresses in the system's order of preference; nil
    #   if the name is unknown, which Ruby turns into its own error
    # @raise [Socket::ResolutionError] if the look-up failed for another reason
    # @raise [SystemCallError] if the system could not look up at all
    def address_resolve(host)
      answers = Thread::Queue.new
      look_up = subscribe(answers, host, nil, Socket::AF_UNSPEC)
      _, result = answers.pop
      return result.map { |_, sockaddr| Resolver.address(sockaddr) }.uniq unless result.is_a?(Exception)
      raise result unless result.is_a?(Socket::ResolutionError) && result.error_code == Socket::EAI_NONAME
    ensure
      look_up&.unsubscribe(answers)
    end

    # Looks a name up without waiting: `[look_up, result]` is pushed onto the queue,
    # where result is an array of `[family, sockaddr, ...]` or an exception.
    # @api private
    # @param answers [Thread::Queue]
    # @param host [String]
    # @param service [String, nil] a service name; nil leaves the port 0
    # @param family [Integer] Socket::AF_INET, AF_INET6, or AF_UNSPEC for both
    # @return [LookUp] to be given up with LookUp#unsubscribe
    def subscribe(answers, host, service, family)
      @look_ups ||= {}
      question = [host.to_str.dup.freeze, service, family].freeze
      look_up = @look_ups[question] || LookUp.new(self, question, @look_ups)
      look_up.subscribe(answers)
    end
  end
end

require_relative "resolver/look_up"
