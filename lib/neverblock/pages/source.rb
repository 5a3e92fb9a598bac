# frozen_string_literal: true

require_relative "../errors"

module NeverBlock
  module Pages
    # What pages are made of: a relation of Active Record, or an Array.
    #
    #   source = Source.of(User.order(:name))
    #   source.count            # => 41
    #   source.slice(20, 40)    # => the relation with LIMIT 20 OFFSET 40
    # @api private
    class Source
      # Of an Array.
      class List
        def initialize(array)
          @array = array
        end

        # @return [Integer]
        def count = @array.size

        # @return [Array]
        def slice(limit, offset) = @array.slice(offset, limit) || []
      end

      class << self
        # @param list [ActiveRecord::Relation, Class, Array]
        # @return [Source, List]
        # @raise [ConfigurationError]
        def of(list)
          return List.new(list) if Array === list
          new(relation(list))
        end

        # @param list [ActiveRecord::Relation, Class]
        # @return [ActiveRecord::Relation] without limit and offset
        # @raise [ConfigurationError]
        def relation(list)
          list = list.all if Class === list && list.respond_to?(:all)
          unless defined?(ActiveRecord::Relation) && ActiveRecord::Relation === list
            raise ConfigurationError, "page_of: a #{list.class} is neither a relation of Active Record nor an Array; " \
              "try its to_a"
          end
          return list unless list.limit_value || list.offset_value
          raise ConfigurationError, "page_of: the relation has a limit or an offset; leave them out, a page has its own"
        end

        # @param per [Integer]
        # @return [Integer] the same
        # @raise [ConfigurationError]
        def verify_size(per)
          return per if Integer === per && per.between?(1, LARGEST)
          raise ConfigurationError, "page_of: per: #{per.inspect} is not a number of items from 1 to #{LARGEST}"
        end
      end

      # Items of one page.
      LARGEST = 100_000
      private_constant :LARGEST

      # @param relation [ActiveRecord::Relation]
      def initialize(relation)
        @relation = ordered(relation)
      end

      # @return [Integer] with GROUP BY, of the groups
      def count
        count = @relation.except(:order).count(:all)
        (Hash === count) ? count.size : count
      end

      # @return [ActiveRecord::Relation] not loaded
      def slice(limit, offset) = @relation.limit(limit).offset(offset)

      private

      # Without an order, a database may show a row on two pages.
      def ordered(relation)
        key = relation.klass.primary_key
        return relation if key.nil? || !relation.order_values.empty? || relation.distinct_value ||
          !relation.group_values.empty?
        relation.order(*Array(key).map(&:to_sym))
      end
    end
  end
end
