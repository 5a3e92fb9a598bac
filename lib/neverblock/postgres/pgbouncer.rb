# frozen_string_literal: true

require "securerandom"

module NeverBlock
  class Postgres
    # What can be had through a PgBouncer in transaction mode, where consecutive transactions of one connection may be on
    # different servers' sessions: nothing that a session keeps.
    #
    #   PgBouncer.verify(pg, session_defaults, audit)   # raises where what is to be set on connect does not arrive
    #   PgBouncer.names?(pg)                   # => true: it keeps the names of prepared statements, and statements may be pipelined
    # @api private
    module PgBouncer
      MODES = [nil, :session, :transaction].freeze

      # What it sets anew for each of its clients, whatever session that gets.
      TRACKED = %w[client_encoding DateStyle TimeZone application_name standard_conforming_strings].freeze

      # Every setting with its value, and what a catalogue of settings does not have.
      SETTINGS = "select name, setting from pg_catalog.pg_settings union all select 'role', pg_catalog.current_setting('role') " \
        "union all select 'session_authorization', session_user::text"
      private_constant :SETTINGS

      class << self
        # Nothing that is set on connect lasts, unless it is {TRACKED}. So all of it is set in a transaction that is rolled back, and
        # what that changes is told.
        # @param pg [PG::Connection]
        # @param session_defaults [SessionDefaults] what is to hold
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

        # Before 1.21, and where its max_prepared_statements is 0, a name is one of the server's session that the statement happens
        # to be on. Such a one also gives the session away between two statements that are pipelined, though the second was
        # sent in part, and the next client gets its rows.
        # @param pg [PG::Connection]
        # @return [Boolean] whether it gives statements names of its own
        def names?(pg)
          return false unless pg.respond_to?(:close_prepared) # DEALLOCATE knows nothing of its names
          name = "nb_probe_#{SecureRandom.hex(8)}"
          inside(pg) do
            pg.prepare(name, "select 1")
            arrived = pg.exec_params("select 1 from pg_catalog.pg_prepared_statements where name = $1", [name]).ntuples == 1
            arrived ? pg.exec("DEALLOCATE #{name}") : pg.close_prepared(name)
            !arrived
          end
        end

        # @param what [String] the statement's need, in words
        # @return [ConfigurationError]
        def no_session(what)
          ConfigurationError.new("pgbouncer: :transaction has no sessions, and a statement needs one, or may: #{what}. Give session_url:, a URL that leads to PostgreSQL itself, " \
            "for such statements; name functions that leave nothing behind in shareable_functions:; use SET LOCAL and pg_advisory_xact_lock in transactions")
        end

        private

        # In a transaction all is on one session.
        def inside(pg)
          pg.exec("BEGIN")
          yield
        ensure
          pg.exec("ROLLBACK") if pg.status == PG::CONNECTION_OK
        end

        def state(pg, session_defaults, audit)
          named = session_defaults.settings.keys.to_h { |name| [name, pg.exec_params("select pg_catalog.current_setting($1, true)", [name]).getvalue(0, 0)] }
          others = audit.read(pg.exec(audit.sql)).reject { |name, _value| name.start_with?("setting ") || name == "search_path" || name == "user" }
          known = pg.exec(SETTINGS).values.to_h
          {**named.except(*known.keys.map(&:downcase)), **known, **others}
        end

        def refuse(lost, before, pg)
          words = lost.map { |name, value| "#{name} is #{before[name].inspect}, and is to be #{value.inspect}" }
          remedy = lost.slice(*before.keys).map { |name, value| "#{LocalSettings.statements({name => value}).first.sub("SET LOCAL", "ALTER ROLE #{pg.quote_ident(pg.user)} SET")};" }
          raise ConfigurationError, "what is set on connect does not arrive through pgbouncer: :transaction: #{words.join("; ")}. Let PostgreSQL set it, " \
            "then say RECONNECT to pgbouncer: #{remedy.join(" ")}"
        end
      end
    end
  end
end
