# frozen_string_literal: true

module NeverBlock
  class Cache
    class Fill
      # The response ends before its end: the app failed, or the reader was too slow.
      class Truncated < StandardError
        include Error
      end
    end
  end
end
