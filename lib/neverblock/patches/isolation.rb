# frozen_string_literal: true

module NeverBlock
  module Patches
    # Makes Active Support keep its state by fiber: connections, transactions, Current attributes. By default it
    # keeps them by thread, and the tasks of a loop share one: they would use each other's transactions.
    #
    #   NeverBlock.run { require "active_record" }
    #   ActiveSupport::IsolatedExecutionState.isolation_level   # => :fiber
    #
    # `run` sets the level where Active Support is loaded already. The patch notices that it is loaded later, perhaps by
    # the first request.
    module Isolation
      # Prepended to the singleton of ActiveSupport::IsolatedExecutionState.
      module Level
        def isolation_level=(level)
          level = :fiber if isolation_level.nil? # Active Support sets its default, as it is loaded
          Isolation.refuse("A loop runs") if level != :fiber && Loops.all.any?(&:looping?)
          super
        end
      end

      def self.targets = {::Object.singleton_class => self}

      def self.needed? = true

      # Sets the level, unless that would break up what is under way.
      # @return [void]
      # @raise [ConfigurationError] if other threads, or an open transaction, use the state by thread
      def self.provide
        return unless ::Object.const_defined?(:ActiveSupport) && Ractor.current.equal?(Ractor.main)
        support = ::Object.const_get(:ActiveSupport)
        support.singleton_class.prepend(Isolation) unless support.singleton_class < Isolation
        return unless support.const_defined?(:IsolatedExecutionState)
        state = support.const_get(:IsolatedExecutionState)
        guard(state)
        take_over(state) unless state.isolation_level == :fiber
      end

      # @param state [Module] ActiveSupport::IsolatedExecutionState
      # @return [void]
      def self.guard(state)
        state.singleton_class.prepend(Level) unless state.singleton_class < Level
      end

      # @param reason [String]
      # @raise [ConfigurationError]
      def self.refuse(reason)
        raise ConfigurationError, "#{reason}, and Active Support keeps its state by thread: the tasks of a loop " \
          "would use each other's transactions and Current attributes. Remove the line that sets isolation_level to " \
          ":thread, if there is one. Where the program begins, before it uses Active Support, write: " \
          "ActiveSupport::IsolatedExecutionState.isolation_level = :fiber"
      end

      # The calling thread's state becomes its fiber's. Its idle connections go back to their pools.
      def self.take_over(state)
        refuse("Other threads use it, or a transaction is open") if in_use?
        values = Thread.current.active_support_execution_state&.dup
        records&.connection_handler&.clear_active_connections!(:all)
        state.isolation_level = :fiber
        Fiber.current.active_support_execution_state = values
      end

      def self.in_use?
        return true if (Thread.list - [Thread.current]).any? { |one| one.active_support_execution_state&.any? }
        connections = records ? records.connection_handler.connection_pool_list(:all).flat_map(&:connections) : []
        connections.any? do |one|
          one.in_use? && (one.transaction_open? || !Thread.current.equal?(one.owner))
        end
      end

      # @return [Class, nil] ActiveRecord::Base, if it has been loaded
      def self.records
        return unless ::Object.const_defined?(:ActiveRecord)
        record = ::Object.const_get(:ActiveRecord)
        record.const_get(:Base) if record.const_defined?(:Base) && !record.autoload?(:Base)
      end
      private_class_method :take_over, :in_use?, :records

      private

      def const_added(name)
        super
        if name == :ActiveSupport && equal?(::Object)
          const_get(name).singleton_class.prepend(Isolation)
        elsif name == :IsolatedExecutionState && to_s == "ActiveSupport" && !autoload?(name)
          Isolation.guard(const_get(name))
        end
      end
    end
  end
end
