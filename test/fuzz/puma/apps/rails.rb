# frozen_string_literal: true

require "action_controller/railtie"
require "logger"

module NeverBlockPumaFuzz
  module Apps
    # A Rails app that prints what a controller is told about its request, a line for each method; and /rails/respond/KIND,
    # which responds as controllers do.
    class Rails < ::Rails::Application
      TOLD = %i[request_method method url original_fullpath host port protocol ssl? remote_ip ip content_length content_type
        media_type raw_post query_parameters request_parameters form_data? cookies xhr? local? authorization].freeze

      ADDRESS = %r{0x\h+|/\S+RackMultipart\S+}n # in the inspection of an uploaded file

      # Kinds of responses, each a block in the controller.
      RESPONSES = {
        file: -> { send_file(__FILE__) },
        data: -> { send_data("data", filename: "a.txt") },
        enumerator: -> { self.response_body = Enumerator.new { |parts| 3.times { |number| parts << "part #{number}\n" } } },
        redirect: -> { redirect_to("/rails") },
        nothing: -> { head(:no_content) },
        cookies: -> { %w[a b].each { |name| response.set_cookie(name, value: "1; 2", path: "/") } && head(:ok) },
        hints: -> { request.send_early_hints("link" => "</a.css>; rel=preload\n</b.js>; rel=preload") || head(:ok) },
        fresh: -> { fresh_when(etag: "a") || head(:ok) },
        old: -> { fresh_when(last_modified: Time.at(0)) },
        error: -> { raise "as asked" },
        missing: -> { raise ActionController::RoutingError, "as asked" },
        json: -> { render(json: {a: "\u20AC", b: [1, nil]}) },
        proxy: -> { render(plain: "x", status: 407) },
        partial: -> { render(plain: "x", status: 206, headers: {"accept-ranges" => "bytes"}) },
        length: -> { response.headers["content-length"] = "1" and render(plain: "x") }
      }.freeze

      # Streams on a thread or a fiber of its own.
      class Streams < ActionController::API
        include ActionController::Live

        def show
          3.times { |number| response.stream.write("part #{number}\n") }
        ensure
          response.stream.close
        end
      end

      # All other requests come here.
      class Requests < ActionController::API
        def show
          lines = TOLD.to_h { |name| [name, told { request.public_send(name) }] }
          lines.update(params: told { params.to_unsafe_h }, body: told { request.body.read })
          render plain: lines.map { |name, value| "\"rails #{name}\" #{value.inspect.b.gsub(ADDRESS, "").dump}" }.join("\n")
        end

        def respond = instance_exec(&RESPONSES.fetch(params[:kind].to_sym))

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
      routes.append do
        match "/rails/live", to: ->(env) { Streams.action(:show).call(env) }, via: :all
        match "/rails/respond/:kind", to: ->(env) { Requests.action(:respond).call(env) }, via: :all, constraints: {kind: Regexp.union(*RESPONSES.keys.map(&:name))}
        match "/rails(/*rest)", to: ->(env) { Requests.action(:show).call(env) }, via: :all
      end
    end
  end
end

NeverBlockPumaFuzz::Apps::Rails.initialize!
