# frozen_string_literal: true

module NeverBlock
  class Postgres
    # What a lease has set, if it has left nothing else in its session: it is reset by name, and compared, by one statement. So the
    # statements that were parsed keep their names and plans, which DISCARD ALL would end.
    #
    #   Resets.left(classification)                  # => ["app.tenant"]; nil: it may leave something that no name tells
    #   resets = Resets.new(["app.tenant"], connection)
    #   resets.statement                      # RESET "app.tenant", and what else the session keeps
    #   resets.undone?                        # => true: that was answered, and it keeps nothing
    #
    # A plan outlives this, so no setting is in it that changes what a text means while it is parsed (the time zone, the date style),
    # nor one that plans are made by (work_mem). For the search_path and the role PostgreSQL itself makes a plan anew.
    # @api private
    class Resets
      # What statements wait for, and are called: no more.
      HARMLESS = %w[
        application_name client_min_messages idle_in_transaction_session_timeout idle_session_timeout lock_timeout role search_path
        statement_timeout synchronous_commit transaction_timeout
      ].to_h { |name| [name, true] }.freeze

      # An application's own: nothing but what reads it depends on it. PostgreSQL cuts what is longer in SET, and not in set_config.
      CUSTOM = /\A[a-z_][a-z0-9_]{0,62}(?:\.[a-z_][a-z0-9_]{0,62})+\z/

      # One row for each setting, and one more where something else is kept that can be asked for at once. Advisory locks can't, since
      # that holds up all who lock something; nor other settings, which takes the server a third of a millisecond: {Audit} looks for them.
      SQL = <<~SQL.gsub(/\s+/, " ").strip.freeze
        select name, pg_catalog.set_config(name, null, false) from pg_catalog.unnest($1::pg_catalog.text[]) as name
        union all select null, null where session_user::text || ' as ' || current_user::text <> $2
          or exists (select from pg_catalog.pg_cursors where is_holdable) or exists (select from pg_catalog.pg_listening_channels())
          or (pg_catalog.pg_my_temp_schema() <> 0 and exists (select from pg_catalog.pg_class
            where relnamespace = pg_catalog.pg_my_temp_schema() and relkind in ('r', 'v', 'S', 'm')))
      SQL
      private_constant :HARMLESS, :CUSTOM, :SQL

      # @param classification [Classification] of a statement after which its session may keep something
      # @return [Array<String>, nil] the settings that are all it may keep; nil: it may be anything
      def self.left(classification)
        return Statement::NONE if classification.kind == :looking
        name = classification.setting || (classification.name if classification.kind == :set || classification.kind == :reset)
        [name] if HARMLESS[name] || CUSTOM.match?(name.to_s)
      end

      # @param names [Array<String>] of settings, as {left} has told them
      # @param connection [PipelinedConnection]
      def initialize(names, connection)
        @session_defaults = connection.session_defaults
        @baseline = connection.baseline
        roles, others = names.partition { |name| name == "role" } # first: by its rights the others would be reset
        @statement = Statement.new(SQL, ["{#{[*roles, *others].join(",")}}", @baseline["user"]], session_defaults: nil, kind: :own, key: SQL).tap(&:abandon)
        @again = @session_defaults.sets?(names)
      end

      # @return [Statement]
      attr_reader :statement

      # @return [Boolean] whether the session defaults are to be applied after it
      def again? = @again

      # @return [Boolean] whether each has the value that it had when the connection was new, and nothing else is kept
      def undone? = statement.value.values.all? { |name, value| name && ((@again && @session_defaults.sets?([name])) || as_new?(name, value)) }

      private

      # A custom setting of none is ''. An extension's mostly is not, nor one of ALTER ROLE: DISCARD ALL is for those.
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
