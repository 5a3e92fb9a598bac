# frozen_string_literal: true

require_relative "navigation"

module NeverBlock
  module Pages
    # What views have, after `include NeverBlock::Pages` in their controller.
    #
    #   <%= page_links @users %>
    #   <% content_for(:head) { link_page_tags @users } %>
    #   <%= link_to "Page 3", path_to_page(3) %>
    #
    # Without an argument, the page is that of the action's last `page_of`. There is no `page_path`, since that is the
    # helper of an app's own `resources :pages`.
    module Helpers
      # Links to the other pages, as `nav` with the relations `prev` and `next`. Nothing if there is one page only.
      # @param page [Page, KeysetPage, Object] also an object of pagy
      # @param around [Integer] numbers on each side of this page's one
      # @param label [String] of the `nav`, for screen readers
      # @param previous [String] text of the link
      # @param following [String] text of the link to the next page
      # @param html [Hash{Symbol=>Object}] attributes of the `nav`
      # @return [ActiveSupport::SafeBuffer]
      # @raise [ConfigurationError]
      def page_links(page = neverblock_page, around: 2, label: nil, previous: nil, following: nil, **html)
        Navigation.new(self, Relations.of(page), neverblock_page_urls)
          .render(around:, label:, previous:, following:, html:)
      end

      # `link` elements for the head, with the relations `prev` and `next`.
      # @param page [Page, KeysetPage, Object] also an object of pagy
      # @return [ActiveSupport::SafeBuffer]
      # @raise [ConfigurationError]
      def link_page_tags(page = neverblock_page)
        links = Relations.of(page).to_h.slice(:prev, :next)
        safe_join(links.map { |rel, target| tag.link(rel:, href: neverblock_page_urls.to(target)) }, "\n")
      end

      # @param page [Integer, String] a number, or a cursor
      # @return [String] the path of that page of the list that is shown
      # @raise [ConfigurationError]
      def path_to_page(page) = neverblock_page_urls.to(page)

      # @param page [Integer, String] a number, or a cursor
      # @return [String] its URL with scheme and host
      # @raise [ConfigurationError]
      def url_to_page(page) = neverblock_page_urls.to(page, absolute: true)

      private

      def neverblock_page_urls = controller.send(:neverblock_page_urls)

      def neverblock_page
        controller.instance_variable_get(:@_neverblock_page) ||
          raise(ConfigurationError, "page_links: the action has not called page_of; give the page: page_links @users")
      end
    end
  end
end
