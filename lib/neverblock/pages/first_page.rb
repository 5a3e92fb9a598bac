# frozen_string_literal: true

require_relative "query"

module NeverBlock
  module Pages
    # Redirects `/users/pages/1` to `/users`, and `/users/pages/1.xml?q=a` to `/users.xml?q=a`. A Rack app.
    # @api private
    module FirstPage
      TAIL = %r{/[^/]+/1(\.[^/.]+)?/*\z}
      # A browser takes two of these for the beginning of a host.
      SLASHES = %r{\A[/\\]*}
      UNPRINTABLE = /[^!-~]/n
      private_constant :TAIL, :SLASHES, :UNPRINTABLE

      # @param env [Hash] Rack's
      # @return [Array(Integer, Hash, Array)]
      def self.call(env)
        request = ActionDispatch::Request.new(env)
        path = request.path.b.sub(TAIL) { $1 }.sub(SLASHES, "/").gsub(UNPRINTABLE) { |byte| "%%%02X" % byte.ord }
        location = [path, Query.of(request)&.to_query].compact.join("?")
        [301, {"location" => location, "content-type" => "text/plain", "content-length" => "0"}, []]
      end
    end
  end
end
