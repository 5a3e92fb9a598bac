# frozen_string_literal: true

require "json"

module NeverBlock
  class Cache
    class RemoteStore
      # The client of a server that has values by name and nothing else. A key's entries are values, and a further one
      # lists them.
      #
      # A subclass has `values(names)`, `add(name, text, lasting:)`, `set(name, text, lasting:)`, `delete(name)`,
      # `failure?(error)` and `close`.
      # @api private
      class KeyValue
        NONE = [].freeze
        DIGEST = /\A\h{32}\z/
        # Of a list; more of them are not written.
        MOST = 1_000
        private_constant :NONE, :DIGEST, :MOST

        # @param shelf [Shelf]
        # @param names [Array<String>] of values
        # @yieldparam variant [String]
        # @yieldreturn [Boolean] whether the entry is wanted
        # @return [Array(Array<String, nil>, Hash{String=>String})] the values, and the entries by variant
        def look(shelf, names, &wanted)
          index, *marks = values([shelf.index, *names])
          variants = variants(index)
          variants = variants.select(&wanted) if wanted
          return [marks, {}] if variants.empty? || !marks.all?
          [marks, variants.zip(values(variants.map { |variant| entry_name(shelf, variant) })).to_h.compact]
        end

        # @param shelf [Shelf]
        # @param variant [String]
        # @param text [String] the entry
        # @param most [Integer] entries of the shelf
        # @return [Boolean] whether it is stored
        def put(shelf, variant, text, most)
          set(entry_name(shelf, variant), text) && list(shelf, variant, most) || false
        end

        # @param shelf [Shelf]
        # @return [Integer] number of entries removed
        def remove(shelf)
          variants(values([shelf.index]).first).count { |variant| discard(shelf, variant) }
        end

        # @param shelf [Shelf]
        # @param variant [String]
        # @return [Boolean]
        def discard(shelf, variant) = delete(entry_name(shelf, variant))

        private

        # Another process may do so at the same time: then one of both variants is not found.
        def list(shelf, variant, most)
          kept, left = listed(values([shelf.index]).first, variant, most)
          done = set(shelf.index, JSON.generate(kept))
          left.each { |one| discard(shelf, one) }
          done
        end

        # @return [Array(Array<String>, Array<String>)] the variants, the newest first, and those that must leave
        def listed(index, variant, most)
          variants = [variant, *variants(index)].uniq
          [variants.first(most), variants.drop(most)]
        end

        def variants(index)
          list = (String === index) ? JSON.parse(index) : NONE
          return NONE unless Array === list && list.all? { |one| String === one && DIGEST.match?(one) }
          list.first(MOST)
        rescue JSON::ParserError, EncodingError
          NONE
        end

        def entry_name(shelf, variant) = "#{shelf.entries}:#{variant}"
      end
    end
  end
end
