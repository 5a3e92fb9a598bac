# frozen_string_literal: true

require_relative "../errors"

module NeverBlock
  class Server
    # The app can't be loaded; the message has its own exception.
    #
    #   raise AppError, "config.ru can't be loaded\n#{error.full_message}"
    class AppError < StandardError
      include Error
    end
  end
end
