# frozen_string_literal: true

require_relative "safety_checks"

module NeverBlock
  class Postgres
    # Reads SET and RESET:
    #
    #   Settings.read(%w[set statement_timeout to 500])   # => {kind: :set, name: "statement_timeout", value: "500"}
    #   Settings.read(%w[reset all])                      # => {kind: :reset, name: "all"}
    #
    # SET … TO DEFAULT is a :reset. A statement that is not plain is a :session, with its reason.
    module Settings
      # Settings by which a text means something else while it is parsed and planned, because of its tables ("$user" in
      # a search_path is the role) or its literals: no statement that was prepared before is used after them.
      MEANING = %w[
        all array_nulls backslash_quote bytea_output datestyle extra_float_digits intervalstyle lc_monetary role
        search_path session_authorization standard_conforming_strings timezone timezone_abbreviations
        transform_null_equals xmlbinary xmloption
      ].to_h { |name| [name, true] }.freeze

      # Names of settings that SQL writes in several words.
      NAMES = {
        %w[time zone] => "timezone", %w[session authorization] => "session_authorization",
        %w[transaction isolation level] => "transaction_isolation"
      }.freeze

      CHARACTERISTICS = {
        %w[isolation level serializable] => %w[default_transaction_isolation serializable],
        %w[isolation level repeatable read] => ["default_transaction_isolation", "repeatable read"],
        %w[isolation level read committed] => ["default_transaction_isolation", "read committed"],
        %w[isolation level read uncommitted] => ["default_transaction_isolation", "read uncommitted"],
        %w[read only] => %w[default_transaction_read_only on], %w[read write] => %w[default_transaction_read_only off],
        %w[deferrable] => %w[default_transaction_deferrable on],
        %w[not deferrable] => %w[default_transaction_deferrable off]
      }.freeze

      # Settings that are lists of names, which are quoted if necessary.
      NAME_LISTS = %w[search_path temp_tablespaces local_preload_libraries session_preload_libraries].freeze

      # A name that needs no quotes. (PostgreSQL also quotes key words, though it can read them without.)
      PLAIN_NAME = /\A[a-z_][a-z0-9_$]*\z/
      NAME = /\A(?:[a-z_\u0080-\u{10ffff}]|")/
      NUMBER = /\A\.?\d/
      ON = %w[on true yes 1 t y tr tru ye].freeze
      TRANSACTIONAL = %w[constraints transaction].freeze
      private_constant(*constants(false) - %i[MEANING])

      # @param tokens [Array<String>] of a statement that begins with SET or RESET
      # @return [Hash{Symbol=>Object}] the attributes of a {Classification}
      def self.read(tokens)
        verb, *words = tokens
        scope = words.first if verb == "set" && word?(words)
        return {kind: :transactional, reason: "SET #{scope.upcase}"} if TRANSACTIONAL.include?(scope)
        local = scope == "local"
        words.shift if local
        name, value = found = (verb == "reset") ? reset(words) : set(words)
        return {kind: :session, reason: "a #{verb.upcase} that is not understood"} unless found
        danger = danger(name, value)
        if danger && (value || local)
          return {kind: :session, name:, reason: "SET #{name} to #{value || "its default"}: #{danger}"}
        end
        return {kind: :transactional, name:, reason: "SET LOCAL"} if local # it ends with the transaction
        value ? {kind: :set, name:, value:, reason: "SET #{name}"} : {kind: :reset, name:, reason: "RESET #{name}"}
      end

      # @return [Boolean] whether the first token is a word of SET's syntax; else it is a setting's name, or a part of
      #   one, as in local.tenant
      def self.word?(words) = !%w[. = to].include?(words[1])

      # Why a setting would make the texts of other statements mean something else than they seem to.
      # @param value [String, nil] nil: the default, which is unknown here
      def self.danger(name, value)
        case name
        when "standard_conforming_strings" then "strings would be read differently" unless ON.include?(value&.downcase)
        when "seed" then "others would get random numbers that it has chosen"
        when "client_encoding"
          "a quote may be half of a character" if value.nil? || SafetyChecks.client_only?(value)
        when "search_path"
          return "tables would be made as temporary ones" if value&.include?("pg_temp")
          if value&.split(/[,"\s]+/)&.reject(&:empty?)&.index("pg_catalog")&.positive?
            "built-in functions could be replaced"
          end
        end
      end

      def self.reset(words)
        return if words.empty?
        name = NAMES[words] || plain_name(words)
        name && [name, nil]
      end

      def self.set(words)
        case words
        in [*, "from", "current"] then nil
        in ["session", "characteristics", "as", "transaction", *modes] then CHARACTERISTICS[modes]
        in ["session", "authorization", *value] then assigned("session_authorization", value)
        in ["session", *rest] if word?(words) then plain(rest)
        in rest then plain(rest)
        end
      end

      def self.plain(words)
        case words
        in ["time", "zone", "local"] then ["timezone", nil]
        in ["time", "zone", value] unless NUMBER.match?(value) then assigned("timezone", [value])
        in ["names"] then ["client_encoding", nil]
        in ["names", value] then assigned("client_encoding", [value])
        in ["role", value] unless ["=", "to"].include?(value) then assigned("role", [value])
        in ["schema", value] if value.start_with?("'") then assigned("search_path", [value])
        in ["xml", "option", "document" | "content" => value] then ["xmloption", value]
        else
          at = words.index { |word| word == "=" || word == "to" }
          name = at && plain_name(words[0...at])
          name && assigned(name, words[at + 1..])
        end
      end

      # @return [Array(String, String), nil] name and value. The name's parts are joined by dots, and only ASCII letters
      #   are folded to lower case: not the Kelvin sign "K", for example
      def self.plain_name(words)
        parts, dots = words.partition.with_index { |_, index| index.even? }
        return if words.size.even? || dots.any? { |dot| dot != "." } || !parts.all? { |part| NAME.match?(part) }
        parts.map { |part| unquote(part) }.join(".").downcase(:ascii)
      end

      def self.assigned(name, words)
        return [name, nil] if words == ["default"]
        elements = [[]]
        words.each { |word| (word == ",") ? elements << [] : elements[-1] << word }
        values = elements.map { |element| value(element) }
        return if values.empty? || values.any?(&:nil?)
        if NAME_LISTS.include?(name)
          values.map! { |value| PLAIN_NAME.match?(value) ? value : %("#{value.gsub('"', '""')}") }
        end
        [name, values.join(", ")]
      end

      # @return [String, nil] nil: it is not plain
      def self.value(element)
        sign = element[0] if %w[- +].include?(element[0])
        word = element[sign ? 1 : 0]
        return if word.nil? || element.size != (sign ? 2 : 1) || word == "default"
        return (sign == "-") ? "-#{word}" : word if NUMBER.match?(word)
        return if sign
        return unquote(word) if word.start_with?("'") || NAME.match?(word)
        return if !word.start_with?("E'") || word.gsub("\\\\", "").include?("\\") || word.match?(/[\n\r]/)
        unquote(word[1..]).gsub("\\\\", "\\")
      end

      # @param token [String] a word, or one in quotes of either kind
      # @return [String]
      def self.unquote(token)
        quote = token[0]
        ["'", '"'].include?(quote) ? token[1..-2].gsub(quote * 2, quote) : token
      end
      private_class_method :danger, :reset, :set, :word?, :plain, :plain_name, :assigned, :value
    end
  end
end
