# frozen_string_literal: true

# Loaded anew for each run, as each class keeps what it knows of its table.
module NeverBlockTest
  class MySQLDifferential
    module Models
      %i[Base Author Book Sample].each { |name| remove_const(name) if const_defined?(name, false) }

      class Base < LibraryModels::Base
        self.abstract_class = true
      end

      class Author < Base
        include LibraryModels::Author

        enum :mood, {sad: 0, glad: 1}
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
