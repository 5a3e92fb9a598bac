# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The settings that the server gives each new session, by ALTER ROLE, ALTER DATABASE, or its configuration file.
    # Open sessions keep theirs, so after a change a statement means different things on older and newer connections.
    #
    #   server_defaults = ServerDefaults.new
    #   server_defaults.changed(session_defaults, ServerDefaults.read(pg))   # => nil, or what differs, in words
    # @api private
    class ServerDefaults
      # Sets of session defaults that are remembered.
      MAX_REMEMBERED = 1_000
      private_constant :MAX_REMEMBERED

      # Only settings that may differ between sessions.
      SQL = <<~SQL.gsub(/\s+/, " ").strip.freeze
        select name, setting from pg_catalog.pg_settings
          where context in ('user', 'superuser', 'superuser-connection', 'connection')
          and source in ('user', 'database', 'database user', 'global', 'configuration file', 'command line')
      SQL

      # @param pg [PG::Connection]
      # @return [Hash{String=>String}]
      def self.read(pg) = pg.exec(SQL).values.to_h

      def initialize
        @known = {}
      end

      # @param session_defaults [SessionDefaults] of the new connection; it sets these, so sets are compared singly
      # @param found [Hash{String=>String}] of the new connection
      # @return [String, nil] the first difference from the connection before, in words
      def changed(session_defaults, found)
        before = @known[session_defaults]
        name = (before.keys | found.keys).find { |key| before[key] != found[key] } if before
        @known.clear if name || @known.size >= MAX_REMEMBERED
        @known[session_defaults] = found
        "#{name} was #{before[name].inspect} and is #{found[name].inspect}" if name
      end
    end
  end
end
