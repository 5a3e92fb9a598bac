# frozen_string_literal: true

module NeverBlock
  module Shards
    # Rails' shards: `connects_to shards:` names them, `connected_to` chooses one.
    #
    #   records = Records.new("map", OrdersRecord, :reading)
    #   records.names                            # => [:eu, :us]
    #   records.call(:eu) { |shard| Order.count }
    #
    # Each call must be in a fiber of its own.
    # @api private
    class Records
      # Makes child fibers inherit role and shard, as soon as there is an Active Record.
      # @return [void]
      def self.prepare
        require "active_support/lazy_load_hooks"
        ActiveSupport.on_load(:active_record) { Records.hand_down }
      rescue LoadError => error
        raise unless error.path == "active_support/lazy_load_hooks" # there is no Active Record either
      end

      # @return [void]
      def self.hand_down
        require_relative "../patches/rails/connected_to"
        Patches::Rails::ConnectedTo.apply
      end

      # @param method [String] the called method, for messages
      # @param owner [Class, nil] nil: ApplicationRecord's, for all classes
      # @param role [Symbol, nil] nil: the caller's
      # @raise [ConfigurationError]
      def initialize(method, owner, role)
        refuse(method, "without databases it needs Active Record. Give it a list") unless defined?(ActiveRecord::Base)
        Records.hand_down
        @owner = (owner || ActiveRecord::Base).connection_class_for_self
        check_state(method)
        @writes_prevented = role.nil? && @owner.current_preventing_writes
        @role = role&.to_sym || @owner.current_role
      end

      # @return [Array<Symbol, Integer>] in the order of `connects_to`
      def names = @names ||= declared.map { |shard| name(shard) }

      # @return [Symbol, Integer] the name as it is in {#names}
      def name(given) = given.respond_to?(:to_sym) ? given.to_sym : given

      # @return [String] for messages
      def label(name) = name.inspect

      # @return [String]
      def to_s = @owner.name

      # @param name [Symbol, Integer] one of {#names}
      # @return [void]
      # @raise [ConfigurationError] if the shard does not have the role
      def check(name)
        return if manager.role_names.include?(@role) && manager.get_pool_config(@role, name)
        roles = manager.role_names.select { |role| manager.get_pool_config(role, name) }
        raise ConfigurationError, "role: #{@role.inspect} is not a role of the shard #{name.inspect} of #{self}. " \
          "Its roles: #{roles.map(&:inspect).join(", ")}"
      end

      # @param name [Symbol, Integer]
      # @return [Object] the block's value; a relation is loaded
      def call(name)
        @owner.connected_to(shard: name, role: @role, prevent_writes: @writes_prevented) { yield name }
      ensure
        @owner.connection_handler.clear_active_connections!(:all) # those of this fiber
      end

      private

      # A class's `shard_keys` are those of its `connects_to`; ActiveRecord::Base has none where ApplicationRecord has
      # declared them for all.
      def declared
        owner = (@owner == ActiveRecord::Base) ? primary_class : @owner
        keys = owner.respond_to?(:shard_keys) ? owner.shard_keys : connected_by(owner)
        keys.any? ? keys : connected
      end

      # Before Rails 8.0 a class does not know its keys, but its connections know the class.
      def connected_by(owner)
        return [] if owner == ActiveRecord::Base
        manager.shard_names.select do |shard|
          manager.role_names.any? { |role| manager.get_pool_config(role, shard)&.connection_class == owner }
        end
      end

      def primary_class
        return ActiveRecord.application_record_class if ActiveRecord.application_record_class
        primary = ::ApplicationRecord if Object.const_defined?(:ApplicationRecord) # it may be loaded here
        (primary && primary < ActiveRecord::Base) ? primary : @owner
      end

      # The shards with a connection. Rails connects :default first, to a database that may be another shard's too.
      def connected
        databases = manager.shard_names.to_h { |shard| [shard, manager.get_pool_config(@role, shard)&.db_config] }
        default = databases[:default]
        databases.delete(:default) if default && databases.values.count(default) > 1
        databases.keys
      end

      def manager
        name = @owner.connection_specification_name
        @manager ||= @owner.connection_handler.send(:get_pool_manager, name) ||
          raise(ConfigurationError, "#{self} has no connection: there are no shards to ask. Call connects_to first")
      end

      def check_state(method)
        level = ActiveSupport::IsolatedExecutionState.isolation_level
        unless level == :fiber
          refuse(method, "ActiveSupport's isolation level is :#{level}, and the fibers that ask the shards would " \
            "change each other's. Set config.active_support.isolation_level, or " \
            "ActiveSupport::IsolatedExecutionState.isolation_level, to :fiber")
        end
        return unless @owner.shard_swapping_prohibited?
        refuse(method, "shard swapping is prohibited here (prohibit_shard_swapping), and it would ask other shards. " \
          "Call it outside of that block, or with shard_selector lock: false")
      end

      def refuse(method, reason) = raise(ConfigurationError, "Shards.#{method}: #{reason}")
    end
  end
end
