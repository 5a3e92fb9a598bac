# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The properties of one text of SQL, as {Classifier} has found them:
    #
    #   classification = classifier.call("SET app.tenant TO 'acme'")
    #   classification.kind     # => :set
    #   classification.name     # => "app.tenant"
    #   classification.value    # => "acme"
    #   classification.reason   # => "SET app.tenant"
    #
    # Kinds, and what connection each needs:
    #
    #   :read            may share a connection with other reads
    #   :write           runs alone, and leaves no session state
    #   :empty           no statement
    #   :begin, :commit, :rollback
    #   :transactional   its effect ends with the transaction (SAVEPOINT, SET LOCAL, LOCK, pg_advisory_xact_lock)
    #   :looking         reads session state, and leaves none (current_setting); in a transaction like any other
    #   :set, :reset     of the setting `name`
    #   :discard, :deallocate, :prepare, :execute, :listen, :unlisten, :copy, :cursor   of `name`
    #   :session         any other: it needs a lease, whose connection is reset afterwards
    #
    # @!attribute [r] kind
    #   @return [Symbol]
    # @!attribute [r] reason
    #   @return [String, nil] in words, for the log; nil for :read and :empty
    # @!attribute [r] name
    #   @return [String, nil] a setting's name in lower case, also of set_config(…, true); "all" of RESET ALL,
    #     DEALLOCATE ALL, DISCARD ALL; "*" of UNLISTEN *
    # @!attribute [r] setting
    #   @return [String, nil] for a :session by set_config(…, false): the setting that it may change, in lower case
    # @!attribute [r] value
    #   @return [String, nil] of :set: the value that SHOW would return, roughly
    # @!attribute [r] several
    #   @return [Boolean] whether the text has more than one statement
    # @!attribute [r] currval
    #   @return [Boolean] whether it calls currval or lastval, which depend on their session
    # @!attribute [r] fingerprint
    #   @return [String] the SQL without its values, by which {Timings} learn the duration
    # @!attribute [r] plain
    #   @return [Boolean] whether it is one read or write that has to do with no session state and no setting
    Classification =
      Data.define(:kind, :reason, :name, :value, :setting, :several, :currval, :fingerprint, :plain) do
        def initialize(kind:, reason: nil, name: nil, value: nil, setting: nil, several: false, currval: false,
          fingerprint: "",
          plain: (kind == :read || kind == :write) && !several && !currval && setting.nil? && name.nil?)
          super
        end

        # @return [Boolean] whether it is a read, which may share a connection
        def read? = kind == :read
      end
  end
end
