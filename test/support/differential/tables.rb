# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # The tables that the operations use.
    #
    #   Tables.create(connection)
    #   Tables.models[:authors].count     # => 3
    module Tables
      MODELS = %i[authors books rooms samples tokens seats].freeze

      class << self
        # @param connection [ActiveRecord::ConnectionAdapters::PostgreSQLAdapter]
        def create(connection)
          ActiveRecord::Schema.verbose = false
          %w[hstore citext ltree btree_gist].each { |name| connection.enable_extension(name) }
          connection.create_enum(:mood, %w[sad glad])
          connection.execute("CREATE TYPE pair AS (first int, second text)")
          connection.execute("CREATE DOMAIN percent AS numeric(5, 2) CHECK (VALUE BETWEEN 0 AND 100)")
          people(connection)
          samples(connection)
          others(connection)
          rows(connection)
        end

        # New classes for each call, since a class caches its table's columns.
        # @return [Hash{Symbol=>Class}]
        def models
          Differential.send(:remove_const, :Models) if Differential.const_defined?(:Models, false)
          load File.join(__dir__, "models.rb")
          MODELS.to_h { |name| [name, Models.const_get(name.to_s.singularize.capitalize)] }
        end

        private

        def people(connection)
          connection.create_table(:authors) do |t|
            LibraryModels.author(t)
            t.enum :mood, enum_type: :mood, default: "sad"
            t.text :tags, array: true, default: []
            t.jsonb :details, default: {}
          end
          connection.create_table(:books) do |t|
            LibraryModels.book(t)
            t.timestamptz :seen_at
            t.integer :status, limit: 2, default: 0
            t.virtual :shout, type: :string, as: "upper((title)::text)", stored: true
            t.timestamps
          end
        end

        # A column of each type.
        def samples(connection)
          connection.create_table(:samples) do |t|
            %i[boolean smallint integer bigint float decimal string text date time datetime timestamptz binary json jsonb uuid inet cidr macaddr
              interval money xml point line lseg box path polygon circle bit bit_varying hstore citext ltree tsvector oid int4range int8range numrange
              tsrange tstzrange daterange].each { |type| (type == :smallint) ? t.integer(:smallint, limit: 2) : t.column(:"a_#{type}", type) }
            %i[integer bigint decimal string text date datetime boolean uuid inet jsonb float].each { |type| t.column(:"many_#{type}", type, array: true) }
            t.column :a_mood, :mood
            t.column :a_pair, :pair
            t.column :a_percent, :percent
          end
        end

        def others(connection)
          connection.create_table(:rooms) do |t|
            t.integer :number, null: false
            t.int4range :during
            t.exclusion_constraint "number WITH =, during WITH &&", using: :gist, name: "one_at_a_time"
          end
          connection.create_table(:tokens, id: :uuid, default: nil) { |t| t.string :value, limit: 5 }
          connection.create_table(:seats, primary_key: %i[row number]) do |t|
            t.integer :row
            t.integer :number
            t.string :guest
          end
        end

        def rows(connection)
          connection.execute(<<~SQL)
            INSERT INTO authors (name, age, created_at, updated_at) VALUES ('Ada', 30, '2026-01-01', '2026-01-01'), ('Bob', 31, '2026-01-02', '2026-01-02'), ('Cyd', NULL, '2026-01-03', '2026-01-03')
          SQL
          connection.execute(<<~SQL)
            INSERT INTO books (author_id, title, price, published_on, seen_at, status, created_at, updated_at)
            SELECT n % 3 + 1, 'Title ' || n, n * 1.5, date '2020-01-01' + n, timestamptz '2026-01-02 03:04:05.678+00' + n * interval '1 hour', n % 2, '2026-01-01', '2026-01-01'
            FROM generate_series(0, 11) n
          SQL
          connection.execute("UPDATE authors SET books_count = 4")
          connection.execute("INSERT INTO rooms (number, during) VALUES (1, '[1,5)'), (2, '[1,9)')")
          connection.execute("INSERT INTO tokens VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'one')")
          connection.execute("INSERT INTO seats VALUES (1, 1, 'Ada'), (1, 2, NULL)")
        end
      end
    end
  end
end
