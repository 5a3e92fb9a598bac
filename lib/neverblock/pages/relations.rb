# frozen_string_literal: true

require_relative "../errors"

module NeverBlock
  module Pages
    # Where one can go from a page: for its links, whether it is ours or an object of pagy.
    #
    #   Relations.of(page).to_h     # => {first: 1, prev: 1, next: 3, last: 9}
    #
    # A target is a number, or the cursor of a page after a row.
    # @api private
    class Relations
      # These classes of pagy keep their cursors in the browser.
      BROWSER = /Keynav|KeysetForUI/
      private_constant :BROWSER

      # @return [Integer, nil] of this page; nil: it has none
      attr_reader :number

      # @return [Integer, nil] of the last page; nil: unknown
      attr_reader :last

      # @return [Integer, nil]
      attr_reader :previous

      # @return [Integer, String, nil]
      attr_reader :next

      class << self
        # @param page [Page, KeysetPage, Object] of pagy: `page`, `next`, and `previous` or `prev`, `last`
        # @return [Relations]
        # @raise [ConfigurationError]
        def of(page)
          return page if Relations === page
          return of_page(page) if Page === page
          return new(following: page.next, first: page.first?) if KeysetPage === page
          return of_pagy(page) if page.respond_to?(:page) && page.respond_to?(:next) && page.respond_to?(:limit)
          raise ConfigurationError, "page_links: a #{page.class} is neither the result of page_of nor an object of pagy"
        end

        private

        def of_page(page)
          new(number: page.number, last: page.total_pages, previous: page.previous, following: page.next,
            first: page.first?)
        end

        def of_pagy(pagy)
          if BROWSER.match?(pagy.class.name.to_s)
            raise ConfigurationError, "page_links: a #{pagy.class} has its places in the browser only; use pagy's " \
              "own helpers, or a Pagy::Keyset"
          end
          return new(following: pagy.next, first: cursor(pagy).nil?) unless Integer === pagy.page
          previous = pagy.public_send(pagy.respond_to?(:previous) ? :previous : :prev)
          last = pagy.last if pagy.respond_to?(:count) && pagy.count
          new(number: pagy.page, last:, previous:, following: pagy.next, first: pagy.page == 1)
        end

        # Pagy 43 has the cursor among its options only.
        def cursor(pagy) = pagy.page || (pagy.options[:page] if pagy.respond_to?(:options))
      end

      # @param first [Boolean] whether this is the first page
      # @param number [Integer, nil]
      # @param last [Integer, nil]
      # @param previous [Integer, nil]
      # @param following [Integer, String, nil]
      def initialize(first:, number: nil, last: nil, previous: nil, following: nil)
        @number = number
        @last = last
        @previous = previous
        @next = following
        @first = first
      end

      # @return [Boolean]
      def first? = @first

      # @return [Boolean] whether the list has one page
      def alone? = @first && @next.nil?

      # @return [Hash{Symbol=>Integer, String}] by the names that HTML and HTTP have for them
      def to_h
        {first: (1 unless @first), prev: @previous, next: @next, last: (@last if @next)}.compact
      end

      # Numbers to show: the first and the last one, and those around this page. nil: a gap.
      # @param around [Integer]
      # @return [Array<Integer, nil>] empty: the numbers are unknown
      def numbers(around)
        return [] unless @number && @last
        shown = [1, *((@number - around)..(@number + around)), @last].select { |one| one.between?(1, @last) }.uniq.sort
        shown.each_with_index.flat_map do |one, index|
          before = index.zero? ? one - 1 : shown[index - 1]
          case one - before
          when 1 then [one]
          when 2 then [one - 1, one] # one number takes no more space than a gap
          else [nil, one]
          end
        end
      end
    end
  end
end
