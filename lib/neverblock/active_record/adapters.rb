# frozen_string_literal: true

module NeverBlock
  # The names of adapters whose statements share connections, as `adapter:` in config/database.yml has them.
  #
  #   NeverBlock::ActiveRecordAdapters.register("shop", "ShopAdapter", "shop_adapter", types_of: "postgis")
  #
  # What makes an adapter one of them is {SharesConnections}. This file loads nothing of it, nor the gem pg.
  module ActiveRecordAdapters
    @names = {"neverblock_postgresql" => :postgresql, "neverblock_postgis" => :postgis} # of ours, which may be asked for before they are registered

    class << self
      # @param name [String] for `adapter:`
      # @param class_name [String] of a class that includes {SharesConnections}
      # @param path [String] what is required for it, when it is first used
      # @param types_of [String] the name of the adapter that it is made of, whose attribute types it has: what was registered by
      #   `ActiveRecord::Type.register(…, adapter: :postgis)`
      # @return [void]
      def register(name, class_name, path = class_name.underscore, types_of: "postgresql")
        @names[name.to_s] = types_of.to_sym
        ActiveRecord::ConnectionAdapters.register(name, class_name, path)
        ActiveRecord::Tasks::DatabaseTasks.register_task(/\A#{Regexp.escape(name)}\z/, "ActiveRecord::Tasks::PostgreSQLDatabaseTasks")
      end

      # @param name [String, nil]
      # @return [Boolean] whether it is the name of such an adapter
      def known?(name) = @names.key?(name)

      # @api private
      # @param name [String, nil]
      # @return [Symbol, nil] by which name its attribute types are registered
      def types_of(name) = @names[name]
    end
  end
end
