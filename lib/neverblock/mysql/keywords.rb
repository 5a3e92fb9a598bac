# frozen_string_literal: true

module NeverBlock
  class MySQL
    # Words before a parenthesis that are never a function's name. Both MySQL and MariaDB reserve them, so no function
    # of a user can have one of them unquoted. Quoted, or after a dot, each may be a function's name.
    #
    #   Keywords::RESERVED["values"]   # => true
    #   Keywords::NAMING["into"]       # => true: a table's name comes next
    module Keywords
      RESERVED = %w[
        all and as between binary both by case char collate cross decimal dec default delete distinct distinctrow div
        double else except exists float for force from group having ignore in index inner insert int integer intersect
        interval into is join key leading left like limit lock match natural not numeric on or order out outer over
        partition primary procedure real references regexp replace returning right rlike row select set straight_join
        table then trailing union unique unsigned update use using values varbinary varchar varying when where with xor
        bigint smallint tinyint mediumint
      ].to_h { |word| [word, true] }.freeze

      # Words that are part of the syntax before a parenthesis only after certain tokens.
      AFTER = {"against" => [")"], "any" => %w[= < >], "offset" => [")"]}.freeze

      # A name right after one of these is a table's, a column's alias or a type's; in its parenthesis are columns, or a
      # size.
      NAMING = %w[as into insert replace ignore table with recursive key index constraint references].to_h do |word|
        [word, true]
      end.freeze
    end
  end
end
