# frozen_string_literal: true

require_relative "cursor"
require_relative "keyset"
require_relative "row_comparison"
require_relative "source"

module NeverBlock
  module Pages
    # One page of a list, which begins after a row: `/events/pages/after/…`. Rows that come or go before it do not move
    # it, and a late page costs no more than the first one.
    #
    #   page = KeysetPage.new(Event.order(:created_at, :id), by: %i[created_at id], per: 20)
    #   page.items         # => the first 20, an Array
    #   page.next          # => a cursor: KeysetPage.new(…, cursor: page.next)
    #
    # The columns need an index. Their values in the last row are visible to clients in the cursor. There are no
    # numbers, and no previous page.
    class KeysetPage
      include Enumerable

      # @return [String, nil] of the row before; nil: the first page
      attr_reader :cursor

      # @return [Integer] most items on a page
      attr_reader :per

      # @param list [ActiveRecord::Relation, Class]
      # @param by [Array<Symbol>, Hash{Symbol=>Symbol}] columns with the primary key among them. Without directions
      #   those of the relation's order count
      # @param per [Integer] most items on a page
      # @param nulls [Symbol] :refuse columns that may be NULL, or :omit such rows
      # @param cursor [String, nil]
      # @raise [NotFound] if the cursor is not one of this list, or no row comes after it
      # @raise [ConfigurationError]
      def initialize(list, by:, per:, nulls: :refuse, cursor: nil)
        @keyset = Keyset.new(list, by:, nulls:)
        @per = Source.verify_size(per)
        @cursor = cursor
        @values = Cursor.decode(@keyset, cursor) unless cursor.nil?
        raise NotFound, "no item comes after this cursor" if @values && rows.empty?
      end

      # @return [Array]
      def items = @items ||= rows.first(@per)

      # @return [String, nil] the cursor of the page after
      def next = @next ||= (Cursor.encode(@keyset, @keyset.values(items.last)) unless last?)

      # @return [nil]
      def previous = nil

      # @return [nil] the number of items in the list is unknown
      def count = nil

      # @return [nil]
      def total_pages = nil

      # @return [Boolean] whether this is the first page
      def first? = @cursor.nil?

      # @return [Boolean] whether this is the last page
      def last? = rows.size <= @per

      # @return [Integer] number of items on this page
      def size = items.size
      alias_method :length, :size

      # @return [Boolean]
      def empty? = items.empty?

      # @yieldparam item [ActiveRecord::Base]
      # @return [Enumerator, self]
      def each(&block)
        return to_enum(:each) { size } unless block
        items.each(&block)
        self
      end

      # @return [Array]
      def to_ary = items

      private

      # With one more, which tells whether there is a next page.
      def rows
        @rows ||= begin
          relation = @keyset.relation
          relation = relation.where(RowComparison.new(@keyset).after(@values)) if @values
          relation.limit(@per + 1).to_a
        end
      end
    end
  end
end
