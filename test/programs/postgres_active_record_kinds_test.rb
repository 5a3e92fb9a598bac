# frozen_string_literal: true

# slow: it goes through all that Active Record sends

require "test_helper"
require "neverblock/postgres/classifier"
require "support/postgres"

# The statements of Active Record's own PostgreSQL adapter, and their classification: reads share connections, and an
# adapter runs only settings and reads while it connects.
class PostgresActiveRecordKindsTest < Minitest::Test
  def setup
    reason = NeverBlockTest::PostgresServer.missing and skip reason
    require "active_record"
    @server = self.class.server
    @classifier = NeverBlock::Postgres::Classifier.new(server_version: 14)
    @sent = []
    @subscriber = ActiveSupport::Notifications.subscribe("sql.active_record") { |*, payload| @sent << payload[:sql] unless payload[:cached] }
    ActiveRecord::Base.establish_connection(adapter: "postgresql", url: @server.url, variables: {statement_timeout: 5000, lock_timeout: :default})
    @connection = ActiveRecord::Base.lease_connection
    @connection.reconnect!
  rescue LoadError
    skip "Active Record is not in the bundle"
  end

  def teardown
    ActiveSupport::Notifications.unsubscribe(@subscriber) if @subscriber
    ActiveRecord::Base.connection_handler.clear_all_connections! if @server
  end

  def self.server
    @server ||= NeverBlockTest::PostgresServer.start.tap { |server| Minitest.after_run { server.stop } }
  end

  # @return [Hash{Symbol=>Array<String>}] statements sent in the block
  def sent
    @sent.clear
    yield
    @sent.uniq.group_by { |sql| @classifier.call(sql).kind }
  end

  def assert_kinds(*kinds, &block)
    found = sent(&block)
    refute_empty found
    other = found.except(*kinds)
    assert_empty other, other.map { |kind, list| "#{kind}: #{@classifier.call(list[0]).reason}" }.join("\n")
  end

  def test_connecting_is_settings_and_reads
    assert_kinds(:set, :reset, :read) { @connection.reconnect! }
  end

  def test_statements_of_models_and_migrations
    tables
    assert_kinds(:read) { schema_queries }
    assert_kinds(:read, :set) { ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection_pool, StringIO.new) }
    ActiveRecord::Base.connection.schema_cache.clear!
    author, book = models
    author.reset_column_information
    assert_kinds(:read) { author.columns && author.primary_key && book.columns }
    assert_kinds(:begin, :commit, :write) { author.create!(name: "a", mood: "sad", tags: %w[a b]) }
    assert_kinds(:begin, :commit, :write, :read) { writes(author, book) }
    assert_kinds(:read) { reads(author, book) }
    assert_kinds(:write) { author.lock.find_by(name: "a") }
    assert_kinds(:begin, :commit, :rollback, :transactional, :write) { savepoints(author) }
    assert_kinds(:begin, :commit, :read, :write, :transactional) { author.transaction { author.connection.set_constraints(:deferred) && author.count } }
    assert_equal [:session], sent { @connection.get_advisory_lock(7) && @connection.release_advisory_lock(7) }.keys
    assert_kinds(:set) { @connection.client_min_messages = "error" }
    assert_kinds(:write, :read) { @connection.reset_pk_sequence!("authors") }
    assert_kinds(:begin, :read, :session, :commit) { @connection.disable_referential_integrity { 1 } }
    assert_kinds(:write, :read, :session) { definitions }
    assert_equal [:session], sent { @connection.create_enum("mood2", %w[a b]) }.keys - [:read] # a DO block
  end

  private

  def tables
    @connection.create_enum("mood", %w[sad glad])
    @connection.create_table("authors") do |table|
      table.string :name, null: false, limit: 50, index: {unique: true}
      table.column :mood, "mood"
      table.string :tags, array: true, default: []
      table.jsonb :details, default: {}
      table.virtual :upper_name, type: :string, as: "upper(name)", stored: true
      table.check_constraint "char_length(name) > 0", name: "named"
      table.timestamps
    end
    @connection.create_table("books", id: :uuid) do |table|
      table.references :author, foreign_key: {deferrable: :deferred}
      table.decimal :price, precision: 10, scale: 2, comment: "in euros"
      table.unique_constraint [:price, :author_id], name: "unique_price"
      table.timestamps
    end
  end

  def models
    authors = Class.new(ActiveRecord::Base) { self.table_name = "authors" }
    books = Class.new(ActiveRecord::Base) { self.table_name = "books" }
    self.class.const_set(:Author, authors)
    self.class.const_set(:Book, books)
    authors.has_many :books, class_name: books.name, foreign_key: :author_id
    books.belongs_to :author, class_name: authors.name
    [authors, books]
  end

  def schema_queries
    %w[authors books].each do |table|
      %i[columns indexes foreign_keys check_constraints exclusion_constraints unique_constraints primary_keys table_comment
        table_options pk_and_sequence_for table_exists? view_exists? inherited_table_names serial_sequence].each do |query|
        arguments = (query == :serial_sequence) ? [table, "id"] : [table]
        @connection.public_send(query, *arguments)
      end
    end
    %i[tables views data_sources foreign_tables enum_types extensions schema_names current_schemas current_schema current_database
      encoding collation ctype client_min_messages max_identifier_length].each { |query| @connection.public_send(query) }
    @connection.index_name_exists?("authors", "x")
    @connection.schema_exists?("public")
    @connection.extension_available?("hstore")
    @connection.extension_enabled?("hstore")
    @connection.foreign_table_exists?("authors")
    @connection.select_value("SHOW search_path")
    @connection.reload_type_map
  end

  def writes(author, book)
    author.insert_all([{name: "b"}, {name: "c"}])
    author.upsert_all([{name: "b", mood: "glad"}], unique_by: :name)
    author.insert({name: "b"}, returning: :id)
    author.where(name: "b").update_all("tags = array_append(tags, 'x'), name = upper(name)")
    author.first.update!(mood: "glad")
    author.first.touch
    book.create!(author: author.first, price: 1.5)
    book.where(price: 5).delete_all
    author.where(name: "c").destroy_all
    author.create_or_find_by!(name: "zz")
  end

  def reads(author, book)
    author.find(author.first.id)
    author.find_by(name: "a")
    author.exists?(name: "a")
    author.where(mood: %w[sad glad], name: "a".."c").order(:name).limit(2).offset(1).to_a
    author.joins(:books).includes(:books).references(:books).distinct.to_a
    author.left_outer_joins(:books).group(:name).having("count(*) > 0").count
    author.where(id: book.select(:author_id)).or(author.where("details @> ?", "{}")).pluck(:name, Arel.sql("lower(authors.name)"))
    author.with(recent: author.where("created_at > now() - interval '1 day'")).joins("JOIN recent ON recent.id = authors.id").to_a
    author.from(author.where(name: "a"), :authors).to_a
    author.in_batches(of: 1) { |batch| batch.pluck(:id) }
    author.find_each(batch_size: 1) { |one| one.id }
    author.average(:id)
    author.where("name ILIKE ?", "%a%").where.not(name: nil).maximum(:name)
    author.where("? = ANY(tags)", "x").explain.inspect
    author.where(name: "a").explain(:analyze, :verbose).inspect
    author.in_order_of(:name, %w[a b]).to_a
    author.select("*, row_number() over (partition by mood order by name) as n").to_a
    author.connection.select_all("SELECT * FROM unnest(ARRAY[1,2]) WITH ORDINALITY AS t(a, b)").to_a
  end

  def savepoints(author)
    author.transaction do
      author.transaction(requires_new: true) { author.create!(name: "s1") }
      author.transaction(requires_new: true) { author.create!(name: "s2") && raise(ActiveRecord::Rollback) }
    end
    author.transaction(isolation: :serializable) { author.create!(name: "s3") && raise(ActiveRecord::Rollback) }
  end

  def definitions
    @connection.add_column("authors", "age", :integer, default: 3, null: false)
    @connection.add_index("authors", "lower(name), age", name: "by_lower", where: "age > 1", using: :btree)
    @connection.add_index("authors", :age, algorithm: :concurrently, include: :name)
    @connection.change_column("authors", "age", :bigint)
    @connection.change_column_null("authors", "age", true)
    @connection.change_column_default("authors", "age", from: 3, to: 4)
    @connection.change_column_comment("authors", "age", "it's 'it'")
    @connection.rename_column("authors", "age", "years")
    @connection.remove_index("authors", name: "by_lower")
    @connection.add_check_constraint("authors", "years > 0", name: "old")
    @connection.remove_foreign_key("books", "authors")
    @connection.add_foreign_key("books", "authors", validate: false)
    @connection.validate_foreign_key("books", "authors")
    @connection.rename_table("books", "novels")
    @connection.create_schema("other")
    @connection.drop_schema("other")
    @connection.enable_extension("plpgsql")
    @connection.add_enum_value("mood", "so so")
    @connection.execute("TRUNCATE TABLE novels")
    @connection.create_join_table("authors", "novels")
    @connection.drop_table("novels", force: :cascade)
  end
end
