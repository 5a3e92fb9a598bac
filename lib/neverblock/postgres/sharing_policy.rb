# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Decides whether a statement shares a connection, has one alone, or needs a lease. It has the one table of what
    # each kind of statement ({Classification}) means for connections.
    #
    #   policy = SharingPolicy.new(:reads)
    #   policy.placed?(classification)         # => false: it needs a lease
    #   policy.shares?(classification, nil)    # => true: it shares once {Timings} know it as fast; false: it runs alone
    # @api private
    class SharingPolicy
      # The properties of a kind. placed: it needs no lease. leaves_state: it may leave session state. simple: it is
      # sent out of pipeline mode. judged: the {Catalogue} is asked which objects the statement reaches
      # indirectly.
      Kind = Data.define(:placed, :leaves_state, :simple, :judged) do
        def initialize(placed: false, leaves_state: false, simple: false, judged: false) = super
      end

      stateful = Kind.new(leaves_state: true)
      # An empty statement probes the connection; Active Record sends one before it rolls back to a savepoint.
      KINDS = {
        read: Kind.new(placed: true, judged: true), write: Kind.new(placed: true, judged: true),
        transactional: Kind.new(placed: true, judged: true), looking: Kind.new(judged: true),
        begin: Kind.new, commit: Kind.new(placed: true), rollback: Kind.new(placed: true),
        empty: Kind.new(placed: true, simple: true),
        cursor: Kind.new(leaves_state: true, judged: true), copy: Kind.new(leaves_state: true, simple: true),
        deallocate: Kind.new,
        set: stateful, reset: stateful, discard: stateful, prepare: stateful, execute: stateful, listen: stateful,
        unlisten: stateful, session: stateful
      }.freeze

      # @param kind [Symbol] of a {Classification}
      # @return [Kind]
      # @raise [KeyError] if it is unknown
      def self.kind(kind) = KINDS.fetch(kind)

      # @param multiplex [:reads, :all, false] the kinds of statements that share connections
      def initialize(multiplex)
        @multiplex = multiplex
      end

      # @return [Boolean] whether reads need no lease
      def reads? = @multiplex && true

      # @param classification [Classification]
      # @return [Boolean] whether the statement itself needs no lease; its user may have one for earlier statements
      def placed?(classification) = @multiplex && KINDS.fetch(classification.kind).placed

      # @param classification [Classification]
      # @param doubt [String, nil] why it may leave session state although its text shows none
      # @return [Boolean] whether it may share a connection once it is known to be fast
      def shares?(classification, doubt) = doubt.nil? && (classification.kind == :read || @multiplex == :all)

      # @param classification [Classification]
      # @param sql [String]
      # @param in_transaction [Boolean] whether one is open
      # @return [Boolean] whether it may leave session state
      def lasting?(classification, sql, in_transaction)
        case classification.kind
        when :copy then false
        when :looking then !in_transaction
        when :cursor then Lexer.tokens(sql).each_cons(2).include?(%w[with hold]) # all others end with their transaction
        else KINDS.fetch(classification.kind).leaves_state
        end
      end
    end
  end
end
