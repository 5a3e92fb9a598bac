# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The state of a database's catalogue at one time. A later one tells what has changed, so that only that is read
    # again.
    #
    #   before = Revision.new(pg.exec(Revision.query).values)
    #   after = Revision.new(pg.exec(Revision.query(before.horizon)).values)
    #   after.same?(before)      # => false
    #   after.removed?(before)   # whether rows were removed or replaced
    #   after.ids                # => ["16403", "2200", …]: the OIDs that are in new rows
    #
    # All transactions before the horizon had ended when it was read. A row of one of them is an old row. Old rows only
    # get fewer, so their number tells whether one was removed or replaced; the others are new rows.
    # @api private
    class Revision
      # Classes of usual things in pg_depend.
      USUAL = %w[pg_class pg_type pg_attrdef pg_constraint pg_rewrite pg_trigger pg_policy pg_proc]
        .map { |table| "'pg_catalog.#{table}'::pg_catalog.regclass" }.join(", ")

      # Columns with OIDs that a new row brings into play, by the catalogue.
      TABLES = {
        "pg_depend" => "objid, refobjid", "pg_proc" => "oid", "pg_rewrite" => "oid, ev_class",
        "pg_policy" => "oid, polrelid", "pg_attrdef" => "oid, adrelid",
        "pg_constraint" => "oid, conrelid, confrelid, contypid", "pg_trigger" => "oid, tgrelid, tgfoid",
        "pg_type" => "oid, typrelid", "pg_namespace" => "oid", "pg_class" => "oid"
      }.freeze

      # New rows that lead from one thing to another although they name only one of them, such as row security that is
      # switched on, or a class of operators: then all is read again.
      WIDE = {"pg_depend" => "deptype = 'e' or classid not in (#{USUAL})", "pg_class" => "relrowsecurity"}.freeze

      # A function that an extension gives up is one of the user's.
      MEMBERS = "deptype = 'e'"

      # OIDs up to which only changes are read.
      MOST = 5_000
      private_constant(*constants(false))

      # @param horizon [String, nil] of an earlier one; nil: a new one
      # @return [String]
      def self.query(horizon = nil)
        horizon = horizon ? "'#{horizon}'" : "(txid_snapshot_xmin(txid_current_snapshot()) % 4294967296)::text"
        parts = TABLES.map { |table, ids| part(table, table, ids, WIDE[table]) }
        parts << part("members", "pg_depend", "null", nil, MEMBERS)
        "with of(horizon) as materialized (select #{horizon}::xid) #{parts.join(" union all ")}"
      end

      # @param horizon [String]
      # @return [String] the condition for new rows
      def self.since(horizon) = "pg_catalog.age(xmin) <= (select pg_catalog.age('#{horizon}'::xid))"

      def self.part(name, table, ids, wide, condition = "true")
        row = "pg_catalog.hashtext(pg_catalog.concat(xmin, ctid))"
        "select (select horizon from of), '#{name}', " \
          "(select count(*) from pg_catalog.#{table} where #{condition}) - count(*), string_agg(#{row}::text, ' '), " \
          "coalesce(sum(#{row}) filter (where #{wide || "false"}), 0), " \
          "string_agg(pg_catalog.concat_ws(' ', #{ids}), ' ') from pg_catalog.#{table} " \
          "where #{condition} and pg_catalog.age(xmin) <= (select pg_catalog.age(horizon) from of)"
      end
      private_class_method :part

      # @param rows [Array<Array<String, nil>>] of {query}
      def initialize(rows)
        @horizon = rows.first&.first
        @old = rows.to_h { |_, name, old| [name, old.to_i] }
        @new = rows.to_h { |_, name, _, marks| [name, marks.to_s.split.to_set] }
        @wide = rows.to_h { |_, name, _, _, mark| [name, mark] }
        @ids = rows.flat_map { |*, ids| ids.to_s.split }.uniq
      end

      # @return [String, nil]
      attr_reader :horizon
      # @return [Array<String>] OIDs in its new rows
      attr_reader :ids
      # @return [Hash{String=>Integer}] the number of old rows by catalogue
      attr_reader :old
      # @return [Hash{String=>Set<String>}] a mark of each new row by catalogue
      attr_reader :new
      # @return [Hash{String=>String}] a mark of the new rows with wide changes by catalogue
      attr_reader :wide

      # @param before [Revision] with the same horizon
      # @return [Boolean] whether nothing has changed
      def same?(before) = old == before.old && new == before.new

      # @param before [Revision] with the same horizon
      # @return [Boolean] whether rows of before were removed or replaced
      def removed?(before)
        before.old.any? { |name, rows| old[name] < rows } || before.new.any? { |name, rows| !(rows <= new[name]) }
      end

      # @param before [Revision] with the same horizon
      # @return [Boolean] whether the changes are too wide, or too many, to read them alone
      def wide?(before)
        ids.size > MOST || wide != before.wide ||
          %w[pg_namespace members].any? { |name| old[name] != before.old[name] }
      end
    end
  end
end
