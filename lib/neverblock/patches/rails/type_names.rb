# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Makes attribute types of :postgresql and :postgis available to our adapters. Rails registers a type for the
      # adapter name of the configuration.
      module TypeNames
        # Prepended to the singleton class of ActiveRecord::Type.
        module Type
          # @return [Symbol]
          def adapter_name_from(model) # :nodoc:
            ActiveRecordAdapters.types_of(model.connection_db_config.adapter) || super
          end
        end

        def self.apply = ActiveRecord::Type.singleton_class.prepend(Type)
      end
    end
  end
end
