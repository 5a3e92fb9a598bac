# frozen_string_literal: true

module NeverBlockTest
  # Authors and their books, as both differentials have them: with PostgreSQL and with MySQL.
  #
  #   connection.create_table(:authors) { |t| LibraryModels.author(t) }
  #   class Base < LibraryModels::Base; end
  #   class Author < Base
  #     include LibraryModels::Author        # its module has a method `events`
  #   end
  module LibraryModels
    # The same time in each run.
    NOW = Time.utc(2026, 11, 22, 1, 2, 3.456789r)

    # With that time.
    class Base < ActiveRecord::Base
      self.abstract_class = true
      def self.current_time_from_proper_timezone = NOW
      def current_time_from_proper_timezone = NOW
    end

    # Rules and callbacks.
    module Author
      def self.included(author)
        author.class_eval do
          has_many :books, dependent: :destroy, inverse_of: :author
          validates :age, numericality: {less_than: 200}, allow_nil: true
          scope :grown, -> { where("age > ?", 18) }
          after_commit { self.class.module_parent.events << "committed #{name}" }
          after_rollback { self.class.module_parent.events << "rolled back #{name}" }
        end
      end
    end

    class << self
      # @param table [ActiveRecord::ConnectionAdapters::TableDefinition]
      # @return [void]
      def author(table)
        table.string :name, null: false, limit: 40, index: {unique: true}
        table.integer :age
        table.integer :lock_version, null: false, default: 0
        table.integer :books_count, null: false, default: 0
        table.check_constraint "age > 0", name: "grown"
        table.timestamps
      end

      # @param table [ActiveRecord::ConnectionAdapters::TableDefinition]
      # @return [void]
      def book(table)
        table.references :author, foreign_key: true
        table.string :title, null: false
        table.decimal :price, precision: 10, scale: 2
        table.date :published_on
      end
    end
  end
end
