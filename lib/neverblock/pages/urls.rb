# frozen_string_literal: true

require_relative "query"
require_relative "routes"

module NeverBlock
  module Pages
    # The URLs of the pages of the list that a request shows.
    #
    #   urls = Urls.new(controller)      # in GET /de/users/pages/2.xml?q=a
    #   urls.to(3)                       # => "/de/users/pages/3.xml?q=a"
    #   urls.to(1, absolute: true)       # => "https://example.org/de/users.xml?q=a"
    #   urls.to(cursor)                  # => "/de/users/pages/after/….xml?q=a"
    #
    # They are made by the app's routes: those of this controller and action, with the request's parameters of the path,
    # such as a locale or the id of a parent. Parameters of the query never become options of the URL, such as its host.
    # @api private
    class Urls
      # The names of a list's routes.
      Names = Struct.new(:list, :page, :after)
      OWN = %i[controller action page cursor].freeze
      private_constant :Names, :OWN

      # @param controller [ActionController::Metal]
      # @param keep [Array<String>, nil] parameters of the query that URLs have; nil: all but `page`
      def initialize(controller, keep: nil)
        @controller = controller
        @request = controller.request
        @keep = keep
      end

      # @param target [Integer, String] a number, or a cursor
      # @param absolute [Boolean] whether with scheme and host
      # @return [String]
      # @raise [ConfigurationError] if there is no route
      def to(target, absolute: false)
        case target
        when 1 then url(names.list, absolute, {})
        when Integer then url(names.page || missing("pages"), absolute, page: target)
        when Routes::WHOLE_CURSOR then url(names.after || missing("pages, keyset: true"), absolute, cursor: target)
        else raise ConfigurationError, "pages: #{target.inspect[0, 80]} is neither a page's number nor a cursor"
        end
      end

      # Where the request should have gone: `?page=2` is a page's path, and such a path ends without a slash.
      # @param query [Boolean] whether `?page=2` is looked at
      # @return [String, nil] nil: it is right
      # @raise [NotFound] if the query's page can't be one
      def elsewhere(query:)
        path = @request.path_parameters
        if (target = path[:page] || path[:cursor])
          return unless slash? && find
          place = to(path[:page] ? Page.number(target) : target)
          place unless place[/\A[^?]*/].end_with?("/")
        elsif query && @request.query_parameters.key?("page") && find&.page
          to(Page.number(@request.query_parameters["page"]))
        end
      end

      private

      # The router removes it.
      def slash? = @request.original_fullpath[/\A[^?]*/].end_with?("/")

      def url(name, absolute, options)
        options = {**@request.path_parameters.except(*OWN), **options}
        query = Query.of(@request, keep: @keep)
        options[:params] = query if query
        @controller.public_send(:"#{name}_#{absolute ? "url" : "path"}", options)
      end

      def names = find || missing("pages")

      def missing(concern)
        parameters = @request.path_parameters
        raise ConfigurationError, "pages: #{parameters[:controller]}##{parameters[:action]} has no such route; add " \
          "concerns :#{concern} to its resources in config/routes.rb (docs/rails.md)"
      end

      def find
        return @names if defined?(@names)
        @names = look_up
      end

      # Of several lists with this action, the one in whose scope the request is.
      def look_up
        routes = @controller._routes.named_routes.select do |name, route|
          name.end_with?("_page", "_page_after") && ours?(route) && fits?(route)
        end
        lists = routes.group_by { |name, route| [list_name(name, route), base(route)] }.select { |(list, _), _| list }
        (list, _), routes = here(lists) || lists.max_by { |_, (route, *)| route.last.required_parts.size }
        Names.new(list, name_with(routes, :page), name_with(routes, :cursor)) if list
      end

      def here(lists)
        pattern = @request.route_uri_pattern.to_s
        lists.find { |(_, base), routes| base == pattern || routes.any? { |_, route| spec(route) == pattern } }
      end

      def name_with(routes, part) = routes.find { |_, route| route.required_parts.include?(part) }&.first

      def ours?(route)
        requirements = route.requirements
        requirements[:page] == Routes::NUMBER || requirements[:cursor] == Routes::CURSOR
      end

      # Whether the route is one of this action, and the request has the parameters of its path.
      def fits?(route)
        parameters = @request.path_parameters
        route.required_parts.all? { |part| OWN.include?(part) || parameters.key?(part) } &&
          route.defaults.all? { |key, value| route.parts.include?(key) || parameters[key].to_s == value.to_s }
      end

      def spec(route) = route.path.spec.to_s

      # The list's own path: without what follows its last segment.
      def base(route) = spec(route).sub(%r{/[^/(]+(?:/after/:cursor|/:page)}, "")

      # `users_page` belongs to `users`; for other actions Rails has another order, `search_users`.
      def list_name(name, route)
        named = @controller._routes.named_routes
        name = name.to_s.sub(/_page(_after)?\z/, "")
        return name if named.key?(name) && spec(named[name]) == base(route)
        own = named.find { |_, one| spec(one) == base(route) && one.defaults[:action] == route.defaults[:action] }
        own ? own.first.to_s : (name if named.key?(name))
      end
    end
  end
end
