# frozen_string_literal: true

require "digest"

module Cafe
  module Actions
    # Takes a file.
    class Upload < Hanami::Action
      def handle(request, response)
        bytes = request.params[:file][:tempfile].read
        response.body = "#{bytes.bytesize} #{Digest::SHA256.hexdigest(bytes)}"
      end
    end
  end
end
