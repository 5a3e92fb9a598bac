# frozen_string_literal: true

module Cafe
  module Actions
    # Counts a session's visits.
    class Count < Hanami::Action
      def handle(request, response)
        response.session[:count] = request.session[:count].to_i + 1
        response.body = response.session[:count].to_s
      end
    end
  end
end
