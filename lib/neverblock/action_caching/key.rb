# frozen_string_literal: true

require "digest"
require_relative "headers"
require_relative "rule"
require_relative "user_methods"

module NeverBlock
  module ActionCaching
    # The name of a response in the store: a digest of all that the response depends on.
    #
    #   Key.of(watch, scope: ["anonymous"], varies: "", salt: "")    # => "neverblock/action/5e1f…"
    #
    # The app's release; controller and action; protocol and host, path with its parameters, query string as it is;
    # formats, variants, and the headers by which a part of a page is asked for; locale and time zone; the headers
    # and plain cookies that filters have read; records in Current, such as a tenant; the values of `per:` and `vary:`.
    # @api private
    module Key
      PREFIX = "neverblock/action/"
      private_constant :PREFIX

      class << self
        # @param watch [Watch]
        # @param scope [Array<String>] see {Rule#scope}
        # @param varies [String] see {Rule#varies}
        # @param salt [String] see {Tags#salt}
        # @return [String]
        def of(watch, scope:, varies:, salt:)
          controller = watch.controller
          parts = [ActionCaching.settings.revision, salt, controller.class.name, controller.action_name,
            *of_request(controller.request), I18n.locale, Time.zone&.name, list(scope), varies,
            list(watch.headers.sort.flatten), list(UserMethods.others.flatten), shard]
          # A page for all that are logged in depends on nobody's cookies.
          parts.push(*watch.cookies.sort.flatten) if scope == Rule::ANONYMOUS
          PREFIX + Digest::SHA256.hexdigest(list(parts))
        end

        private

        # The app may have a database for each tenant.
        def shard
          return if !defined?(ActiveRecord) || ActiveRecord.autoload?(:Base)
          ActiveRecord::Base.current_shard
        end

        def of_request(request)
          parameters = request.path_parameters.map { |name, value| [name.to_s, value.to_s] }.sort
          [request.protocol, request.host_with_port, request.script_name, request.path_info, request.query_string,
            list(parameters.flatten), list(request.formats.map(&:to_s)), list(request.variant),
            *Headers::PARTS.map { |name| request.env[name] }]
        end

        def list(values) = values.map { |value| text(value) }.join

        # With its length, so that no two lists have one text.
        def text(part)
          text = part.to_s.b
          "#{text.bytesize}:#{text}".b
        end
      end
    end
  end
end
