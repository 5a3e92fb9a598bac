# frozen_string_literal: true

module NeverBlock
  module Pages
    # The parameters of a query that stay when another page is shown.
    #
    #   Query.of(request)                  # GET /users?q=a&page=2    => {q: "a"}
    #   Query.of(request, keep: ["sort"])  # => nil
    #
    # Rails writes them in the order of their names: one order, however a client wrote them.
    # @api private
    module Query
      # @param request [ActionDispatch::Request]
      # @param keep [Array<String>, nil] names; nil: all
      # @return [Hash{Symbol=>Object}, nil] nil: none
      def self.of(request, keep: nil)
        query = request.query_parameters
        query = keep ? query.slice(*keep) : query
        query = query.except("page")
        # A symbol replaces a parameter of the route with the same name.
        query.to_h.transform_keys(&:to_sym) unless query.empty?
      end
    end
  end
end
