# frozen_string_literal: true

require_relative "../errors"

module NeverBlock
  module Pages
    # There is no such page: Rails responds with 404.
    #
    #   rescue_from NeverBlock::Pages::NotFound, with: :not_found
    class NotFound < StandardError
      include Error
    end
  end
end
