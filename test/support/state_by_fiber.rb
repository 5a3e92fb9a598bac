# frozen_string_literal: true

module NeverBlockTest
  # Has each test begin with the isolation level that loops need, wherever an earlier one has loaded Active Support. A loop
  # of another thread could not begin as soon as the main thread had state by thread.
  module StateByFiber
    def before_setup
      level = ActiveSupport::IsolatedExecutionState if defined?(ActiveSupport::IsolatedExecutionState)
      level.isolation_level = :fiber if level
      super
    end
  end
end

Minitest::Test.prepend(NeverBlockTest::StateByFiber)
