# frozen_string_literal: true

# Turns each warning about a file of this project into an exception, raised at its cause. Other warnings are printed as
# usual.
module NeverBlockTest
  # The exception: deliberately not a StandardError, so that no `rescue => e` under test can swallow it.
  class OwnWarning < Exception; end # standard:disable Lint/InheritException

  # Prepended to Ruby's Warning.
  module RaiseOnOwnWarnings
    OWN = %w[lib ext test bin exe examples rakelib].map { |folder| File.join(ROOT, folder, "") }.freeze

    def warn(message, **)
      raise OwnWarning, message if message.include?("warning:") && message.start_with?(*OWN)
      super
    end
  end

  Warning.singleton_class.prepend(RaiseOnOwnWarnings)
end
