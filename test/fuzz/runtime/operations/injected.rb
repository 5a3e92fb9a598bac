# frozen_string_literal: true

module NeverBlockFuzz
  # Raised in a fiber or in a loop's thread from outside: `fiber.raise(Injected.new)`.
  class Injected < StandardError; end
end
