# frozen_string_literal: true

require_relative "../errors"

module NeverBlock
  module ActionCaching
    # Raised in development and tests: an action with `caches_action` uses the state of one user, so that its response
    # must not be stored. The message names what was used, where, and the remedy.
    class PersonalError < StandardError
      include Error
    end
  end
end
