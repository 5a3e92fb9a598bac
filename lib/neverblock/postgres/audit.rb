# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Reads the state of a session and compares it with the baseline: settings, user and role, advisory locks, temporary
    # tables, channels, cursors, prepared statements that are not ours. It finds what no command tag and no reported
    # setting shows, such as a function that calls set_config or a trigger that takes a lock.
    #
    #   audit = Audit.new(settings: ["app.tenant"])      # custom settings are in no catalogue, and so are named
    #   audit.difference(before, after)                  # => "setting work_mem: nil, then \"64MB\""
    # @api private
    class Audit
      # One row for each piece of session state: its kind and name, its value. Settings such as transaction_isolation
      # are left out: SET TRANSACTION makes their source "session", though each transaction begins with the defaults.
      SQL = <<~SQL.gsub(/\s+/, " ").strip.freeze
        select 'setting ' || name, setting from pg_catalog.pg_settings
          where source = 'session' and name !~ '^transaction_'
        union all select 'search_path', pg_catalog.current_setting('search_path')
        union all select 'user', session_user::text || ' as ' || current_user::text
        union all select 'advisory lock ' || classid || '/' || objid, mode from pg_catalog.pg_locks
          where locktype = 'advisory' and pid = pg_catalog.pg_backend_pid()
        union all select 'temporary ' || relname, relkind::text from pg_catalog.pg_class
          where relnamespace = pg_catalog.pg_my_temp_schema() and relkind in ('r', 'v', 'S', 'm')
        union all select 'channel ' || channel, '' from pg_catalog.pg_listening_channels() as channel
        union all select 'cursor ' || name, '' from pg_catalog.pg_cursors where is_holdable
        union all select 'prepared statement ' || name, '' from pg_catalog.pg_prepared_statements
          where name !~ '^nb[0-9]+$'
      SQL

      # @param settings [Array<String>] names of custom settings
      # @raise [ConfigurationError] if one can't be a custom setting's name
      def initialize(settings: [])
        @sql = [SQL, *Array(settings).map { |name| custom(name) }].join(" union all ").freeze
      end

      # @return [String]
      attr_reader :sql

      # @param result [PG::Result] of {#sql}
      # @return [Hash{String=>String}] the session state
      def read(result) = result.values.to_h

      # @param before [Hash{String=>String}]
      # @param after [Hash{String=>String}]
      # @return [String, nil] the first difference, in words
      def difference(before, after)
        name = (before.keys | after.keys).find { |key| before[key] != after[key] }
        "#{name}: #{before[name].inspect}, then #{after[name].inspect}" if name
      end

      private

      def custom(name)
        unless /\A[a-z_][\w$]*(\.[a-z_][\w$]*)+\z/i.match?(name)
          raise ConfigurationError, "audit_settings: #{name.inspect} is not the name of a custom setting: it must " \
            "have a prefix, as in \"app.tenant\""
        end
        "select 'setting #{name}', nullif(pg_catalog.current_setting('#{name}', true), '')"
      end
    end
  end
end
