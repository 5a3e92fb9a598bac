# frozen_string_literal: true

# Loaded anew for each run, as each class keeps what it knows of its table.
module NeverBlockTest
  class MySQLDifferential
    module Models
      %i[Base Author Book Sample].each { |name| remove_const(name) if const_defined?(name, false) }

      # What they have in common: a time that stands still.
      class Base < ActiveRecord::Base
        self.abstract_class = true
        def self.current_time_from_proper_timezone = Models::NOW
        def current_time_from_proper_timezone = Models::NOW
      end

      class Author < Base
        has_many :books, dependent: :destroy, inverse_of: :author
        enum :mood, {sad: 0, glad: 1}
        validates :age, numericality: {less_than: 200}, allow_nil: true
        scope :grown, -> { where("age > ?", 18) }
        after_commit { Models.events << "committed #{name}" }
        after_rollback { Models.events << "rolled back #{name}" }
      end

      class Book < Base
        belongs_to :author, counter_cache: true, optional: true
      end

      class Sample < Base
        attribute :a_unsigned, :unsigned_integer, limit: 8
      end
    end
  end
end
