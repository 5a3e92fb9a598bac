# frozen_string_literal: true

require_relative "field"

module NeverBlock
  class Cache
    # The query of a key: verbatim, unless options say otherwise.
    #
    #   KeyQuery.of("b=1&utm_source=x&a=2", ignore: ["utm_source"], sort: true)    # => "a=2&b=1"
    #
    # Parsers differ, and a parameter that this file sees but the app does not lets a client store one page under the
    # URL of another ("parameter cloaking"). So a query is changed only if all parsers read it alike:
    #
    # * A query with ";", which separates pairs for some parsers, or with a name that can't be decoded, stays verbatim.
    # * A pair is ignored only if its whole decoded name is listed: `utm[x]` and `UTM` are not `utm`.
    # * Pairs are sorted only if no name occurs twice, where `a`, `a[]` and `a[b]` are one name: their order matters.
    # @api private
    module KeyQuery
      # Printable bytes without "#".
      PRINTABLE = /\A[!-"$-~]*\z/
      PLAIN = /\A[A-Za-z0-9._~-]*\z/
      ENCODED = /\A(?:[^%]|%[0-9A-Fa-f]{2})*+\z/
      # Bytes of the longest query, and the most pairs in one that is changed.
      LONGEST = 8 << 10
      MOST_PAIRS = 500
      private_constant :PRINTABLE, :PLAIN, :ENCODED, :LONGEST, :MOST_PAIRS

      class << self
        # @param query [String, nil]
        # @param ignore [Array<String>] decoded names
        # @param sort [Boolean]
        # @return [String, nil] "" if there is none; nil: too long, or with a byte that a URL doesn't have
        def of(query, ignore: [], sort: false)
          return "" if query.nil? || query.empty?
          return if query.bytesize > LONGEST
          query = Field.plain(query)
          return unless PRINTABLE.match?(query)
          (sort || !ignore.empty?) ? changed(query, ignore, sort) : query
        end

        private

        def changed(query, ignore, sort)
          return query if query.include?(";")
          pairs = query.split("&", -1)
          return query if pairs.size > MOST_PAIRS
          names = pairs.map { |pair| name(pair) }
          return query if names.include?(nil)
          ignore = ignore.map { |name| Field.plain(name) }
          kept = pairs.zip(names).reject { |_, name| ignore.include?(name) }
          kept.sort_by!(&:first) if sort && sortable?(kept)
          kept.map(&:first).join("&")
        end

        # @return [String, nil] the decoded name; nil: parsers may read it in different ways
        def name(pair)
          name = pair[/\A[^=]*/]
          return name if PLAIN.match?(name)
          return unless ENCODED.match?(name)
          Field.plain(name.b.tr("+", " ").gsub(/%[0-9A-Fa-f]{2}/) { |code| code[1, 2].hex.chr })
        end

        def sortable?(kept)
          bases = kept.map { |_, name| name[/[^\[\]]+/] || name }
          bases.uniq.size == bases.size
        end
      end
    end
  end
end
