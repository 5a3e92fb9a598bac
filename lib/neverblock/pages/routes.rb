# frozen_string_literal: true

require_relative "first_page"

module NeverBlock
  module Pages
    # The routes of pages, as a concern of Rails' routes.
    #
    #   concern :pages, NeverBlock::Pages::Routes
    #   concern :keyset_pages, NeverBlock::Pages::Routes.new(keyset: true)
    #
    #   resources :users, concerns: :pages           # /users/pages/2        users_page_path(2)
    #   resources :events, concerns: :keyset_pages   # /events/pages/after/… events_page_after_path(cursor)
    #   resources :books do
    #     concerns :pages, path: "leaves"            # /books/leaves/2
    #     get :search, on: :collection
    #     concerns :pages, action: :search           # /books/search/pages/2 books_search_page_path(2)
    #   end
    #
    # A number is written in one way, so that a page has one URL: `/users/pages/1` redirects to `/users`, and the router
    # knows neither `02` nor `0` nor `abc`. A format is one that Rails knows.
    class Routes
      # Numbers of pages other than the first one.
      NUMBER = /[2-9]|[1-9][0-9]{1,8}/
      # Cursors of {KeysetPage}, and those of pagy.
      CURSOR = /[A-Za-z0-9_-]{1,2048}/
      WHOLE_CURSOR = /\A#{CURSOR}\z/
      SEGMENT = /\A[A-Za-z0-9_-]+\z/
      OPTIONS = {keyset: false, path: "pages", action: :index}.freeze
      # Other extensions would be further URLs of the same page.
      KNOWN_FORMAT = lambda do |request|
        format = request.path_parameters[:format]
        format.nil? || !Mime::Type.lookup_by_extension(format).nil?
      end
      private_constant :SEGMENT, :OPTIONS, :KNOWN_FORMAT

      # Called by Rails for `concern :pages, NeverBlock::Pages::Routes`.
      # @param mapper [ActionDispatch::Routing::Mapper]
      # @param options [Hash{Symbol=>Object}] those of {#initialize}
      # @return [void]
      # @raise [ConfigurationError]
      def self.call(mapper, options = {}) = new.call(mapper, options)

      # @param options [Hash{Symbol=>Object}]
      # @option options [Boolean] :keyset (false) pages after a cursor instead of numbered ones
      # @option options [String] :path ("pages") the segment of the path
      # @option options [Symbol] :action (:index) an action of the collection
      # @raise [ConfigurationError]
      def initialize(**options)
        @options = merged(OPTIONS, options)
      end

      # @param mapper [ActionDispatch::Routing::Mapper]
      # @param options [Hash{Symbol=>Object}] take precedence over those of {#initialize}
      # @return [void]
      # @raise [ConfigurationError] for an unknown option, or a place without a list
      def call(mapper, options = {})
        keyset, path, action = merged(@options, options).values_at(:keyset, :path, :action)
        index = action == :index
        path = [*(action unless index), path].join("/")
        name = index ? "page" : "#{action}_page"
        draw(mapper, index) do
          if keyset
            get "#{path}/after/:cursor", action:, as: "#{name}_after", cursor: CURSOR, constraints: KNOWN_FORMAT
          else
            get "#{path}/1", to: FirstPage, as: nil, constraints: KNOWN_FORMAT
            get "#{path}/:page", action:, as: name, page: NUMBER, constraints: KNOWN_FORMAT
          end
        end
      end

      private

      # In the scope of a resource's `root`, Rails puts the names in the order `users`, `page`.
      def draw(mapper, index, &routes)
        complaint = method(:complaint)
        mapper.instance_exec do
          message = complaint.call(parent_resource, index) and raise ConfigurationError, message
          with_scope_level(:root) { path_scope(parent_resource.path) { instance_exec(&routes) } }
        end
      end

      def complaint(resource, index)
        if resource.nil?
          "pages: the concern is outside of resources; write resources :users, concerns: :pages"
        elsif resource.singleton?
          "pages: resource :#{resource.name} has no list; use the concern with resources"
        elsif index && !resource.actions.include?(:index)
          "pages: resources :#{resource.name} has no action index, because of only: or except:; add :index, or leave " \
            "the concern out"
        end
      end

      def merged(defaults, options)
        unknown = options.keys - OPTIONS.keys
        unless unknown.empty?
          raise ConfigurationError, "pages: unknown option #{unknown.first.inspect}; known: #{OPTIONS.keys.join(", ")}"
        end
        verified(**defaults, **options)
      end

      def verified(keyset:, path:, action:)
        unless keyset == true || keyset == false
          raise ConfigurationError, "pages: keyset: #{keyset.inspect} is neither true nor false"
        end
        unless SEGMENT.match?(path.to_s)
          raise ConfigurationError, "pages: path: #{path.inspect} is not a segment of a path as in \"pages\""
        end
        {keyset:, path: path.to_s, action: action.to_sym}
      end
    end
  end
end
