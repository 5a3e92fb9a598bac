# frozen_string_literal: true

module NeverBlock
  class Cache
    class Traffic
      # What a log tells of a request. Each value may be nil: not told.
      #
      #   LogRequest.new(method: "GET", target: "/report?page=2", status: 200, at: 1000.0)
      # @api private
      LogRequest = Struct.new(:method, :target, :host, :client, :user, :agent, :status, :bytes, :at,
        :cache_control, :cache_status, :set_cookie, :cookie)
      # Values of fields.
      class LogRequest
        # What servers write for an empty value.
        NONE = ["", "-", "null", "nil"].freeze
        REQUEST = %r{\A([!-~]{1,32}) ([!-\xff]{1,65535}?)(?: HTTP/[0-9.]{1,5})?\s?\z}n
        ABSOLUTE = %r{\A[a-z]{1,8}://[^/?#]*}i
        private_constant :NONE, :REQUEST, :ABSOLUTE

        # @param text [String, nil] as in "GET /report HTTP/1.1"
        # @return [void] it sets method and target, to nil if the text is something else
        def line=(text)
          match = REQUEST.match(text.to_s)
          self.method, self.target = match && match[1], match && match[2]
        end

        # @param text [Object] a status, as in "200"
        # @return [void]
        def code=(text)
          number = text.to_s
          self.status = number.match?(/\A[1-9][0-9]{2}\z/) ? number.to_i : nil
        end

        # @param text [Object] a number of bytes, or "-" for none
        # @return [void]
        def size=(text)
          number = text.to_s
          self.bytes = if number.match?(/\A[0-9]{1,15}\z/) then number.to_i
          elsif number == "-" then 0
          end
        end

        # @return [String, nil] path and query
        def path
          target = self.target or return
          return target if target.start_with?("/")
          rest = target.sub(ABSOLUTE, "")
          return rest.start_with?("/") ? rest : "/#{rest}" unless rest.bytesize == target.bytesize
          "/#{target}" unless target.include?(":") || target == "*"
        end

        # @return [Boolean] whether a value was given and is not empty
        def told?(value) = !value.nil? && !NONE.include?(value)
      end
    end
  end
end
