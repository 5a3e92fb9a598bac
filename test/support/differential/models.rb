# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # Models of the tables of {Tables}, defined anew for each run.
    module Models
      # The base class, with a constant time.
      class Base < ActiveRecord::Base
        self.abstract_class = true
        def self.current_time_from_proper_timezone = Tables::NOW
        def current_time_from_proper_timezone = Tables::NOW
      end

      class Author < Base
        has_many :books, dependent: :destroy, inverse_of: :author
        enum :mood, {sad: "sad", glad: "glad"}
        store_accessor :details, :colour
        validates :age, numericality: {less_than: 200}, allow_nil: true
        scope :grown, -> { where("age > ?", 18) }
        after_commit { Models.events << "committed #{name}" }
        after_rollback { Models.events << "rolled back #{name}" }
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
