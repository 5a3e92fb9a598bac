# frozen_string_literal: true

module NeverBlockFuzz
  # A timeout with a class of the caller's. Each timeout makes a class of its own.
  class OwnTimeout < StandardError; end

  # Raised in a fiber or in a loop's thread from outside.
  class Injected < StandardError; end
end
