# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Makes statements of settings that end with their transaction:
    #
    #   LocalSettings.statements({role: "tenant_7", "app.tenant" => 7})
    #   # => ["SET LOCAL role TO 'tenant_7'", "SET LOCAL app.tenant TO '7'"]
    # @api private
    module LocalSettings
      NAME = /\A[a-z_][\w$]*(\.[a-z_][\w$]*)*\z/i
      private_constant :NAME

      # Settings whose value is a list; each part is quoted by itself.
      LISTS = %w[search_path temp_tablespaces].freeze
      private_constant :LISTS

      # @param settings [Hash{String, Symbol=>Object}]
      # @param inside [Boolean] whether a transaction is open: the settings would end with that, not with the block
      # @return [Array<String>]
      # @raise [ConfigurationError] if a name is invalid, or a transaction is open
      def self.statements(settings, inside: false)
        if inside
          raise ConfigurationError,
            "with_settings inside a transaction: the settings would last until its end. Put it around that transaction"
        end
        if settings.empty?
          raise ConfigurationError, "with_settings needs settings, such as role: \"tenant\" or \"app.tenant\" => 7"
        end
        settings.map do |name, value|
          unless NAME.match?(name)
            raise ConfigurationError,
              "with_settings: #{name.inspect} is not the name of a setting, such as role: or \"app.tenant\""
          end
          "SET LOCAL #{name} TO #{value(name.to_s, value)}"
        end
      end

      def self.value(name, value)
        return quote(value) unless LISTS.include?(name)
        parts = value
        unless Array === value
          parts = value.to_s.split(",").map { |part| part.strip.delete_prefix('"').delete_suffix('"') }
        end
        parts.map { |part| quote(part) }.join(", ")
      end

      # Escapes backslashes so that standard_conforming_strings does not matter.
      def self.quote(value)
        quoted = "'#{value.to_s.gsub("'", "''")}'"
        quoted.include?("\\") ? "E#{quoted.gsub("\\") { "\\\\" }}" : quoted
      end
      private_class_method :value, :quote
    end
  end
end
