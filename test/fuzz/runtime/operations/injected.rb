# frozen_string_literal: true

module NeverBlockFuzz
  # Raised in a fiber from outside: `fiber.raise(Injected.new)`.
  class Injected < StandardError; end
end
