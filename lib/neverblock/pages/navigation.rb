# frozen_string_literal: true

module NeverBlock
  module Pages
    # The HTML of the links to pages. Views' own helpers write it, so that all texts are escaped.
    #
    #   Navigation.new(view, relations, urls).render
    # @api private
    class Navigation
      # English; I18n has other ones under `neverblock.pages`.
      TEXTS = {label: "Pages", previous: "Previous", next: "Next", page: "Page %{number}"}.freeze
      private_constant :TEXTS

      # @param view [ActionView::Base]
      # @param relations [Relations]
      # @param urls [Urls]
      def initialize(view, relations, urls)
        @view = view
        @relations = relations
        @urls = urls
      end

      # @param around [Integer]
      # @param label [String, nil]
      # @param previous [String, nil]
      # @param following [String, nil]
      # @param html [Hash{Symbol=>Object}]
      # @return [ActiveSupport::SafeBuffer]
      def render(around: 2, label: nil, previous: nil, following: nil, html: {})
        unless Integer === around && around.between?(0, 50)
          raise ConfigurationError, "page_links: around: #{around.inspect} is not a number from 0 to 50"
        end
        return @view.safe_join([]) if @relations.alone?
        items = [
          step(:prev, @relations.previous, previous || text(:previous)), first, *numbers(around),
          step(:next, @relations.next, following || text(:next))
        ]
        attributes = {"aria-label": label || text(:label), **html}
        @view.tag.nav(@view.tag.ul(@view.safe_join(items.compact)), **attributes)
      end

      private

      def step(rel, target, text)
        @view.tag.li(@view.link_to(text, @urls.to(target), rel:)) if target
      end

      # Of a page after a row, only the first one before it is known.
      def first = (step(:first, 1, text(:page, number: 1)) unless @relations.number || @relations.first?)

      def numbers(around)
        numbers = @relations.numbers(around)
        numbers = [@relations.number] if numbers.empty? && @relations.number
        numbers.map { |number| number ? item(number) : gap }
      end

      def item(number)
        current = (number == @relations.number)
        attributes = {"aria-label": text(:page, number:), "aria-current": ("page" if current)}
        @view.tag.li(@view.link_to(number, @urls.to(number), **attributes))
      end

      def gap = @view.tag.li(@view.tag.span("…", "aria-hidden": true))

      def text(name, **values)
        I18n.t(name, scope: "neverblock.pages", default: TEXTS.fetch(name), **values)
      end
    end
  end
end
