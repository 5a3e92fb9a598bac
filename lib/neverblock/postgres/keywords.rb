# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Words before a parenthesis that are never a function's name: PostgreSQL reserves them, or uses them in its own
    # syntax (kwlist.h: RESERVED_KEYWORD and COL_NAME_KEYWORD). That is true of unquoted and unqualified words only:
    # "coalesce"(…) and shop.coalesce(…) are calls of a user's function.
    #
    #   Keywords.listed(15).include?("coalesce")   # => true
    #   Keywords.listed(15).include?("over")       # => false: a function may have that name
    #   Keywords.listed(15).include?("json_table") # => false: it is syntax from 17 on
    module Keywords
      # By the server version that has added them.
      SINCE = {
        14 => %w[
          all and any array as between both case cast check default distinct else except for from group having in
          intersect lateral leading limit not offset on only or placing returning select some symmetric asymmetric then
          to trailing union unique using variadic when where with current_time current_timestamp localtime
          localtimestamp

          bit char character coalesce dec decimal exists extract float greatest grouping interval least nchar normalize
          nullif numeric overlay position row substring time timestamp trim values varchar xmlattributes xmlconcat
          xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
        ],
        16 => %w[json_array json_arrayagg json_object json_objectagg],
        17 => %w[json json_exists json_query json_scalar json_serialize json_table json_value merge_action]
      }.transform_values(&:freeze).freeze

      # A name right after one of these is a table's, a type's or an alias; in its parenthesis are columns or a size.
      NAMING = %w[as :: table exists references with recursive].to_h { |word| [word, true] }.freeze

      # Words that are not a function's name right after the words listed for them.
      PAIRS = {
        "by" => %w[order group partition], "sets" => %w[grouping], "key" => %w[primary foreign], "zone" => %w[time],
        "varying" => %w[character char bit nchar], "first" => %w[fetch], "next" => %w[fetch], "over" => %w[nulls],
        "join" => %w[inner left right full outer cross natural],
        "bernoulli" => %w[tablesample], "system" => %w[tablesample]
      }.freeze

      # Words that are not reserved and may be followed by an expression, so that a name after them may be a function's.
      BEFORE_EXPRESSIONS = %w[
        by call columns content document escape execute groups ilike into is key like passing path range rows set
        similar value version zone
      ].to_h { |word| [word, true] }.freeze

      # @param version [Integer] the server's major version
      # @return [Hash{String=>true}]
      def self.listed(version)
        SINCE.flat_map { |since, list| (since <= version) ? list : [] }.to_h { |name| [name, true] }.freeze
      end
    end
  end
end
