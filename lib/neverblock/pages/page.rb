# frozen_string_literal: true

require_relative "not_found"
require_relative "source"

module NeverBlock
  module Pages
    # One page of a list, by its number.
    #
    #   page = Page.new(User.order(:name), number: 2, per: 20)
    #   page.items         # => a relation, LIMIT 20 OFFSET 20
    #   page.count         # => 41, of all pages
    #   page.total_pages   # => 3
    #   page.next          # => 3
    #
    # It can be used as the list of its items: `page.each`, `render @users`. A relation without an order is ordered by
    # its primary key. Rows with equal values in the columns of the order may change places between two pages: put the
    # primary key last.
    class Page
      include Enumerable

      NUMBER = /\A[1-9][0-9]{0,8}\z/
      private_constant :NUMBER

      # @return [Integer] from 1 on
      attr_reader :number

      # @return [Integer] most items on a page
      attr_reader :per

      # @param text [String, Object] a number as a URL has it
      # @return [Integer]
      # @raise [NotFound]
      def self.number(text)
        return text.to_i if String === text && text.ascii_only? && NUMBER.match?(text)
        raise NotFound, "#{text.to_s.scrub[0, 40].inspect} is not the number of a page, such as 2"
      end

      # @param list [ActiveRecord::Relation, Class, Array]
      # @param number [Integer, String]
      # @param per [Integer] most items on a page
      # @param count [Boolean, Integer] whether to count; or the number of all items. false: one item more is read
      # @raise [NotFound] if the list has fewer pages
      # @raise [ConfigurationError]
      def initialize(list, number:, per:, count: true)
        @number = self.class.number(number.to_s)
        @per = Source.verify_size(per)
        @source = Source.of(list)
        @counted = verify(count)
        return if @number == 1
        return unless @counted ? @number > total_pages : items.empty?
        raise NotFound, "there is no page #{@number}#{"; the last one is #{total_pages}" if @counted}"
      end

      # The number of all items, not only of this page's: {#size}.
      # @return [Integer, nil] nil: `count: false`
      def count
        return unless @counted
        @count ||= @source.count
      end

      # An empty list has one page.
      # @return [Integer, nil] nil: `count: false`
      def total_pages = ([(count + @per - 1) / @per, 1].max if @counted)

      # @return [ActiveRecord::Relation, Array] an Array with `count: false`
      def items = @items ||= @counted ? @source.slice(@per, offset) : rows.first(@per)

      # @return [Integer, nil] the number of the page before
      def previous = (@number - 1 if @number > 1)

      # @return [Integer, nil] the number of the page after
      def next = (@number + 1 unless last?)

      # `first` is that of Enumerable: the first item.
      # @return [Boolean] whether this is the first page
      def first? = @number == 1

      # @return [Boolean] whether this is the last page
      def last? = @counted ? @number >= total_pages : rows.size <= @per

      # @return [Integer] number of items on this page
      def size = items.to_a.size
      alias_method :length, :size

      # @return [Boolean] whether this page has no items
      def empty? = size.zero?

      # @yieldparam item [Object]
      # @return [Enumerator, self]
      def each(&block)
        return to_enum(:each) { size } unless block
        items.each(&block)
        self
      end

      # @return [Array]
      def to_ary = items.to_a

      private

      def offset = (@number - 1) * @per

      # With one more, which tells whether there is a next page.
      def rows = @rows ||= @source.slice(@per + 1, offset).to_a

      def verify(count)
        return count if count == true || count == false
        unless Integer === count && count >= 0
          raise ConfigurationError, "page_of: count: #{count.inspect} is neither true, false nor a number of items"
        end
        @count = count
        true
      end
    end
  end
end
