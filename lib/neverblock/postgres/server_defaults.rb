# frozen_string_literal: true

module NeverBlock
  class Postgres
    # What the server gives each new session by itself: ALTER ROLE, ALTER DATABASE, its configuration file. Sessions that are open
    # keep what they were given, so that connections of before and after such a change mean different things by the same statement.
    #
    #   server_defaults = ServerDefaults.new
    #   server_defaults.changed(session_defaults, ServerDefaults.read(pg))   # => nil, or what differs from the connection before, in words
    # @api private
    class ServerDefaults
      # Sets of session defaults that are remembered.
      MAX_REMEMBERED = 1_000
      private_constant :MAX_REMEMBERED

      # What no session can have of its own is the same for all.
      SQL = <<~SQL.gsub(/\s+/, " ").strip.freeze
        select name, setting from pg_catalog.pg_settings where context in ('user', 'superuser', 'superuser-connection', 'connection')
          and source in ('user', 'database', 'database user', 'global', 'configuration file', 'command line')
      SQL

      # @param pg [PG::Connection]
      # @return [Hash{String=>String}]
      def self.read(pg) = pg.exec(SQL).values.to_h

      def initialize
        @known = {}
      end

      # @param session_defaults [SessionDefaults] whose own settings are none of these
      # @param found [Hash{String=>String}] of a new connection
      # @return [String, nil] the first difference from the one before, in words: what is known of other session defaults is void then
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
