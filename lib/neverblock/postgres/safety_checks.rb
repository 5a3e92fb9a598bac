# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Checks of a new connection that statements may be classified by their text.
    #
    #   SafetyChecks.check(pg, "shop, public")     # raises if a text could mean something else than it seems to
    # @api private
    module SafetyChecks
      # Encodings in which an ASCII byte can be the second byte of a character, so that a quote may not be a quote.
      # PostgreSQL allows them only for clients.
      ENCODINGS = %w[
        big5 win950 windows950 gb18030 gbk win936 windows936 johab shiftjis2004 sjis mskanji shiftjis win932 windows932
        uhc win949 windows949
      ].freeze

      REMEDY = "or turn sharing off: multiplex: false"
      private_constant :REMEDY

      # @param pg [PG::Connection] with its session defaults applied
      # @param search_path [String] as SHOW returns it
      # @return [void]
      # @raise [ConfigurationError]
      def self.check(pg, search_path)
        strings(pg.parameter_status("standard_conforming_strings"))
        encoding(pg.parameter_status("client_encoding"))
        path(search_path.split(",").map { |name| name.strip.delete_prefix('"').delete_suffix('"') })
      end

      # @param pg [PG::Connection]
      # @param process [Integer] pid of the backend that answers
      # @return [void]
      # @raise [ConfigurationError] if a pooler is in between, which may change the session
      def self.no_pooler(pg, process)
        return if pg.backend_pid == process
        raise ConfigurationError, "a pooler stands between: the server's process is #{process}, but " \
          "#{pg.backend_pid} was announced. " \
          "Set its pool mode: pgbouncer: :transaction or pgbouncer: :session"
      end

      # @param encoding [String] its name; case and punctuation don't matter, as in PostgreSQL
      # @return [Boolean] whether it is one of {ENCODINGS}
      def self.client_only?(encoding) = ENCODINGS.include?(encoding.downcase.delete("^a-z0-9"))

      def self.strings(value)
        unless value == "on"
          raise ConfigurationError,
            "standard_conforming_strings is #{value.inspect}: strings would be read wrongly. Set it to on, #{REMEDY}"
        end
      end

      def self.encoding(value)
        if client_only?(value)
          raise ConfigurationError,
            "client_encoding is #{value}, in which a quote may be half of a character. Use UTF8, #{REMEDY}"
        end
      end

      def self.path(names)
        place = names.index("pg_catalog")
        if place&.positive?
          raise ConfigurationError, "search_path is #{names.join(", ")}: schemas before pg_catalog could replace " \
            "built-in functions. Leave pg_catalog out, #{REMEDY}"
        end
        temporary = names.find { |name| name.start_with?("pg_temp") }
        if temporary
          raise ConfigurationError,
            "search_path names #{temporary}, which belongs to one session. Leave it out, #{REMEDY}"
        end
      end
      private_class_method :strings, :encoding, :path
    end
  end
end
