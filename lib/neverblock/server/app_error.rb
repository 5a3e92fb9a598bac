# frozen_string_literal: true

require_relative "../errors"

module NeverBlock
  class Server
    # The app can't be loaded; the message has its own exception.
    #
    #   rescue *AppError::CAUSES => error
    #     raise AppError, "config.ru can't be loaded\n#{LogText.full(error)}"
    class AppError < StandardError
      include Error

      # What the code of an app, of a hook or of a configuration fails with, and what the process outlives.
      CAUSES = [StandardError, ScriptError, SystemStackError, NoMemoryError].freeze
    end
  end
end
