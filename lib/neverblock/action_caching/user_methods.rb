# frozen_string_literal: true

require_relative "watch"

module NeverBlock
  module ActionCaching
    # Tells the {Watch} when the action or its view asks for the user: a filter has found the user and kept it, so that
    # nothing is read of the session any more. These are methods of the controller, such as `current_user`, and
    # attributes of ActiveSupport::CurrentAttributes, such as `Current.user`.
    #
    #   UserMethods.watch(ReportsController)
    # @api private
    module UserMethods
      # Attributes, as Rails' own generator for logins has them.
      CURRENT = %i[user session account member admin person identity].freeze
      MARK = :@neverblock_user_methods
      LOCK = Thread::Mutex.new
      private_constant :CURRENT, :MARK, :LOCK

      class << self
        # @param controller [Class]
        # @return [void]
        def watch(controller)
          mark(controller, -> { ActionCaching.settings.personal | of_devise }) { |name| name }
          ActiveSupport::CurrentAttributes.descendants.each do |current|
            mark(current, -> { CURRENT }) { |name| "#{current.name}.#{name}" }
          end
        end

        # Filters may have found out in what the page is shown, such as Current.organization. Texts and numbers are
        # often those of one request.
        # @return [Array<Array>] attribute, class and id of each record that is not the user
        def others
          ActiveSupport::CurrentAttributes.descendants.flat_map do |current|
            current.instance.attributes.filter_map do |name, value|
              [current.name, name, value.class.name, value.id] if !CURRENT.include?(name.to_sym) && record?(value)
            end
          end
        end

        private

        def record?(value) = Object === value && value.respond_to?(:cache_key) && value.respond_to?(:id)

        def of_devise
          return [] unless defined?(::Devise) && ::Devise.respond_to?(:mappings)
          ::Devise.mappings.keys.flat_map { |name| [:"current_#{name}", :"#{name}_signed_in?", :"#{name}_session"] }
        end

        def mark(target, names)
          return if target.instance_variable_defined?(MARK)
          LOCK.synchronize do
            next if target.instance_variable_defined?(MARK)
            target.instance_variable_set(MARK, true)
            names = names.call.select { |name| target.method_defined?(name) || private?(target, name) }
            target.prepend(telling(target, names.to_h { |name| [name, yield(name)] })) if names.any?
          end
        end

        # A public method of a controller is an action, and other methods must not become one.
        def telling(target, names)
          Module.new do
            names.each do |name, words|
              define_method(name) do |*arguments, **options, &block|
                Watch.current&.user(words.to_s)
                super(*arguments, **options, &block)
              end
              private name if target.private_method_defined?(name)
              protected name if target.protected_method_defined?(name)
            end
          end
        end

        def private?(target, name) = target.private_method_defined?(name) || target.protected_method_defined?(name)
      end
    end
  end
end
