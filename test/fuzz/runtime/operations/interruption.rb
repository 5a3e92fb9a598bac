# frozen_string_literal: true

module NeverBlockFuzz
  # Raised in a loop's thread: `thread.raise(Interruption.new)`. Like an interrupt by a signal it isn't a StandardError,
  # so that no task rescues it where it happens to arrive.
  class Interruption < Exception; end # standard:disable Lint/InheritException
end
