# frozen_string_literal: true

module NeverBlock
  class Railtie
    # What Rails' own means keep for the request at hand: Current attributes, `connected_to`, a locale, a time zone. For
    # {Cache}, whose fetches would run without.
    #
    #   RequestState.name    # => "Current.tenant"
    # @api private
    module RequestState
      class << self
        # @return [String, nil]
        def name
          current || role || ("I18n.locale" if I18n.locale != I18n.default_locale) ||
            ("Time.zone" if Time.zone != Time.zone_default)
        end

        private

        def current
          ActiveSupport::CurrentAttributes.subclasses.each do |current|
            set = current.instance.attributes.find { |name, value| !value.nil? && !default?(current, name, value) }
            return "#{current.name}.#{set.first}" if set
          end
          nil
        end

        # Rails 7.2 has defaults of attributes.
        def default?(current, name, value)
          current.respond_to?(:defaults) && current.defaults[name] == value
        end

        def role
          "connected_to" if defined?(ActiveRecord::Base) && ActiveRecord::Base.connected_to_stack.any?
        end
      end
    end
  end
end
