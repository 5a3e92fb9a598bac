# frozen_string_literal: true

module NeverBlock
  class MySQL
    # What the text of a statement says about the connection that it needs, as {Classifier} has found it:
    #
    #   classifier.call("SET @tenant = 7").kind     # => :session
    #   classifier.call("SET @tenant = 7").reason   # => "SET"
    #
    # Kinds:
    #
    #   :read        any connection will do, for this statement alone
    #   :write       the same; its LAST_INSERT_ID() and ROW_COUNT() may be asked for, so the connection is kept
    #   :residue     reads what earlier statements have left: LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS(), SHOW WARNINGS
    #   :definition  CREATE, ALTER, DROP, TRUNCATE, RENAME: ends a transaction, leaves no session state
    #   :begin, :commit, :rollback, :savepoint
    #   :isolation   SET TRANSACTION, which the next BEGIN consumes
    #   :set         SET of anything else
    #   :session     any other: it may leave session state
    #
    # @!attribute [r] kind
    #   @return [Symbol]
    # @!attribute [r] reason
    #   @return [String] in words, for the log and for messages
    # @!attribute [r] residue
    #   @return [String] the names in it of what earlier statements have left, such as "LAST_INSERT_ID"; else empty
    Classification = Data.define(:kind, :reason, :residue) do
      def initialize(kind:, reason:, residue: "") = super

      # @return [Boolean] whether any connection will do
      def read? = kind == :read

      # @return [Boolean] whether it reads what earlier statements have left, or may do so
      def reads_residue? = kind == :residue || leaves_state?

      # What was done in a transaction is rolled back with its connection.
      # @param in_transaction [Boolean]
      # @return [Boolean] whether it may take effect although its connection is lost
      def takes_effect?(in_transaction)
        case kind
        when :read, :begin, :savepoint, :rollback, :isolation then false
        when :write, :residue then !in_transaction
        else true
        end
      end

      # @return [Boolean] whether the connection can't be given to others afterwards
      def leaves_state? = kind == :session || kind == :set
    end
  end
end
