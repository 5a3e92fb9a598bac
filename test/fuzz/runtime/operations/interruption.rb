# frozen_string_literal: true

module NeverBlockFuzz
  # Raised in a loop's thread: `thread.raise(Interruption.new)`. As an interrupt by a signal it is no StandardError, so that
  # no task keeps it in which it happens to arrive.
  class Interruption < Exception; end # standard:disable Lint/InheritException
end
