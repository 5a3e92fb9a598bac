# frozen_string_literal: true

require_relative "cursor_value"
require_relative "source"

module NeverBlock
  module Pages
    # The columns that put each row of a relation into one place: those of its order, with the primary key among them.
    #
    #   keyset = Keyset.new(Event.order(created_at: :desc, id: :desc), by: %i[created_at id])
    #   keyset.to_s                   # => "created_at desc, id desc"
    #   keyset.relation               # => the relation in this order
    #   keyset.values(event)          # => [time, 5]
    # @api private
    class Keyset
      Column = Struct.new(:name, :direction, :type, :cast)
      DIRECTIONS = %i[asc desc].freeze
      private_constant :DIRECTIONS

      # @return [Array<Column>] the type is Active Record's; `cast` is the object of the attribute's type
      attr_reader :columns

      # @return [ActiveRecord::Relation]
      attr_reader :relation

      # @param relation [ActiveRecord::Relation, Class]
      # @param by [Array<Symbol>, Hash{Symbol=>Symbol}]
      # @param nulls [Symbol] :refuse or :omit rows with NULL in one of the columns
      # @raise [ConfigurationError]
      def initialize(relation, by:, nulls: :refuse)
        unless nulls == :refuse || nulls == :omit
          raise ConfigurationError, "page_of: nulls: #{nulls.inspect} is neither :refuse nor :omit"
        end
        relation = Source.relation(relation)
        @model = relation.klass
        @columns = directions(relation, by).map { |name, direction| column(name, direction) }
        verify_unique
        nullable = @columns.map(&:name).select { |name| @model.columns_hash[name].null }
        refuse_nulls(nullable) if nulls == :refuse
        relation = nullable.inject(relation) { |one, name| one.where.not(name => nil) }
        @relation = relation.except(:order).order(@columns.to_h { |column| [column.name, column.direction] })
      end

      # @param record [ActiveRecord::Base]
      # @return [Array] as for the database
      def values(record)
        @columns.map do |column|
          value = column.cast.serialize(record[column.name])
          next value if value == column.cast.serialize(column.cast.cast(value))
          raise ConfigurationError, "page_of: by: the type of #{column.name} changes its values; use another column"
        end
      end

      # @param values [Array]
      # @return [Boolean] whether each value fits into its column
      def serializable?(values) = @columns.zip(values).all? { |column, value| column.cast.serializable?(value) }

      # @return [String]
      def to_s = @columns.map { |column| "#{column.name} #{column.direction}" }.join(", ")

      private

      # @return [Hash{String=>Symbol}] of `by:`, with the directions of the relation's order
      def directions(relation, by)
        given = given(by)
        order = order(relation)
        return given.transform_values { |direction| direction || :asc } if order.empty?
        named = order.slice(*given.keys)
        return order if named == order && order.keys == given.keys &&
          given.all? { |name, direction| direction.nil? || direction == order[name] }
        raise ConfigurationError, "page_of: by: #{by.inspect} is not the relation's order, " \
          "#{order.map { |name, direction| "#{name} #{direction}" }.join(", ")}; give both the same columns"
      end

      def given(by)
        pairs = (Hash === by) ? by.to_a : Array(by).map { |name| [name, nil] }
        valid = pairs.all? do |name, direction|
          (Symbol === name || String === name) && (direction.nil? || DIRECTIONS.include?(direction))
        end
        return pairs.to_h { |name, direction| [real(name), direction] } if valid && !pairs.empty?
        raise ConfigurationError, "page_of: by: #{by.inspect} is not a list of columns as in %i[created_at id] or " \
          "{created_at: :desc, id: :desc}"
      end

      def real(name) = @model.attribute_aliases.fetch(name.to_s, name.to_s)

      def order(relation)
        pairs = relation.order_values.map do |node|
          direction = node.direction if Arel::Nodes::Ascending === node || Arel::Nodes::Descending === node
          attribute = direction ? node.expr : node
          [attribute.name.to_s, direction] if own?(attribute) || refuse(attribute)
        end
        pairs.uniq(&:first).to_h
      end

      def own?(node) = Arel::Attributes::Attribute === node && node.relation.name == @model.table_name

      def refuse(node)
        raise ConfigurationError, "page_of: by: the relation's order has a #{node.class}; only columns of " \
          "#{@model.table_name} can be in it, as in order(created_at: :desc, id: :desc)"
      end

      def column(name, direction)
        unless @model.columns_hash.key?(name)
          raise ConfigurationError, "page_of: by: #{@model.table_name} has no column #{name.inspect}"
        end
        cast = @model.type_for_attribute(name)
        type = cast.type
        encrypted = @model.respond_to?(:encrypted_attributes) && @model.encrypted_attributes&.include?(name.to_sym)
        return Column.new(name, direction, type, cast) if CursorValue.type?(type) && !encrypted
        raise ConfigurationError, "page_of: by: a cursor can't have the column #{name}, " \
          "#{encrypted ? "which is encrypted" : "of the type #{type.inspect}"}; use another column"
      end

      def verify_unique
        key = Array(@model.primary_key).map(&:to_s)
        missing = key - @columns.map(&:name)
        return if missing.empty? && !key.empty?
        raise ConfigurationError, "page_of: by: #{self} may be equal for two rows; add the primary key " \
          "(#{key.empty? ? "#{@model.name} has none" : missing.join(", ")})"
      end

      def refuse_nulls(names)
        return if names.empty?
        raise ConfigurationError, "page_of: by: #{names.join(", ")} may be NULL, and such a row has no place; add " \
          "null: false to the table, or nulls: :omit to leave such rows out"
      end
    end
  end
end
