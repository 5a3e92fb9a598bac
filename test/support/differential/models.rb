# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # Models of the tables of {Tables}, defined anew for each run.
    module Models
      class Base < LibraryModels::Base
        self.abstract_class = true
      end

      class Author < Base
        include LibraryModels::Author

        enum :mood, {sad: "sad", glad: "glad"}
        store_accessor :details, :colour
      end

      class Book < Base
        belongs_to :author, counter_cache: true, optional: true
        enum :status, {draft: 0, printed: 1}
      end

      class Room < Base
      end

      class Sample < Base
        attribute :a_point, :point
        attribute :many_string, :string, array: true
        attribute :a_int4range, :integer, range: true
      end

      class Token < Base
      end

      class Seat < Base
      end

      class << self
        # @return [Array<String>] what callbacks recorded
        def events = @events ||= []
      end
    end
  end
end
