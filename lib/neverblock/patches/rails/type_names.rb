# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Attribute types are registered by the name that an adapter has in the configuration: for :postgresql, and :postgis. Those are
      # to be found where the name is one of ours.
      module TypeNames
        # Prepended to the singleton class of ActiveRecord::Type.
        module Type
          # @return [Symbol]
          def adapter_name_from(model) = ActiveRecordAdapters.types_of(model.connection_db_config.adapter) || super # :nodoc:
        end

        def self.apply = ActiveRecord::Type.singleton_class.prepend(Type)
      end
    end
  end
end
