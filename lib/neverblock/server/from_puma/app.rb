# frozen_string_literal: true

module NeverBlock
  class Server
    module FromPuma
      # An app with what a Puma configuration wants around it.
      #
      #   App.new(app, scheme: "https", on_error: ->(error) { [500, {}, ["Sorry"]] })
      # @api private
      class App
        # What an app may raise; a cancellation is none of these.
        ERRORS = [StandardError, ScriptError, SystemStackError, NoMemoryError].freeze
        STATUS = 500

        # @param app [#call]
        # @param scheme [String, nil] for rack.url_scheme
        # @param remote [#call, nil] makes REMOTE_ADDR of the env; nil: as it is
        # @param on_error [#call, nil] answers when the app has raised
        def initialize(app, scheme: nil, remote: nil, on_error: nil)
          @app = app
          @scheme = scheme
          @remote = remote
          @on_error = on_error
        end

        # @param env [Hash]
        # @return [Array] the app's answer
        def call(env)
          env["rack.url_scheme"] = @scheme if @scheme
          address = @remote&.call(env)
          env["REMOTE_ADDR"] = address if address
          @app.call(env)
        rescue *ERRORS => error
          raise unless @on_error
          env["rack.errors"].write("#{error.full_message(highlight: false, order: :top).strip}\n")
          @on_error.call(*[error, env, STATUS].first(taken))
        end

        private

        # As many as Puma gives it.
        def taken
          arity = @on_error.respond_to?(:arity) ? @on_error.arity : @on_error.method(:call).arity
          arity.between?(1, 2) ? arity : 3
        end
      end
    end
  end
end
