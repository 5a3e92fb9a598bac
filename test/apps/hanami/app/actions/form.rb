# frozen_string_literal: true

module Cafe
  module Actions
    # Takes a form's field.
    class Form < Hanami::Action
      def handle(request, response)
        response.body = "you are #{request.params[:name]}"
      end
    end
  end
end
