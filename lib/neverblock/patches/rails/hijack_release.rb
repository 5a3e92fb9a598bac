# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # A request that has hijacked its connection, or answered 101, keeps the reloading lock until the connection closes, and
      # all that comes after an edit waits for that (rails#57425, fixed in 8.2). What is done at its end is done when the app
      # returns: whoever has the connection by then, as Action Cable, sees to reloading itself.
      module HijackRelease
        # Prepended to ActionDispatch::Executor where its callback is the first that it adds to `rack.response_finished`.
        module ByCallback
          def call(env)
            callbacks = env["rack.response_finished"]
            own = callbacks&.size
            response = super
            callbacks.delete_at(own)&.call if callbacks && HijackRelease.taken?(env, response)
            response
          end
        end

        # Before Rails 8.1 the end was that of the body, which it has put into a Rack::BodyProxy.
        module ByBody
          def call(env)
            response = super
            return response unless HijackRelease.taken?(env, response)
            proxy = response.pop
            proxy.instance_variable_get(:@block).call
            response << proxy.instance_variable_get(:@body)
          end
        end

        # @return [Boolean] whether the connection belongs to the app from here on
        def self.taken?(env, response) = env["rack.hijack_io"] || response.first == 101

        # In place of Rails' executor and of its state.
        class Trial
          def run!(reset:) = self

          def complete! = @completed = true

          # @return [Boolean] whether it is at its end when a hijacking app returns
          def released?
            call
            !!@completed
          end

          # @return [Boolean]
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
