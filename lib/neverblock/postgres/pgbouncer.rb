# frozen_string_literal: true

require "securerandom"

module NeverBlock
  class Postgres
    # Checks of a PgBouncer in transaction mode, where consecutive transactions of one connection may be on different
    # sessions, so that session state is not available.
    #
    #   PgBouncer.verify(pg, session_defaults, audit)   # raises if session defaults would be lost
    #   PgBouncer.names?(pg)                            # => true: it supports prepared statements, and pipelines
    # @api private
    module PgBouncer
      # Settings that PgBouncer tracks for each client, and applies to whatever session that gets.
      TRACKED = %w[client_encoding DateStyle TimeZone application_name standard_conforming_strings].freeze

      # All settings with their values, and two that pg_settings does not have.
      SETTINGS = "select name, setting from pg_catalog.pg_settings union all select 'role', " \
        "pg_catalog.current_setting('role') " \
        "union all select 'session_authorization', session_user::text"
      private_constant :SETTINGS

      class << self
        # @param options [Hash{Symbol=>Object}] of {Options}
        # @return [Hash{Symbol=>Object}] those of the connections by `session_url`
        def sessions(options)
          name = "#{options[:name]} (sessions)"
          connections = options[:session_connections]
          {**options, connections:, name:, pgbouncer: nil, session_url: nil, min_connections: 0}
        end

        # Settings made on connect are lost, unless they are {TRACKED}. It applies all in a transaction that is rolled
        # back, and refuses those that have changed.
        # @param pg [PG::Connection]
        # @param session_defaults [SessionDefaults] those that must hold
        # @param audit [Audit]
        # @return [void]
        # @raise [ConfigurationError]
        def verify(pg, session_defaults, audit)
          before = after = nil
          inside(pg) do
            before = state(pg, session_defaults, audit)
            session_defaults.apply(pg)
            after = state(pg, session_defaults, audit)
          end
          changed = after.reject { |name, value| before[name] == value }
          tracked, lost = changed.partition { |name, _value| TRACKED.include?(name) }
          refuse(lost.to_h, before, pg) unless lost.empty?
          tracked.each { |name, value| pg.exec_params("select pg_catalog.set_config($1, $2, false)", [name, value]) }
        end

        # Before 1.21, and with max_prepared_statements = 0, PgBouncer does not track prepared statements: a name exists
        # only in the session where it was prepared. Such a PgBouncer must not get pipelined statements either: it may
        # give the session to another client between two of them, though the second was sent in part; it gets its rows.
        # @param pg [PG::Connection]
        # @return [Boolean] whether it tracks prepared statements
        def names?(pg)
          return false unless pg.respond_to?(:close_prepared) # DEALLOCATE does not work with its names
          name = "nb_probe_#{SecureRandom.hex(8)}"
          inside(pg) do
            pg.prepare(name, "select 1")
            arrived =
              pg.exec_params("select 1 from pg_catalog.pg_prepared_statements where name = $1", [name]).ntuples == 1
            arrived ? pg.exec("DEALLOCATE #{name}") : pg.close_prepared(name)
            !arrived
          end
        end

        # @param what [String] the reason why the statement needs a session
        # @return [ConfigurationError]
        def no_session(what)
          ConfigurationError.new("pgbouncer: :transaction has no sessions, and a statement needs one, or may need " \
            "one: #{what}. Set session_url: to a URL of PostgreSQL itself, for such statements; " \
            "name functions that leave no session state in shareable_functions:; " \
            "use SET LOCAL and pg_advisory_xact_lock in transactions")
        end

        private

        # A transaction has one session.
        def inside(pg)
          pg.exec("BEGIN")
          yield
        ensure
          pg.exec("ROLLBACK") if pg.status == PG::CONNECTION_OK
        end

        def state(pg, session_defaults, audit)
          named = session_defaults.settings.keys.to_h do |name|
            [name, pg.exec_params("select pg_catalog.current_setting($1, true)", [name]).getvalue(0, 0)]
          end
          others = audit.read(pg.exec(audit.sql)).reject do |name, _value|
            name.start_with?("setting ") || name == "search_path" || name == "user"
          end
          known = pg.exec(SETTINGS).values.to_h
          {**named.except(*known.keys.map(&:downcase)), **known, **others}
        end

        def refuse(lost, before, pg)
          words = lost.map { |name, value| "#{name} is #{before[name].inspect}, but must be #{value.inspect}" }
          alter = "ALTER ROLE #{pg.quote_ident(pg.user)} SET"
          remedy = lost.slice(*before.keys).map do |name, value|
            "#{LocalSettings.statements({name => value}).first.sub("SET LOCAL", alter)};"
          end
          raise ConfigurationError, "settings made on connect are lost with pgbouncer: :transaction: " \
            "#{words.join("; ")}. Let PostgreSQL set them, then send RECONNECT to PgBouncer: #{remedy.join(" ")}"
        end
      end
    end
  end
end
