# frozen_string_literal: true

module NeverBlock
  class Cache
    class Fill
      # No request waits for the rest of the body, and nothing can be stored.
      class Abandoned < StandardError
        include Error
      end
    end
  end
end
