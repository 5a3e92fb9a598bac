# frozen_string_literal: true

# slow: it starts programs that load Active Record

require "test_helper"
require_relative "../support/database"

# `adapter: neverblock_postgis` on a real PostGIS. The gem changes Active Record for the whole process, so each test has
# a process.
class PostgresPostgisTest < Minitest::Test
  include NeverBlockTest::Database
  include NeverBlockTest::Helpers

  APP = <<~RUBY
    require "stringio"
    require "neverblock/active_record"
    require "neverblock/postgres/databases"
    LINES = []
    NeverBlock::Postgres::Databases.log = ->(line, _level) { LINES << line }
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    ActiveRecord::Schema.verbose = false
    NB = NeverBlock unless defined?(NB)

    class Place < ActiveRecord::Base; end

    def connect(adapter = "neverblock_postgis", **options)
      ActiveRecord::Base.establish_connection(adapter:, host: ARGV[0], port: ARGV[1], username: "postgres", database: ARGV[2], connections: 3, checkout_timeout: 60, application_name: "nb_postgis", **options)
    end

    def define_places
      ActiveRecord::Schema.define do
        create_table :places, force: true do |t|
          t.string :name
          t.st_point :at, geographic: true
          t.geometry :shape, srid: 3857
          t.line_string :way, srid: 4326, has_z: true
          t.index :at, using: :gist
        end
      end
      Place.reset_column_information
      give_back # definitions hold a connection
    end

    def give_back = ActiveRecord::Base.connection_handler.clear_active_connections!

    # The reason why its fiber has an exclusive connection after the block; nil: its statements were shared.
    def held_for
      give_back
      ActiveRecord::Base.with_connection { |connection| yield; connection.held_for }
    end
  RUBY

  def setup
    super
    skip "activerecord-postgis-adapter is not among the gems here" unless Gem.loaded_specs.key?("activerecord-postgis-adapter")
    skip "PostGIS is not installed (bin/setup installs it as root on Debian: postgresql-postgis)" if ask("select 1 from pg_available_extensions where name = 'postgis'").empty?
    @database = "nb_postgis_#{Process.pid}"
    ask("create database #{@database}")
    ask_there("create extension postgis")
  end

  def teardown
    ask("drop database if exists #{@database} with (force)") if @database
  end

  def test_spatial_columns_of_many_fibers
    assert_equal <<~TEXT, output(<<~RUBY)
      PostGIS 3.
      [["at", "geography(Point,4326)"], ["shape", "geometry(Geometry,3857)"], ["way", "geometry(LineStringZ,4326)"]]
      [true]
      ["POINT (3.0 4.0)", 4326, "LINESTRING (1.0 2.0 3.0, 4.0 5.0 6.0)", "POLYGON ((0.0 0.0, 0.0 9.0, 9.0 9.0, 9.0 0.0, 0.0 0.0))", 3857]
      ["3"]
      true
    TEXT
      connect
      NB.run do
        define_places
        Place.with_connection { |connection| puts connection.adapter_name + " " + connection.postgis_lib_version[0, 2] }
        p Place.columns.select(&:spatial?).map { |column| [column.name, column.sql_type] }
        NB.concurrently(1..60, limit: 60) { |n| Place.create!(name: n.to_s, at: "POINT(\#{n} \#{n + 1})") }
        p NB.concurrently(1..60, limit: 60) { |n| Place.find_by!(name: n.to_s).at.then { |point| [point.x, point.y] == [n, n + 1] } }.uniq
        three = Place.find_by!(name: "3")
        three.update!(way: "LINESTRING (1 2 3, 4 5 6)", shape: "POLYGON ((0 0, 0 9, 9 9, 9 0, 0 0))")
        p three.reload.then { |place| [place.at.to_s, place.at.srid, place.way.to_s, place.shape.to_s, place.shape.srid] }
        p Place.where(at: three.at).pluck(:name)
        p Place.with_connection { |connection| connection.select_value("select count(*) from pg_stat_activity where application_name = 'nb_postgis'") } <= 3
      end
    RUBY
  end

  # Operators and types of PostGIS are known, and its views of geometry columns; functions are not, until they are
  # named.
  def test_what_shares_connections
    assert_equal <<~TEXT, output(<<~RUBY)
      [nil, nil, nil]
      true
      ["a connection was held until check-in, and is reset"]
      [nil, ["2"]]
      [nil, [["1", 1.0], ["2", 2.0], ["3", 3.0]]]
    TEXT
      near = ->(n) { Place.where("ST_DWithin(at, 'POINT(\#{n} 0)'::geography, 100)").pluck(:name) }
      nearest = -> { Place.order(Arel.sql("at <-> 'POINT(0 0)'::geography")).pluck(:name) }
      touching = -> { Place.where("at && 'POLYGON((0 -1, 9 -1, 9 1, 0 1, 0 -1))'::geography").pluck(:name) }
      columns = -> { Place.lease_connection.select_rows("select f_geometry_column from geometry_columns") }
      connect
      NB.run do
        define_places
        3.times { |n| Place.create!(name: (n + 1).to_s, at: "POINT(\#{n + 1} 0)") }
      end
      LINES.clear
      NB.run do
        p [nearest, touching, columns].map { |read| held_for(&read) }
        p held_for { near.call(2) }.include?("ST_DWithin")
        give_back
      end
      p LINES.grep(/ST_DWithin/).map { |line| line[/.*reset/] }
      connect(shareable_functions: %w[st_dwithin st_x geometry])
      NB.run do
        names = nil
        p [held_for { names = near.call(2) }, names]
        p [held_for { names = Place.order(:name).pluck(:name, Arel.sql("ST_X(at::geometry(Point, 4326))")) }, names]
      end
    RUBY
  end

  # The types of an extension have new OIDs each time it is created.
  def test_types_whose_numbers_change
    assert_equal <<~TEXT, output(<<~RUBY)
      [["Point"], 30]
      [true, ["Point"], 30]
    TEXT
      connect
      NB.run do
        look = lambda do
          shapes = NB.concurrently(1..30, limit: 30) do |n|
            Place.with_connection do |connection|
              found = connection.select_all("select shape from places where name = 'here'").cast_values.first
              raise "not of its column" unless found.to_s == Place.find_by!(name: "here").shape.to_s
              found.geometry_type.type_name
            end
          end
          [shapes.uniq, shapes.size]
        end
        fill = -> { define_places && Place.create!(name: "here", shape: "POINT(1 2)") }
        fill.call
        p look.call
        number = -> { Place.with_connection { |connection| connection.select_value("select 'geometry'::regtype::oid") } }
        before = number.call
        drop_and_create = ["drop extension postgis cascade", "create extension postgis"]
        system(ENV.fetch("PSQL"), "-qX", "-h", ARGV[0], "-p", ARGV[1], "-U", "postgres", *drop_and_create.flat_map { |sql| ["-c", sql] }, ARGV[2], err: File::NULL) or raise "psql has failed"
        fill.call
        p [number.call != before, *look.call]
      end
    RUBY
  end

  def test_the_schema_is_dumped_and_loaded
    assert_equal <<~TEXT, output(<<~RUBY)
      ["enable_extension \\"postgis\\"", "t.geography \\"at\\"", "t.geometry \\"shape\\"", "t.geometry \\"way\\""]
      true
      [["index_places_on_at", :gist]]
    TEXT
      connect
      NB.run do
        define_places
        look = -> { Place.reset_column_information && Place.columns.map { |column| [column.name, column.sql_type, column.limit] } }
        before = look.call
        schema = StringIO.new
        ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection_pool, schema)
        p schema.string.scan(/enable_extension "postgis"|t\\.geo\\w+ "\\w+"/)
        Place.with_connection { |connection| connection.drop_table(:places) }
        eval(schema.string)
        p look.call == before
        p Place.with_connection { |connection| connection.indexes(:places).map { |index| [index.name, index.using] } }
      end
    RUBY
  end

  def test_transactions
    assert_equal <<~TEXT, output(<<~RUBY)
      [20, 10]
      [["7", 20]]
      true
    TEXT
      connect(shareable_functions: %w[st_point geometry])
      NB.run do
        define_places
        NB.concurrently(1..40, limit: 40) do |n|
          Place.transaction do
            Place.create!(name: "one", at: "POINT(\#{n} 0)")
            Place.transaction(requires_new: true) do
              Place.create!(name: "two", at: "POINT(\#{n} 0)")
              raise ActiveRecord::Rollback if n % 4 == 0
            end
            raise ActiveRecord::Rollback if n.odd?
          end
        end
        p %w[one two].map { |name| Place.where(name:).where("at && 'POLYGON((0 -1, 90 -1, 90 1, 0 1, 0 -1))'::geography").count }
        p [Place.with_connection { |connection| connection.with_settings("app.tenant" => 7) { [connection.select_value("select current_setting('app.tenant')"), Place.where(name: "one").count] } }]
        p Place.with_connection(&:held_for).nil?
      end
    RUBY
  end

  # Types of Rails, PostGIS and an app are registered by the name of the underlying adapter.
  def test_attribute_types
    assert_equal <<~TEXT, output(<<~RUBY)
      ["POINT (1.0 2.0)", ["a", "b"], "LOUD"]
    TEXT
      class Loud < ActiveRecord::Type::String
        def cast(value) = value&.upcase
      end
      ActiveRecord::Type.register(:loud, Loud, adapter: :postgis)
      connect
      NB.run do
        define_places
        class Place
          attribute :near, :st_point, srid: 4326
          attribute :tags, :string, array: true
          attribute :cry, :loud
        end
        p Place.new(near: "POINT(1 2)", tags: "{a,b}", cry: "loud").then { |place| [place.near.to_s, place.tags, place.cry] }
      end
    RUBY
  end

  # One database, two adapters: they share real connections, but not the knowledge of types.
  def test_beside_the_other_adapter
    assert_equal <<~TEXT, output(<<~RUBY)
      [String, RGeo::Geographic::SphericalPointImpl, String, RGeo::Geographic::SphericalPointImpl]
      true
    TEXT
      class Plain < ActiveRecord::Base
        self.table_name = "places"
        establish_connection(adapter: "neverblock_postgresql", host: ARGV[0], port: ARGV[1], username: "postgres", database: ARGV[2], connections: 3, checkout_timeout: 60, application_name: "nb_postgis")
      end
      connect
      NB.run do
        define_places
        Place.create!(name: "here", at: "POINT(1 2)")
        Warning.singleton_class.prepend(Module.new { def warn(*) = nil }) # about a type that the plain adapter doesn't know
        $stderr.reopen(File::NULL)
        kinds = [Plain, Place, Plain, Place].map { |model| NB.concurrently(1..10, limit: 10) { model.find_by!(name: "here").at.class }.uniq }
        p kinds.flatten
        p Place.with_connection { |connection| connection.select_value("select count(*) from pg_stat_activity where application_name = 'nb_postgis'") } <= 3
      end
    RUBY
  end

  # As in docs/postgres.md.
  def test_an_adapter_of_the_app
    assert_equal <<~TEXT, output(<<~RUBY)
      ["Shop", "shop", true, nil, 3]
      ["POINT (1.0 2.0)", 9]
      ActiveRecord::Tasks::PostgreSQLDatabaseTasks
    TEXT
      require "neverblock/active_record/shares_connections"
      require "activerecord-postgis-adapter"
      require "active_record/connection_adapters/postgis_adapter"
      class ShopAdapter < ActiveRecord::ConnectionAdapters::PostGISAdapter
        include NeverBlock::SharesConnections
        ADAPTER_NAME = "Shop"
        def default_srid = 9
      end
      NeverBlock::ActiveRecordAdapters.register("shop", "ShopAdapter", "shop_adapter", types_of: "postgis")
      ENV["DATABASE_URL"] = "shop://postgres@localhost/\#{ARGV[2]}?host=\#{ARGV[0]}&port=\#{ARGV[1]}&connections=3"
      ActiveRecord::Base.configurations = {}
      ActiveRecord::Base.establish_connection(:default_env)
      NB.run do
        define_places
        class Place
          attribute :near, :st_point, srid: 4326
        end
        NB.concurrently(1..20, limit: 20) { |n| Place.create!(name: n.to_s) }
        p Place.with_connection { |connection| [connection.adapter_name, Place.connection_db_config.adapter, connection.is_a?(NeverBlock::SharesConnections), ActiveRecord::Base.connection_pool.size, Place.connection_db_config.configuration_hash[:connections].to_i] }
        p [Place.new(near: "POINT(1 2)").near.to_s, Place.with_connection(&:default_srid)]
      end
      p ActiveRecord::Tasks::DatabaseTasks.send(:class_for_adapter, "shop")
    RUBY
  end

  # They look for a file by the adapter's name.
  def test_gems_that_go_by_its_name
    skip "these gems are not here" unless %w[activerecord-import ros-apartment].all? { |gem| Gem.loaded_specs.key?(gem) }
    assert_equal <<~TEXT, output(<<~RUBY)
      [20, "POINT (7.0 8.0)"]
      Apartment::Adapters::PostgresqlAdapter
    TEXT
      require "activerecord-import"
      require "apartment"
      connect
      NB.run do
        define_places
        Place.import!(Array.new(20) { |n| Place.new(name: n.to_s, at: "POINT(7 8)") })
        p [Place.count, Place.first.at.to_s]
      end
      p Apartment::Tenant.adapter.class
    RUBY
  end

  private

  # @return [String] psql's output
  def ask_there(sql) = NeverBlockTest::Database.server.query(sql, database: @database)

  def output(code)
    server = NeverBlockTest::Database.server
    outcome = run_ruby("ARGV.replace(#{[server.folder, server.port.to_s, @database].inspect})\n#{APP}\n#{code}", gems: true, environment: {"PSQL" => server.program("psql")})
    assert outcome.status.success?, outcome.stderr + outcome.stdout
    outcome.stdout
  end
end
