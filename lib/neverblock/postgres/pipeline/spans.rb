# frozen_string_literal: true

require_relative "library"

module NeverBlock
  class Postgres
    class Pipeline
      # Tracers' part of pipelines: statements of a fiber of a pipeline, or of load_async, belong to the span in which
      # that was begun. OpenTelemetry and Datadog have the present span by fiber.
      # @api private
      module Spans
        extend Library

        # Datadog's keys among the fiber-locals. Fibers that run at once must not share their values.
        DATADOG = /\Adatadog_context_/
        private_constant :DATADOG

        class << self
          def carry
            context = ::OpenTelemetry::Context.current if defined?(::OpenTelemetry::Context)
            return datadog if context.nil? || context.equal?(::OpenTelemetry::Context::ROOT)
            within = datadog
            lambda { |&job| ::OpenTelemetry::Context.with_current(context) { within ? within.call(&job) : job.call } }
          end

          private

          def datadog
            return unless defined?(::Datadog::Tracing)
            digest = ::Datadog::Tracing.active_trace&.to_digest
            lambda do |&job|
              Thread.current.keys.grep(DATADOG) { |name| Thread.current[name] = nil }
              digest ? ::Datadog::Tracing.continue_trace!(digest) { job.call } : job.call
            end
          end
        end
      end
    end
  end
end
