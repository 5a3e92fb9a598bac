# frozen_string_literal: true

require_relative "library"

module NeverBlock
  class Postgres
    class Pipeline
      # Active Record's part of pipelines: each fiber gets copies of the caller's role, shard, scopes and Current
      # attributes, so that the changes of one are not seen by the others. The log tells what was sent together.
      # @api private
      module Records
        extend Library

        class << self
          def held?
            pools.any? do |pool|
              adapter = pool.active_connection?
              adapter && (adapter.transaction_open? || (adapter.respond_to?(:held_for) && adapter.held_for))
            end
          end

          def carry
            # By thread the fibers share the state.
            return unless ActiveSupport::IsolatedExecutionState.isolation_level == :fiber
            state = Fiber.current.active_support_execution_state || {}
            context = ActiveSupport::ExecutionContext.to_h
            current = current_attributes
            lambda do |&job|
              Fiber.current.active_support_execution_state = state.to_h { |name, value| [name, copy(value)] }
              CURRENT_KEYS.each { |key| ActiveSupport::IsolatedExecutionState.delete(key) }
              ActiveSupport::ExecutionContext.set(**context)
              current.each { |kind, attributes| kind.instance.attributes = attributes.dup }
              job.call
            ensure
              ActiveRecord::Base.connection_handler.clear_active_connections!(:all)
            end
          end

          def settle(value)
            case value
            when Array then value.map { |element| promised(element) }
            when Hash then value.transform_values { |element| promised(element) }
            else promised(value)
            end
          end

          def ended(pipeline)
            return if pipeline.names.empty?
            ActiveRecord::Base.logger&.debug do
              format("  PIPELINE %d (%.1fms)  %d in one go, waited %.1fms for a connection: %s", pipeline.id,
                pipeline.seconds * 1_000,
                pipeline.names.size, pipeline.queue_time * 1_000, pipeline.names.join(", "))
            end
          end

          private

          # Keys of the state that {#current_attributes} and ExecutionContext copy.
          CURRENT_KEYS = %i[current_attributes_instances active_support_execution_context].freeze
          private_constant :CURRENT_KEYS

          def pools = ActiveRecord::Base.connection_handler.connection_pool_list(:all)

          def current_attributes
            ActiveSupport::CurrentAttributes.send(:current_instances).values.to_h do |instance|
              [instance.class, instance.attributes]
            end
          end

          # `scoping`, `connected_to` and their like change these objects in place and change them back.
          def copy(value)
            case value
            when Array, Hash, Set then value.dup
            when ActiveRecord::Scoping::ScopeRegistry
              value.dup.tap do |registry|
                registry.instance_variables.each do |name|
                  registry.instance_variable_set(name, copy(registry.instance_variable_get(name)))
                end
              end
            else value
            end
          end

          def promised(value) = (ActiveRecord::Promise === value) ? value.value : value
        end
      end
    end
  end
end
