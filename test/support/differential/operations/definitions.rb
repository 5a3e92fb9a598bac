# frozen_string_literal: true

module NeverBlockTest
  class Differential
    # Tables and other objects of a schema, migrations, and schema reflection.
    Operations.area("definitions") do
      add("create_table") { |c| c.create_table(:things, comment: "of all kinds") { |t| [t.string(:name, limit: 20, default: "it's", comment: "a name"), t.decimal(:price, precision: 8, scale: 2, default: 1.5), t.timestamps, t.references(:author, foreign_key: {on_delete: :cascade}, index: {unique: true}), t.jsonb(:data, default: {a: 1}), t.datetime(:at, precision: 3, default: -> { "now()" }), t.text(:tags, array: true, default: %w[x])] } }
      add("its columns") { |c| c.columns("things").map { |column| [column.name, column.sql_type, column.type, column.limit, column.precision, column.scale, column.null, column.default, column.default_function, column.comment, column.array?, column.serial?, column.identity?, column.virtual?] } }
      add("create_table twice") { |c| c.create_table(:things) }
      add("create_table if_not_exists") { |c| c.create_table(:things, if_not_exists: true) { |t| t.string :x } }
      add("create_table by a query") { |c| c.create_table(:picked, as: "SELECT id, name FROM authors") && c.drop_table(:picked) }
      add("create_table unlogged, with options") { |c| c.create_table(:tuned, options: "WITH (fillfactor=70)") && [c.table_options("tuned"), c.drop_table(:tuned)] }
      add("a partitioned table") { |c| c.create_table(:parts, id: false, options: "PARTITION BY LIST (kind)") { |t| t.integer :kind } && c.execute("CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1)") && c.execute("INSERT INTO parts VALUES (1)") && [c.select_value("SELECT count(*) FROM parts_1"), failure { c.execute("INSERT INTO parts VALUES (2)") }, c.drop_table(:parts)] }
      add("inherited tables", from: "8.1") { |c| c.execute("CREATE TABLE things_too (more int) INHERITS (things)") && [c.inherited_table_names("things_too"), c.drop_table(:things_too)] }
      add("an identity column") { |c| c.execute("CREATE TABLE counted (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int)") && [c.primary_key("counted"), c.execute("INSERT INTO counted (n) VALUES (1)").cmd_tuples, failure { c.execute("INSERT INTO counted (id) VALUES (1)") }, c.drop_table(:counted)] }
      add("add_column") { |c| [c.add_column(:things, :extra, :integer, default: 5, null: false), c.add_column(:things, :extra, :integer, if_not_exists: true), failure { c.add_column(:things, :extra, :integer) }] }
      add("change_column") { |c| [c.change_column(:things, :extra, :bigint), c.change_column_default(:things, :extra, from: 5, to: 6), c.change_column_null(:things, :extra, true), c.change_column_comment(:things, :extra, "more")] }
      add("change_column that can't be") { |c| c.change_column(:things, :name, :integer) }
      add("change_column with a cast") { |c| c.change_column(:things, :extra, :string, using: "extra::text") }
      add("rename_column") { |c| [c.rename_column(:things, :extra, :other), c.column_exists?(:things, :other), c.column_exists?(:things, :extra)] }
      add("remove_column") { |c| [c.remove_column(:things, :other), failure { c.remove_column(:things, :other) }, c.remove_column(:things, :other, if_exists: true)] }
      add("change_table") { |c| c.change_table(:things, bulk: true) { |t| [t.integer(:a), t.string(:b), t.index(:a)] } && c.change_table(:things) { |t| t.remove :a, :b } }
      add("add_index") { |c| [c.add_index(:things, :name), c.add_index(:things, %i[name price], unique: true, name: "both"), c.add_index(:things, "lower(name)", name: "lowered"), c.add_index(:things, :price, where: "price > 1", order: {price: :desc}), c.add_index(:things, :data, using: :gin), c.add_index(:things, :at, include: [:price], name: "covering"), failure { c.add_index(:things, :name) }] }
      add("add_index concurrently") { |c| c.add_index(:things, :created_at, algorithm: :concurrently) }
      add("add_index concurrently in a transaction") { |c| c.transaction { c.add_index(:things, :updated_at, algorithm: :concurrently) } }
      add("indexes") { |c| c.indexes("things").sort_by(&:name).map { |index| [index.name, index.columns, index.unique, index.where, index.orders, index.using, index.include, index.opclasses, index.valid?] } }
      add("rename_index") { |c| [c.rename_index(:things, "lowered", "lower"), c.index_name_exists?(:things, "lower"), c.index_exists?(:things, :name)] }
      add("remove_index") { |c| [c.remove_index(:things, name: "lower"), c.remove_index(:things, :created_at, algorithm: :concurrently), failure { c.remove_index(:things, :nothing) }] }
      add("foreign keys") { |c| [c.foreign_keys("things").map { |key| [key.to_table, key.column, key.on_delete, key.validated?] }, c.foreign_key_exists?(:things, :authors), c.remove_foreign_key(:things, :authors), c.add_foreign_key(:things, :authors, on_update: :nullify, validate: false, deferrable: :deferred), c.validate_foreign_key(:things, :authors), c.foreign_keys("things").size] }
      add("check constraints") { |c| [c.add_check_constraint(:things, "price > 0", name: "dear", validate: false), c.validate_check_constraint(:things, name: "dear"), c.check_constraints("things").map { |check| [check.name, check.expression] }, c.remove_check_constraint(:things, name: "dear"), failure { c.remove_check_constraint(:things, name: "dear") }] }
      add("unique constraints") { |c| [c.add_unique_constraint(:things, [:name, :at], name: "once", deferrable: :deferred), c.unique_constraints("things").map { |found| [found.name, found.column, found.deferrable] }, c.remove_unique_constraint(:things, name: "once")] }
      add("exclusion constraints") { |c| [c.exclusion_constraints("rooms").map { |found| [found.name, found.expression, found.using] }, c.add_exclusion_constraint(:rooms, "during WITH &&, number WITH =", using: :gist, name: "again"), c.remove_exclusion_constraint(:rooms, name: "again")] }
      add("join tables") { |c| [c.create_join_table(:authors, :things), c.columns("authors_things").map(&:name), c.drop_join_table(:authors, :things)] }
      add("references") { |c| [c.add_reference(:things, :room, foreign_key: true, type: :bigint), c.remove_reference(:things, :room, foreign_key: true)] }
      add("polymorphic references") { |c| [c.add_reference(:things, :owner, polymorphic: true, index: false), c.remove_reference(:things, :owner, polymorphic: true)] }
      add("rename_table") { |c| [c.rename_table(:things, :stuff), c.table_exists?(:stuff), c.indexes("stuff").map(&:name).sort, c.rename_table(:stuff, :things)] }
      add("a table of a long name") { |c| c.create_table("x" * 64) }
      add("comments") { |c| [c.table_comment("things"), c.change_table_comment(:things, "it's new"), c.table_comment("things")] }
      add("drop_table") { |c| [c.drop_table(:things, force: :cascade), failure { c.drop_table(:things) }, c.drop_table(:things, if_exists: true)] }
      add("drop_table that is referred to") { |c| c.drop_table(:authors) }
      add("DDL in a transaction") { |c| c.transaction { c.create_table(:passing) && raise(ActiveRecord::Rollback) } || c.table_exists?(:passing) }
      add("enums") { |c| [c.create_enum(:colour, %w[red]), c.create_enum(:colour, %w[red]), c.enum_types.sort, c.execute("ALTER TYPE colour ADD VALUE 'blue'"), c.select_value("SELECT 'blue'::colour"), c.drop_enum(:colour)] }
      add("add_enum_value") { |c| [c.create_enum(:colour, %w[red]), c.add_enum_value(:colour, "blue", before: "red"), c.rename_enum_value(:colour, from: "red", to: "dark red"), c.rename_enum(:colour, to: :shade), c.enum_types.to_h["shade"], c.drop_enum(:shade)] }
      add("schemas") { |c| [c.create_schema("wing"), failure { c.create_schema("wing") }, c.schema_exists?("wing"), c.create_table("wing.rooms") && c.table_exists?("wing.rooms"), c.schema_names.sort, c.columns("wing.rooms").map(&:name), c.drop_schema("wing"), c.schema_exists?("wing")] }
      add("extensions") { |c| [c.extension_enabled?(:hstore), c.extension_available?(:pgcrypto), c.enable_extension(:pgcrypto), c.select_value("SELECT digest('a', 'md5')"), c.disable_extension(:pgcrypto), c.extensions.sort, failure { c.enable_extension(:nothing) }] }
      add("views") { |c| c.execute("CREATE VIEW adults AS SELECT * FROM authors WHERE age > 18") && [c.views.sort, c.view_exists?("adults"), c.data_source_exists?("adults"), c.table_exists?("adults"), c.columns("adults").size, c.select_value("SELECT count(*) FROM adults"), c.execute("DROP VIEW adults")] }
      add("a view that can be written") { |c| c.execute("CREATE VIEW all_seats AS SELECT * FROM seats") && [c.execute("INSERT INTO all_seats VALUES (77, 1)").cmd_tuples, c.execute("DELETE FROM all_seats WHERE row = 77").cmd_tuples, c.execute("DROP VIEW all_seats")] }
      add("materialised views") { |c| c.execute("CREATE MATERIALIZED VIEW counts AS SELECT author_id, count(*) AS n FROM books GROUP BY 1") && [c.execute("CREATE UNIQUE INDEX ON counts (author_id)"), c.execute("REFRESH MATERIALIZED VIEW counts"), failure { c.execute("REFRESH MATERIALIZED VIEW CONCURRENTLY counts") }, c.select_rows("SELECT * FROM counts ORDER BY 1"), c.execute("DROP MATERIALIZED VIEW counts")] }
      add("functions and triggers") { |c| c.execute("CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.guest := 'stamped'; RETURN NEW; END $$") && [c.execute("CREATE TRIGGER stamps BEFORE INSERT ON seats FOR EACH ROW EXECUTE FUNCTION stamp()"), c.execute("INSERT INTO seats VALUES (78, 1) RETURNING guest").values, seats.create!(row: 78, number: 2).reload.guest, c.execute("DROP FUNCTION stamp CASCADE"), seats.delete_by(row: 78)] }
      add("rules") { |c| c.execute("CREATE RULE quiet AS ON DELETE TO tokens DO INSTEAD NOTHING") && [tokens.delete_all, c.execute("DROP RULE quiet ON tokens")] }
      add("policies") { |c| [c.execute("ALTER TABLE seats ENABLE ROW LEVEL SECURITY"), c.execute("CREATE POLICY own ON seats USING (guest = current_setting('app.guest', true))"), c.execute("CREATE ROLE nb_guest"), c.execute("GRANT ALL ON seats TO nb_guest"), c.transaction { c.execute("SET LOCAL ROLE nb_guest") && c.execute("SET LOCAL app.guest TO 'Ada'") && c.select_rows("SELECT * FROM seats") }, c.execute("DROP POLICY own ON seats"), c.execute("ALTER TABLE seats DISABLE ROW LEVEL SECURITY"), c.execute("DROP OWNED BY nb_guest"), c.execute("DROP ROLE nb_guest")] }
      each_of(["VACUUM seats", "VACUUM ANALYZE seats", "ANALYZE seats", "REINDEX TABLE seats", "CLUSTER seats USING seats_pkey", "CHECKPOINT", "COMMENT ON TABLE seats IS 'chairs'", "GRANT SELECT ON seats TO PUBLIC", "REVOKE SELECT ON seats FROM PUBLIC",
        "CREATE STATISTICS seated ON row, number FROM seats", "DROP STATISTICS seated", "CREATE SEQUENCE numbers START 5", "ALTER SEQUENCE numbers RESTART", "DROP SEQUENCE numbers", "CREATE COLLATION german (provider = libc, locale = 'C')", "DROP COLLATION german",
        "CREATE AGGREGATE total (int) (sfunc = int4pl, stype = int, initcond = '0')", "SELECT total(n) FROM generate_series(1, 4) n", "DROP AGGREGATE total (int)", "CREATE OPERATOR === (leftarg = int, rightarg = int, function = int4eq)", "DROP OPERATOR === (int, int)",
        "ALTER TABLE seats SET (fillfactor = 90)", "ALTER SYSTEM RESET work_mem", "SECURITY LABEL ON TABLE seats IS 'x'", "TRUNCATE tokens CASCADE"], "utility") { |c, sql| c.execute(sql) }
      add("lists of tables") { |c| [c.tables.sort, c.data_sources.sort, c.foreign_tables, c.current_database, c.encoding, c.collation, c.ctype] }
      each_of(%w[authors books rooms samples tokens seats], "what is known of") { |c, table| [c.columns(table), c.primary_keys(table), c.pk_and_sequence_for(table), c.indexes(table).sort_by(&:name), c.foreign_keys(table), c.check_constraints(table), c.unique_constraints(table), c.table_comment(table)] }
      add("of a table that there is not") { |c| [c.table_exists?("nowhere"), c.indexes("nowhere"), c.primary_keys("authors"), failure { c.columns("nowhere") }] }
      add("sequences") { |c| [c.serial_sequence("authors", "id"), c.default_sequence_name("authors"), c.reset_pk_sequence!("books"), c.set_pk_sequence!("books", 700), books.create!(title: "Seven hundred").id, c.reset_sequence!("books", "id")] }
      add("a schema that is dumped") { |c| StringIO.new.then { |io| ActiveRecord::SchemaDumper.dump(c.pool, io) && io.string } }
      add("the schema cache") { |c| c.pool.schema_cache.then { |cache| cache.clear! && [cache.columns("authors").size, cache.primary_keys("authors"), cache.data_source_exists?("authors"), cache.indexes("seats").size, cache.columns_hash("seats").keys, cache.data_source_exists?("nowhere")] } }
      add("migrations") { migrate(:up, 1, 2) }
      add("migrations back") { migrate(:down, 1, 2) }
      add("a migration that fails") { migrate(:up, 3) }
      add("nothing of it") { |c| [c.table_exists?(:failed_things), c.pool.schema_migration.versions] }
      add("a migration without a transaction") { migrate(:up, 4) }
      add("a migration that is reverted") { migrate(:down, 4) }
      add("migrations while another migrates") { |c| busy("SELECT pg_advisory_lock(#{ActiveRecord::Migrator.const_get(:MIGRATOR_SALT) * Zlib.crc32(c.current_database)})") { migrate(:up, 1) } }
      add("what migrations know") { |c| [c.pool.schema_migration.table_exists?, c.pool.schema_migration.versions, c.pool.internal_metadata.enabled?, c.pool.internal_metadata[:nothing]] }
      add("Schema.define") { |_c| ActiveRecord::Schema[ActiveRecord::Migration.current_version].define(version: 5) { create_table(:defined, force: true) { |t| t.string :x } } }
      add("and dropped") { |c| [c.drop_table(:defined), c.pool.schema_migration.delete_all_versions, c.drop_table(:schema_migrations), c.drop_table(:ar_internal_metadata)] }
      add("recreate_database") { |c| [c.create_database("nb_created", encoding: "UTF8", template: "template0"), failure { c.create_database("nb_created") }, c.drop_database("nb_created")] }
      add("structure_dump") { structure }
      add("change_column of a prepared statement's table") { |c| tokens.find_by(value: "one") && [c.change_column(:tokens, :value, :text), tokens.find_by(value: "one"), c.change_column(:tokens, :value, :string)] }
    end
  end
end
