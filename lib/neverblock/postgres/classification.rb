# frozen_string_literal: true

module NeverBlock
  class Postgres
    # What {Classifier} found out about one text of SQL:
    #
    #   classification = classifier.call("SET app.tenant TO 'acme'")
    #   classification.kind     # => :set
    #   classification.name     # => "app.tenant"
    #   classification.value    # => "acme"
    #   classification.reason   # => "SET app.tenant"
    #
    # Kinds, and what a connection is for each:
    #
    #   :read            may share a connection with other reads
    #   :write           has a connection alone for its statement, and leaves nothing in it
    #   :empty           no statement
    #   :begin, :commit, :rollback
    #   :transactional   has an effect inside a transaction only (SAVEPOINT, SET LOCAL, LOCK, pg_advisory_xact_lock)
    #   :looking         looks at the session, and leaves nothing in it (current_setting); in a transaction as any statement of it
    #   :set, :reset     of the setting `name`
    #   :discard, :deallocate, :prepare, :execute, :listen, :unlisten, :copy, :cursor   `name` says of what
    #   :session         anything else: it needs a connection of its own until that is reset
    #
    # @!attribute [r] kind
    #   @return [Symbol]
    # @!attribute [r] reason
    #   @return [String, nil] words for a log line; nil for :read and :empty
    # @!attribute [r] name
    #   @return [String, nil] a setting's in lower case, also of set_config(…, true); "all" of RESET ALL, DEALLOCATE ALL, DISCARD ALL; "*" of UNLISTEN *
    # @!attribute [r] setting
    #   @return [String, nil] of a :session by set_config(…, false): the setting that is all it may leave, in lower case
    # @!attribute [r] value
    #   @return [String, nil] of :set: about what SHOW would answer
    # @!attribute [r] several
    #   @return [Boolean] whether the text has more than one statement
    # @!attribute [r] currval
    #   @return [Boolean] whether it calls currval or lastval, which speak of their own connection only
    # @!attribute [r] fingerprint
    #   @return [String] the SQL without its values: how long one of these took says how long the next may take
    Classification = Data.define(:kind, :reason, :name, :value, :setting, :several, :currval, :fingerprint) do
      def initialize(kind:, reason: nil, name: nil, value: nil, setting: nil, several: false, currval: false, fingerprint: "")
        super
      end

      # @return [Boolean] whether it may share a connection with statements of others
      def read? = kind == :read
    end
  end
end
