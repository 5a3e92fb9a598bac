# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Releases the reloading lock of a hijacked request when the app returns. A request that has hijacked its
      # connection, or responded with 101, would keep the lock until the connection closes, and block all
      # requests after an edit (rails#57425, fixed in 8.2). The new owner of the connection, such as Action
      # Cable, handles reloading itself.
      module HijackRelease
        # Prepended to ActionDispatch::Executor if its callback is the first one that it
        # adds to `rack.response_finished`.
        module ByCallback
          def call(env)
            callbacks = env["rack.response_finished"]
            own = callbacks&.size
            response = super
            callbacks.delete_at(own)&.call if callbacks && HijackRelease.taken?(env, response)
            response
          end
        end

        # Before Rails 8.1 the executor completes at the end of the body, which it wraps in a Rack::BodyProxy.
        module ByBody
          def call(env)
            response = super
            return response unless HijackRelease.taken?(env, response)
            proxy = response.pop
            proxy.instance_variable_get(:@block).call
            response << proxy.instance_variable_get(:@body)
          end
        end

        # @return [Boolean] whether the app owns the connection from here on
        def self.taken?(env, response) = env["rack.hijack_io"] || response.first == 101

        # Replaces Rails' executor and its state in a trial.
        class Trial
          def run!(reset:) = self

          def complete! = @completed = true

          # @return [Boolean] whether the executor completes when a hijacking app returns
          def released?
            call
            !!@completed
          end

          # @return [Boolean] whether the executor adds a callback
          def adds_callback? = call.any?

          private

          def call
            app = ->(env) { [200, {}, []].tap { env["rack.hijack_io"] = $stderr } }
            [].tap { |callbacks| ActionDispatch::Executor.new(app, self).call({"rack.response_finished" => callbacks}) }
          end
        end

        def self.needed? = defined?(ActionDispatch::Executor) && !Trial.new.released?

        def self.apply = ActionDispatch::Executor.prepend(Trial.new.adds_callback? ? ByCallback : ByBody)
      end
    end
  end
end
