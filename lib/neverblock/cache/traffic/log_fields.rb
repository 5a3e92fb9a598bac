# frozen_string_literal: true

require_relative "log_request"

module NeverBlock
  class Cache
    class Traffic
      # The names that fields have in logs: variables of nginx, keys of JSON and of key=value lines.
      #
      #   LogFields.request({"method" => "GET", "path" => "/a", "status" => "200"}, LogTime.new)
      # @api private
      module LogFields
        # Of several names the first that is there counts.
        NAMES = {
          line: %w[request], method: %w[method request_method verb http_method],
          target: %w[request_uri uri path url target request_path], query: %w[query args query_string],
          host: %w[host http_host server_name vhost],
          client: %w[client remote remote_addr client_ip remote_ip ip addr fwd http_x_forwarded_for],
          user: %w[remote_user user user_id], agent: %w[http_user_agent user_agent agent],
          code: %w[status code status_code response_status],
          size: %w[body_bytes_sent bytes bytes_sent size response_size length],
          at: %w[time time_iso8601 time_local timestamp @timestamp ts msec date],
          cache_control: %w[sent_http_cache_control upstream_http_cache_control cache_control cache-control],
          cache_status: %w[sent_http_cache_status upstream_cache_status cache_status cache-status cache],
          set_cookie: %w[sent_http_set_cookie upstream_http_set_cookie set_cookie set-cookie],
          cookie: %w[http_cookie]
        }.freeze
        private_constant :NAMES

        # @param fields [Hash{String=>Object}] by names in lower case
        # @param time [LogTime]
        # @return [LogRequest, nil] nil: they tell of no request
        def self.request(fields, time)
          found = NAMES.transform_values { |names| value(fields, names) }
          line, query, code, size = found.values_at(:line, :query, :code, :size)
          parts = found[:method] && found[:target]
          return if line.nil? && parts.nil?
          request = LogRequest.new(**found.slice(*LogRequest.members))
          request.line = line if line && !parts
          request.target = "#{request.target}?#{query}" if query && request.target&.include?("?") == false
          request.code = code
          request.size = size
          request.at = time.parse(found[:at])
          request
        end

        # @return [String, nil]
        def self.value(fields, names)
          names.each do |name|
            value = fields[name]
            value = value.join(", ") if Array === value
            return value.to_s.b unless value.nil? || Hash === value || value == ""
          end
          nil
        end
        private_class_method :value
      end
    end
  end
end
