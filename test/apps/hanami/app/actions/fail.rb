# frozen_string_literal: true

module Cafe
  module Actions
    # Raises, and has a page for that.
    class Fail < Hanami::Action
      handle_exception StandardError => :apologise

      def handle(_request, _response) = raise("no")

      private

      def apologise(_request, response, error)
        response.status = 500
        response.body = "sorry: #{error.message}"
      end
    end
  end
end
