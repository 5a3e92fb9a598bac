# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # Migrations for the operations, by their version.
    #
    #   Migrations.new.run(:up, 1, 2)     # => [1, 2], the versions that are up afterwards
    class Migrations
      Version = ActiveRecord::Migration[ActiveRecord::Migration.current_version]
      # Makes a table, a column and a foreign key.
      class Made < Version
        def change
          create_table(:made) { |t| t.string :name, index: true }
          add_reference :made, :author, foreign_key: true
        end
      end

      # Inserts rows.
      class Filled < Version
        def up = execute("INSERT INTO made (name) SELECT name FROM authors")

        def down = execute("DELETE FROM made")
      end

      # Fails, and must leave nothing behind.
      class Failed < Version
        def change
          create_table :failed_things
          execute "SELECT nonsense"
        end
      end

      # Runs without a transaction.
      class Indexed < Version
        disable_ddl_transaction!

        def change = add_index(:authors, :age, algorithm: :concurrently)
      end

      CLASSES = {1 => Made, 2 => Filled, 3 => Failed, 4 => Indexed}.freeze
      private_constant(*constants)

      # @return [Array<Integer>]
      def run(direction, *versions)
        pool = ActiveRecord::Base.connection_pool
        verbose, ActiveRecord::Migration.verbose = ActiveRecord::Migration.verbose, false
        [pool.schema_migration, pool.internal_metadata].each(&:create_table)
        migrations = versions.map { |version| CLASSES.fetch(version).new("Made#{version}", version) }
        ActiveRecord::Migrator.new(direction, migrations, pool.schema_migration, pool.internal_metadata, (direction == :up) ? versions.max : 0).migrate
        pool.schema_migration.integer_versions
      ensure
        ActiveRecord::Migration.verbose = verbose
      end
    end
  end
end
