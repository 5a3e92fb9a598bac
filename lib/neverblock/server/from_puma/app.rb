# frozen_string_literal: true

require_relative "../app_error"
require_relative "../log_text"

module NeverBlock
  class Server
    module FromPuma
      # Wraps an app with the settings of a Puma configuration that concern single requests.
      #
      #   App.new(app, scheme: "https", on_error: ->(error) { [500, {}, ["Sorry"]] })
      # @api private
      class App
        # For exceptions of the app; a cancellation is not among them.
        STATUS = 500

        # @param app [#call]
        # @param scheme [String, nil] for rack.url_scheme
        # @param remote [#call, nil] returns REMOTE_ADDR for an env; nil: it is not changed
        # @param on_error [#call, nil] returns the response after an exception of the app
        def initialize(app, scheme: nil, remote: nil, on_error: nil)
          @app = app
          @scheme = scheme
          @remote = remote
          @on_error = on_error
        end

        # @param env [Hash]
        # @return [Array] the app's response
        def call(env)
          env["rack.url_scheme"] = @scheme if @scheme
          address = @remote&.call(env)
          env["REMOTE_ADDR"] = address if address
          @app.call(env)
        rescue *AppError::CAUSES => error
          raise unless @on_error
          env["rack.errors"].write("#{LogText.full(error).strip}\n")
          @on_error.call(*[error, env, STATUS].first(taken))
        end

        private

        # The number of arguments that Puma would pass.
        def taken
          arity = @on_error.respond_to?(:arity) ? @on_error.arity : @on_error.method(:call).arity
          arity.between?(1, 2) ? arity : 3
        end
      end
    end
  end
end
