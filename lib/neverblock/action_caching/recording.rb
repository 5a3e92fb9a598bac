# frozen_string_literal: true

require_relative "../runtime/http_fields"
require_relative "headers"

module NeverBlock
  module ActionCaching
    # What an action does to the response, apart from what filters have done before.
    #
    #   recording = Recording.new(response)
    #   run_the_action
    #   recording.refusal(watch)    # => :set_cookie, or nil: it can be stored
    #   recording.changes           # => a Hash with "headers", "gone", "vary" and "control"
    # @api private
    class Recording
      MOST_BYTES = 4 << 20 # of a body
      HEADER_BYTES = 16 << 10
      # The body is sent by the server in front, or is a part.
      STOPS = (HttpFields::CONTENT_ELSEWHERE + %w[
        transfer-encoding content-range authentication-info www-authenticate clear-site-data content-encoding
      ]).freeze
      # Directives of Rails' Cache-Control.
      CONTROL = %i[
        max_age public private must_revalidate must_understand stale_while_revalidate stale_if_error immutable
        no_transform extras
      ].to_h { |name| [name.to_s, name] }.freeze
      FORBIDDING = /(?:\A|[\s,])(?:no-store|no-cache|private)/i
      private_constant :MOST_BYTES, :HEADER_BYTES, :STOPS, :FORBIDDING

      # @param response [ActionDispatch::Response]
      # @return [Boolean] whether nothing that filters have done forbids to store the response, or to use a stored one
      def self.open?(response)
        control = response.cache_control
        response.status == 200 && !response.committed? && !control[:no_store] && !control[:no_cache] &&
          !control[:private] && !FORBIDDING.match?(response.headers["Cache-Control"].to_s)
      end

      # @param response [ActionDispatch::Response] before the action
      def initialize(response)
        @response = response
        @headers = fields
        @control = response.cache_control.dup
        @defaults = ActionDispatch::Response.default_headers.to_h.transform_keys(&:downcase)
      end

      # @param watch [Watch]
      # @return [Symbol, nil] why the response can't be stored
      def refusal(watch)
        return :committed if @response.committed?
        return :status unless @response.status == 200
        return :stream unless body
        return :set_cookie if watch.sets_cookie? || changed.key?("set-cookie")
        forbidden(watch) || of_headers(watch) || (:size if body.bytesize > MOST_BYTES)
      end

      # @return [String, nil] nil: the body streams
      def body = @body ||= (joined(@response.stream.to_ary) if @response.stream.respond_to?(:to_ary))

      # @param most [Numeric, nil] seconds
      # @return [Float, nil] the shorter one of it and what the action or a filter has declared
      def lifetime(most) = [most, @response.cache_control[:max_age]&.to_f].compact.min

      # @return [Hash{String=>Array, String}] Strings, and Arrays of these
      def changes
        {"headers" => changed.except("vary").map { |name, value| [name, value] },
         "gone" => @headers.keys - fields.keys, "vary" => changed["vary"].to_s,
         "control" => changed_control.map { |name, value| [name.to_s, directive(name, value)] }}
      end

      private

      # Parts may be in several encodings. What is sent are their bytes.
      def joined(parts)
        return unless parts.all?(String)
        return String.new(parts.first) if parts.size == 1
        parts.map(&:b).join.force_encoding(parts.first&.encoding || Encoding::UTF_8)
      end

      def forbidden(watch)
        control = @response.cache_control
        return :no_store if control[:no_store] || control[:no_cache] || (control[:private] && !watch.rule.per?)
        :cache_control unless (changed_control.keys - CONTROL.values).empty?
      end

      def of_headers(watch)
        return :file if fields.keys.any? { |name| STOPS.include?(name) || name.start_with?("rack.") }
        return :no_store if FORBIDDING.match?(changed["cache-control"].to_s)
        return :vary unless Headers.keyed?(added_vary, watch.declared)
        return :header if changed.any? { |name, value| of_filters?(name, value) }
        :size if changed.sum { |name, value| name.bytesize + value.to_s.bytesize } > HEADER_BYTES
      end

      # A value that was made of what a filter has set may be one user's.
      def of_filters?(name, value)
        before = @headers[name]
        return false if name == "vary" || before.nil? || before.empty? || @defaults[name] == before
        value.to_s.include?(before.to_s)
      end

      def added_vary = (words(fields["vary"]) - words(@headers["vary"])).join(",")

      def words(field) = field.to_s.downcase.split(",").map(&:strip)

      # @return [Hash{String=>String, Array<String>}] by names in lower case
      def fields
        @response.headers.to_h do |name, value|
          [name.to_s.downcase, (Array === value) ? value.map(&:to_s) : value.to_s]
        end
      end

      def changed = fields.reject { |name, value| @headers[name] == value }

      def changed_control
        @response.cache_control.reject { |name, value| @control.key?(name) && @control[name] == value }
      end

      def directive(name, value)
        return Array(value).map(&:to_s) if name == :extras
        case value
        when nil, false then ""
        when true then "true"
        else value.to_i.to_s
        end
      end
    end
  end
end
