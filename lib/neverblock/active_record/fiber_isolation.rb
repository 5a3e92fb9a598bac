# frozen_string_literal: true

require_relative "../errors"

module NeverBlock
  # Makes sure that Active Record gives each fiber an adapter of its own. With one for each thread, the fibers of a loop
  # would use each other's transactions.
  #
  #   FiberIsolation.check if Scheduler.current
  # @api private
  module FiberIsolation
    # @return [void]
    # @raise [ConfigurationError] unless Rails' isolation level is :fiber
    def self.check
      level = ActiveSupport::IsolatedExecutionState.isolation_level
      return if level == :fiber
      raise ConfigurationError, "config.active_support.isolation_level is :#{level}, and in a loop all fibers are " \
        "on one thread: they would use each other's transactions. Set it to :fiber"
    end
  end
end
