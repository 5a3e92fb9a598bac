# frozen_string_literal: true

require "action_controller/railtie"
require "logger"

module NeverBlockPumaFuzz
  module Apps
    # A Rails app that prints what a controller is told about its request, a line for each method.
    class Rails < ::Rails::Application
      TOLD = %i[request_method method url original_fullpath host port protocol ssl? remote_ip ip content_length content_type
        media_type raw_post query_parameters request_parameters form_data? cookies xhr? local? authorization].freeze

      ADDRESS = %r{0x\h+|/\S+RackMultipart\S+}n # in the inspection of an uploaded file

      # All requests come here.
      class Requests < ActionController::API
        def show
          lines = TOLD.to_h { |name| [name, told { request.public_send(name) }] }
          lines.update(params: told { params.to_unsafe_h }, body: told { request.body.read })
          render plain: lines.map { |name, value| "\"rails #{name}\" #{value.inspect.b.gsub(ADDRESS, "").dump}" }.join("\n")
        end

        private

        # Many methods raise for a request that isn't valid.
        def told
          yield
        rescue => error
          error.class
        end
      end

      config.root = __dir__
      config.eager_load = false
      config.logger = Logger.new(nil)
      config.secret_key_base = "0" * 64
      config.hosts = nil
      config.consider_all_requests_local = false
      config.action_dispatch.show_exceptions = :all
      [ActionDispatch::RequestId, ::Rack::Runtime, ::Rack::ETag].each { |name| config.middleware.delete(name) } # fields that always differ
      config.load_defaults ::Rails::VERSION::STRING.to_f
      routes.append { match "/rails(/*rest)", to: ->(env) { Requests.action(:show).call(env) }, via: :all }
    end
  end
end

NeverBlockPumaFuzz::Apps::Rails.initialize!
