# frozen_string_literal: true

module NeverBlock
  class Postgres
    # What must hold of a connection, so that its statements can be judged by their text.
    #
    #   SafetyChecks.check(pg, "shop, public")     # raises where text does not mean what it seems to
    # @api private
    module SafetyChecks
      # In which a byte of ASCII can be the second half of a character, so that a quote may be none. PostgreSQL has them for
      # clients alone.
      ENCODINGS = %w[
        big5 win950 windows950 gb18030 gbk win936 windows936 johab shiftjis2004 sjis mskanji shiftjis win932 windows932 uhc win949 windows949
      ].freeze

      REMEDY = "or turn sharing off: multiplex: false"
      private_constant :REMEDY

      # @param pg [PG::Connection] with its session defaults
      # @param search_path [String] as SHOW says it
      # @return [void]
      # @raise [ConfigurationError]
      def self.check(pg, search_path)
        strings(pg.parameter_status("standard_conforming_strings"))
        encoding(pg.parameter_status("client_encoding"))
        path(search_path.split(",").map { |name| name.strip.delete_prefix('"').delete_suffix('"') })
      end

      # @param pg [PG::Connection]
      # @param process [Integer] that answers on it
      # @return [void]
      # @raise [ConfigurationError] if something between gives it now one session, now another
      def self.no_pooler(pg, process)
        return if pg.backend_pid == process
        raise ConfigurationError, "a pooler stands between: the server's process is #{process}, and #{pg.backend_pid} was announced. " \
          "Say which of PgBouncer's modes it has, pgbouncer: :transaction or pgbouncer: :session"
      end

      # @param encoding [String] as PostgreSQL takes it: neither case nor punctuation count
      # @return [Boolean] whether a quote in it may be half of a character
      def self.client_only?(encoding) = ENCODINGS.include?(encoding.downcase.delete("^a-z0-9"))

      def self.strings(value)
        raise ConfigurationError, "standard_conforming_strings is #{value.inspect}: what is within quotes would be judged wrongly. Set it to on, #{REMEDY}" unless value == "on"
      end

      def self.encoding(value)
        raise ConfigurationError, "client_encoding is #{value}, in which a quote may be half of a character. Use UTF8, #{REMEDY}" if client_only?(value)
      end

      def self.path(names)
        place = names.index("pg_catalog")
        raise ConfigurationError, "search_path is #{names.join(", ")}: what comes before pg_catalog could replace built-in functions. Leave pg_catalog out, #{REMEDY}" if place&.positive?
        temporary = names.find { |name| name.start_with?("pg_temp") }
        raise ConfigurationError, "search_path names #{temporary}, which belongs to one session. Leave it out, #{REMEDY}" if temporary
      end
      private_class_method :strings, :encoding, :path
    end
  end
end
