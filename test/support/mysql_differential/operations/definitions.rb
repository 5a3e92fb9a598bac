# frozen_string_literal: true

NeverBlockTest::MySQLDifferential::Operations.area("definitions") do
  add("create_table") { |c| c.create_table(:made) { |t| t.string :name, index: true, comment: "it's" } && c.columns(:made).map(&:name) }
  add("add_column") { |c| c.add_column(:made, :n, :integer, default: 5, null: false) || c.columns(:made).map { |column| [column.name, column.default] } }
  add("change_column") { |c| c.change_column(:made, :n, :bigint) || c.columns(:made).map(&:sql_type) }
  add("rename_column") { |c| c.rename_column(:made, :n, :m) || c.columns(:made).map(&:name) }
  add("change_column_default") { |c| c.change_column_default(:made, :m, 7) || c.columns(:made).last.default }
  add("change_column_null") { |c| c.change_column_null(:made, :m, true) || c.columns(:made).last.null }
  add("change_column_comment") { |c| c.change_column_comment(:made, :m, "a 'comment'") || c.columns(:made).last.comment }
  add("add_index") { |c| c.add_index(:made, %i[name m], unique: true, length: {name: 10}) || c.indexes(:made).map { |index| [index.name, index.columns, index.unique, index.lengths] } }
  add("rename_index") { |c| c.rename_index(:made, :index_made_on_name, :by_name) || c.indexes(:made).map(&:name).sort }
  add("remove_index") { |c| c.remove_index(:made, name: :by_name) || c.index_exists?(:made, :name, name: :by_name) }
  add("add_reference") { |c| c.add_reference(:made, :author, foreign_key: true) || c.foreign_keys(:made).map { |key| [key.to_table, key.column] } }
  add("remove_foreign_key") { |c| c.remove_foreign_key(:made, :authors) || c.foreign_keys(:made) }
  add("add_check_constraint") { |c| c.add_check_constraint(:made, "m > 0", name: "positive") || c.check_constraints(:made).map { |check| [check.name, check.expression] } }
  add("change_table_comment") { |c| c.change_table_comment(:made, "new") || c.table_comment(:made) }
  add("bulk change") { |c| c.change_table(:made, bulk: true) { |t| t.integer(:x) && t.string(:y) } || c.columns(:made).map(&:name) }
  add("rename_table") { |c| c.rename_table(:made, :remade) || c.tables.sort }
  add("drop_table") { |c| c.drop_table(:remade) || c.table_exists?(:remade) }
  add("drop of nothing") { |c| c.drop_table(:nowhere) }
  add("drop if it exists") { |c| c.drop_table(:nowhere, if_exists: true) }
  add("a virtual column") { |c| c.create_table(:virtuals) { |t| t.string(:a) && t.virtual(:b, type: :string, as: "upper(a)", stored: true) } && c.columns(:virtuals).map { |column| [column.name, column.virtual?] } }
  add("a composite key") { |c| c.create_table(:composites, primary_key: %i[a b]) { |t| t.integer(:a) && t.integer(:b) } && c.primary_keys(:composites) }
  add("without an id") { |c| c.create_table(:plains, id: false) { |t| t.integer(:a) } && c.primary_key(:plains) }
  add("a table of a select") { |c| c.execute("create table copied as select id, name from authors where id < 3") && c.select_value("select count(*) from copied") }
  add("truncate_tables") { |c| c.truncate_tables("copied") && c.select_value("select count(*) from copied") }
  add("analyze") { |c| c.execute("analyze table authors") }
  add("optimize") { |c| c.execute("optimize table copied").class }
  add("tables") { |c| c.tables.sort }
  add("views") { |c| c.views }
  add("data sources") { |c| c.data_sources.sort }
  add("primary_key") { |c| c.primary_key("authors") }
  add("indexes") { |c| c.indexes("authors").map { |index| [index.name, index.columns, index.unique] } }
  add("foreign_keys") { |c| c.foreign_keys("books").map { |key| [key.from_table, key.to_table, key.column] } }
  add("check_constraints") { |c| c.check_constraints("authors").map { |check| [check.name, check.expression] } }
  add("table_options") { |c| c.table_options("authors") }
  add("column_exists?") { |c| [c.column_exists?(:authors, :name), c.column_exists?(:authors, :nowhere)] }
  add("schema dump") { |_c| StringIO.new.tap { |text| ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection_pool, text) }.string.lines.sort }
  add("create_database") { |c| c.create_database("nb_other") && c.select_value("select count(*) from information_schema.schemata where schema_name = 'nb_other'") }
  add("drop_database") { |c| c.drop_database("nb_other") && c.select_value("select count(*) from information_schema.schemata where schema_name = 'nb_other'") }
  add("migration") do |_c|
    migration = Class.new(ActiveRecord::Migration[7.2]) { def change = create_table(:migrated) { |t| t.string :a } }
    before, ActiveRecord::Migration.verbose = ActiveRecord::Migration.verbose, false
    migration.migrate(:up) && migration.migrate(:down)
  ensure
    ActiveRecord::Migration.verbose = before
  end
end
