# frozen_string_literal: true

module NeverBlock
  module Pages
    # The condition for the rows that come after a place, such that an index of the columns serves it.
    #
    #   RowComparison.new(keyset).after([time, 5])
    #   # (created_at, id) > (time, 5)                                              PostgreSQL, SQLite
    #   # created_at >= time AND (created_at > time OR (created_at = time AND id > 5))     elsewhere
    #
    # The second form is also for mixed directions. MySQL has the first one too, but uses no index for it.
    # @api private
    class RowComparison
      ROWS = /postg|sqlite/
      private_constant :ROWS

      # @param keyset [Keyset]
      # @param rows [Boolean] whether the database compares rows by an index
      def initialize(keyset, rows: ROWS.match?(keyset.relation.klass.connection_db_config.adapter.to_s))
        @model = keyset.relation.klass
        @columns = keyset.columns
        @rows = rows && @columns.map(&:direction).uniq.one?
      end

      # @param values [Array] one of each column
      # @return [Arel::Nodes::Node]
      def after(values)
        return nested(@columns.zip(values)) unless @rows && values.size > 1
        binds = @columns.zip(values).map { |column, value| bind(column, value) }
        comparison(@columns.first).new(row(@columns.map { |column| attribute(column) }), row(binds))
      end

      private

      def nested(pairs)
        (column, value), *rest = pairs
        attribute = attribute(column)
        further = comparison(column).new(attribute, bind(column, value))
        return further if rest.empty?
        equal = Arel::Nodes::Equality.new(attribute, bind(column, value))
        reach = reach(column).new(attribute, bind(column, value))
        reach.and(Arel::Nodes::Grouping.new(further.or(equal.and(nested(rest)))))
      end

      def comparison(column) = (column.direction == :asc) ? Arel::Nodes::GreaterThan : Arel::Nodes::LessThan

      def reach(column) = (column.direction == :asc) ? Arel::Nodes::GreaterThanOrEqual : Arel::Nodes::LessThanOrEqual

      def row(nodes) = Arel::Nodes::Grouping.new(nodes)

      def attribute(column) = @model.arel_table[column.name]

      def bind(column, value)
        Arel::Nodes::BindParam.new(ActiveRecord::Relation::QueryAttribute.new(column.name, value, column.cast))
      end
    end
  end
end
