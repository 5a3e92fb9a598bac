# frozen_string_literal: true

require_relative "errors"
require_relative "pages/not_found"
require_relative "pages/routes"
require_relative "pages/page"
require_relative "pages/keyset_page"
require_relative "pages/relations"
require_relative "pages/urls"
require_relative "pages/link_header"
require_relative "pages/helpers"

module NeverBlock
  # Pages of a list in the path of the URL, for controllers of Rails: `/users/pages/2` instead of `/users?page=2`. So
  # each page has one URL without a query, for caches and files that are found by path.
  #
  #   # config/routes.rb
  #   concern :pages, NeverBlock::Pages::Routes
  #   resources :users, concerns: :pages          # GET /users/pages/2 is users#index
  #
  #   class UsersController < ApplicationController
  #     include NeverBlock::Pages
  #
  #     def index = @users = page_of(User.order(:name), per: 20)
  #   end
  #
  #   <%= page_links @users %>
  #
  # Page 1 is the list's own URL. `/users?page=2` redirects to `/users/pages/2`. Responses have a Link header
  # (RFC 8288). A page that doesn't exist is a 404, by {NotFound}. `by:` makes a list without numbers: {KeysetPage}.
  # {Helpers} has what views use.
  module Pages
    # The settings of {ClassMethods#page_options}.
    Options = Struct.new(:redirect, :keep, :headers)
    private_constant :Options

    # @api private
    # @param controller [Class] of ActionController::Base or ActionController::API
    # @raise [ConfigurationError]
    def self.included(controller)
      super
      unless controller.respond_to?(:before_action)
        raise ConfigurationError, "NeverBlock::Pages: #{controller} is not a controller; include it in the class of one"
      end
      controller.extend(ClassMethods)
      controller.class_attribute :neverblock_page_options, instance_accessor: false, instance_predicate: false,
        default: Options.new(true, nil, true).freeze
      controller.before_action :redirect_to_path_of_page
      controller.helper(Helpers) if controller.respond_to?(:helper)
      ActionDispatch::ExceptionWrapper.rescue_responses["NeverBlock::Pages::NotFound"] = :not_found
    end

    # Methods of the controller's class.
    module ClassMethods
      # Changes settings for this controller and those that inherit from it.
      # @param redirect [Boolean] whether `?page=2` redirects to the page's path. false: it shows that page
      # @param keep [Array<Symbol, String>, nil] parameters of the query that links keep; nil: all but `page`
      # @param headers [Boolean] whether `page_of` adds a Link header
      # @return [void]
      # @raise [ConfigurationError]
      def page_options(redirect: neverblock_page_options.redirect, keep: neverblock_page_options.keep,
        headers: neverblock_page_options.headers)
        {redirect:, headers:}.each do |name, value|
          next if value == true || value == false
          raise ConfigurationError, "page_options: #{name}: #{value.inspect} is neither true nor false"
        end
        names = keep.nil? || (Array === keep && keep.all? { |name| Symbol === name || String === name })
        raise ConfigurationError, "page_options: keep: #{keep.inspect} is not a list of names, [:q, :sort]" unless names
        self.neverblock_page_options = Options.new(redirect, keep&.map(&:to_s), headers).freeze
      end
    end

    private

    # The page of a list that the request's URL names.
    # @param list [ActiveRecord::Relation, Class, Array]
    # @param per [Integer] most items on a page
    # @param count [Boolean, Integer] whether to count all items; or their number. false: one item more is read to find
    #   out whether there is a next page, and the number of pages is unknown
    # @param by [Array<Symbol>, Hash{Symbol=>Symbol}, nil] columns, with directions: each page begins after the last row
    #   of the one before. The columns have to contain the primary key
    # @param nulls [Symbol] for `by:`, with columns that may be NULL: `:omit` leaves such rows out
    # @param page [Integer, String, nil] a number, or with `by:` a cursor, from elsewhere than the URL. The page is then
    #   not linked
    # @return [Page, KeysetPage]
    # @raise [NotFound] if there is no such page: 404
    # @raise [ConfigurationError]
    def page_of(list, per:, count: true, by: nil, nulls: :refuse, page: nil)
      linked = page.nil?
      result = if by
        raise ConfigurationError, "page_of: count: has no meaning with by:; leave it out" unless count == true
        KeysetPage.new(list, by:, per:, nulls:, cursor: page || request.path_parameters[:cursor])
      else
        Page.new(list, number: page || number_of_page, per:, count:)
      end
      return result unless linked
      @_neverblock_page = result
      link_to_pages(result) if self.class.neverblock_page_options.headers
      result
    end

    # Adds a Link header (RFC 8288) with the first, previous, next and last page.
    # @param page [Page, KeysetPage, Object] also an object of pagy
    # @return [void]
    def link_to_pages(page)
      urls = neverblock_page_urls
      links = Relations.of(page).to_h.transform_values { |target| urls.to(target, absolute: true) }
      LinkHeader.append(response.headers, links)
    end

    # The page's number that the URL has; for pagy: `pagy(User.order(:name), page: number_of_page)`.
    # @return [Integer]
    # @raise [NotFound] if it is no number of a page
    def number_of_page
      text = request.path_parameters[:page]
      text = request.query_parameters["page"] if text.nil? && !self.class.neverblock_page_options.redirect
      text.nil? ? 1 : Page.number(text)
    end

    def neverblock_page_urls
      @_neverblock_page_urls ||= Urls.new(self, keep: self.class.neverblock_page_options.keep)
    end

    # `?page=2`, and `/users/pages/2/`.
    def redirect_to_path_of_page
      return unless request.get? || request.head?
      place = neverblock_page_urls.elsewhere(query: self.class.neverblock_page_options.redirect) or return
      redirect_to place, status: :moved_permanently
    end
  end
end
