# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Resets the settings that a lease has changed, by name, if it has left no other session state: one statement resets
    # and audits. Prepared statements and their plans stay, which DISCARD ALL would end.
    #
    #   Resets.left(classification)           # => ["app.tenant"]; nil: there may be other session state
    #   resets = Resets.new(["app.tenant"], connection)
    #   resets.statement                      # resets it, and looks for other session state
    #   resets.undone?                        # => true: the statement has found none
    #
    # Since plans stay, settings that change the meaning of a text while it is parsed (time zone, date style) or its
    # plan (work_mem) are not reset by name. After a change of search_path or role PostgreSQL itself makes a new plan.
    # @api private
    class Resets
      # Settings that change neither the meaning nor the plan of a text.
      HARMLESS = %w[
        application_name client_min_messages idle_in_transaction_session_timeout idle_session_timeout lock_timeout role
        search_path statement_timeout synchronous_commit transaction_timeout
      ].to_h { |name| [name, true] }.freeze

      # Names of an application's own settings. Longer ones are left out: SET truncates them, set_config does not.
      CUSTOM = /\A[a-z_][a-z0-9_]{0,62}(?:\.[a-z_][a-z0-9_]{0,62})+\z/

      # One row for each setting, and one of nulls if there is other session state. It leaves out advisory locks, whose
      # view blocks all locking, and other settings, which take the server a third of a millisecond: {Audit} reads them.
      SQL = <<~SQL.gsub(/\s+/, " ").strip.freeze
        select name, pg_catalog.set_config(name, null, false) from pg_catalog.unnest($1::pg_catalog.text[]) as name
        union all select null, null where session_user::text || ' as ' || current_user::text <> $2
          or exists (select from pg_catalog.pg_cursors where is_holdable)
          or exists (select from pg_catalog.pg_listening_channels())
          or (pg_catalog.pg_my_temp_schema() <> 0 and exists (select from pg_catalog.pg_class
            where relnamespace = pg_catalog.pg_my_temp_schema() and relkind in ('r', 'v', 'S', 'm')))
      SQL
      private_constant :HARMLESS, :CUSTOM, :SQL

      # @param classification [Classification] of a statement that may leave session state
      # @return [Array<String>, nil] the settings that it may leave; nil: it may leave anything
      def self.left(classification)
        return Statement::NONE if classification.kind == :looking
        name = classification.setting ||
          (classification.name if classification.kind == :set || classification.kind == :reset)
        [name] if HARMLESS[name] || CUSTOM.match?(name.to_s)
      end

      # @param names [Array<String>] of settings, from {left}
      # @param connection [PipelinedConnection]
      def initialize(names, connection)
        @session_defaults = connection.session_defaults
        @baseline = connection.baseline
        roles, others = names.partition { |name| name == "role" } # first: the others would be reset with its rights
        @statement = Statement.new(SQL, ["{#{[*roles, *others].join(",")}}", @baseline["user"]], session_defaults: nil,
          kind: :own, key: SQL).tap(&:abandon)
        @again = @session_defaults.sets?(names)
      end

      # @return [Statement]
      attr_reader :statement

      # @return [Boolean] whether the session defaults must be applied again afterwards
      def again? = @again

      # @return [Boolean] whether each setting has its baseline value, and there is no other session state
      def undone?
        statement.value.values.all? do |name, value|
          name && ((@again && @session_defaults.sets?([name])) || as_new?(name, value))
        end
      end

      private

      # A custom setting without a default is '' after its reset. Others, of extensions or ALTER ROLE, need DISCARD ALL.
      def as_new?(name, value)
        case name
        when "role" then value == "none"
        when "search_path" then value == @baseline[name]
        else HARMLESS[name] || value == ""
        end
      end
    end
  end
end
