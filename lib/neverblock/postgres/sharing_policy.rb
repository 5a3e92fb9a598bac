# frozen_string_literal: true

module NeverBlock
  class Postgres
    # What connection a statement gets: the one place for that rule, and the one table of what each kind of statement ({Classification})
    # means for connections.
    #
    #   policy = SharingPolicy.new(:reads)
    #   policy.placed?(classification)          # => false: it needs a lease, a connection for as long as its user has something in it
    #   policy.shares?(classification, nil)     # => true: behind others, and others behind it, as soon as {Timings} know it to be fast;
    #                                    #    until then, and else, it is alone on a connection while it runs
    # @api private
    class SharingPolicy
      # What a kind means. placed: it leaves nothing behind, so that it needs no lease. leaves_state: its session may keep something beyond the
      # transaction. simple: it goes by the simple protocol. judged: what it reaches, and does not name, is looked up ({Catalogue}).
      Kind = Data.define(:placed, :leaves_state, :simple, :judged) do
        def initialize(placed: false, leaves_state: false, simple: false, judged: false) = super
      end

      stateful = Kind.new(leaves_state: true)
      # An empty statement asks whether the connection lives, as Active Record does before it rolls back to a savepoint.
      KINDS = {
        read: Kind.new(placed: true, judged: true), write: Kind.new(placed: true, judged: true),
        transactional: Kind.new(placed: true, judged: true), looking: Kind.new(judged: true),
        begin: Kind.new, commit: Kind.new(placed: true), rollback: Kind.new(placed: true), empty: Kind.new(placed: true, simple: true),
        cursor: Kind.new(leaves_state: true, judged: true), copy: Kind.new(leaves_state: true, simple: true), deallocate: Kind.new,
        set: stateful, reset: stateful, discard: stateful, prepare: stateful, execute: stateful, listen: stateful, unlisten: stateful, session: stateful
      }.freeze

      # @param kind [Symbol] a {Classification}'s
      # @return [Kind]
      # @raise [KeyError] if there is none
      def self.kind(kind) = KINDS.fetch(kind)

      # @param multiplex [:reads, :all, false] what shares connections
      def initialize(multiplex)
        @multiplex = multiplex
      end

      # @param classification [Classification]
      # @return [Boolean] whether it needs no lease by what it is: its user may need one for what came before
      def placed?(classification) = @multiplex && KINDS.fetch(classification.kind).placed

      # @param classification [Classification]
      # @param doubt [String, nil] why it may leave something in its session all the same
      # @return [Boolean] whether it may share a connection, as soon as it is known to be fast
      def shares?(classification, doubt) = doubt.nil? && (classification.kind == :read || @multiplex == :all)

      # @param classification [Classification]
      # @param sql [String]
      # @param in_transaction [Boolean] whether one is open
      # @return [Boolean] whether its session may keep something beyond the transaction
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
