# frozen_string_literal: true

module NeverBlockTest
  class MySQLDifferential
    # What the operations work on: tables with rows, and their models.
    #
    #   Models.create[:authors].count     # => 3
    module Models
      # A column of each type.
      SAMPLES = {
        tinyint: "tinyint", smallint: "smallint", mediumint: "mediumint", int: "int", bigint: "bigint", unsigned: "bigint unsigned",
        boolean: "tinyint(1)", decimal: "decimal(20,6)", float: "float", double: "double", bit: "bit(12)", char: "char(9)", varchar: "varchar(90)",
        text: "text", mediumtext: "mediumtext", binary: "binary(4)", varbinary: "varbinary(90)", blob: "blob", date: "date",
        time: "time(3)", datetime: "datetime(6)", timestamp: "timestamp(6) null", year: "year", enum: "enum('a','b')", set: "set('a','b')", json: "json"
      }.freeze

      class << self
        # @return [Array<String>] what callbacks told
        def events = @events ||= []

        # @return [Hash{Symbol=>Class}]
        def create
          ActiveRecord::Base.with_connection do |connection|
            tables(connection)
            rows(connection)
          end
          load File.join(__dir__, "classes.rb")
          {authors: Author, books: Book, samples: Sample}
        end

        private

        def tables(connection)
          connection.create_table(:authors) do |t|
            LibraryModels.author(t)
            t.integer :mood, default: 0, null: false
          end
          connection.create_table(:books) do |t|
            LibraryModels.book(t)
            t.datetime :seen_at
          end
          connection.execute("CREATE TABLE samples (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, #{SAMPLES.map { |name, type| "a_#{name} #{type}" }.join(", ")})")
          connection.execute("CREATE TABLE watched (id int PRIMARY KEY AUTO_INCREMENT, n int, m int)")
        end

        def rows(connection)
          connection.execute("INSERT INTO authors (name, age, books_count, created_at, updated_at) VALUES ('Ada', 30, 4, '2026-01-01', '2026-01-01'), ('Bob', 31, 4, '2026-01-02', '2026-01-02'), ('Cyd', NULL, 4, '2026-01-03', '2026-01-03')")
          values = 12.times.map { |n| "(#{n % 3 + 1}, 'Title #{n}', #{n * 1.5}, '2020-01-#{format("%02d", n + 1)}', '2026-01-02 03:04:#{format("%02d", n)}.678')" }
          connection.execute("INSERT INTO books (author_id, title, price, published_on, seen_at) VALUES #{values.join(", ")}")
        end
      end
    end
  end
end
