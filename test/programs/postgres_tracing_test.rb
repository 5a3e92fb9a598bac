# frozen_string_literal: true

# slow: it starts programs that load Active Record

require "test_helper"
require_relative "../support/database"

# Tracers prepend modules to PG::Connection: each call of an application passes them once, on whatever connection it is
# sent. They do so for the whole process, so each test has a process.
class PostgresTracingTest < Minitest::Test
  include NeverBlockTest::Database
  include NeverBlockTest::Helpers

  GEMFILE = File.join(NeverBlockTest::ROOT, "test", "apps", "tracing.gemfile")

  # As tracers do.
  TRACER = <<~RUBY
    CALLS = []
    TRACER = Module.new do
      %i[exec query exec_params prepare exec_prepared].flat_map { |name| [name, :"async_\#{name}", :"sync_\#{name}"] }.intersection(PG::Connection.instance_methods).each do |name|
        define_method(name) do |text, *more, &block|
          CALLS << "\#{name} \#{text} at \#{db}"
          super(text, *more, &block)
        end
      end
    end
    def calls
      yield
    rescue PG::Error => error
      CALLS << error.class.name
    ensure
      puts CALLS.map { |call| call.delete_suffix(" at postgres") }.join(" | ")
      CALLS.clear
    end
  RUBY

  STATEMENTS = <<~RUBY
    database = NeverBlock::Postgres.new(ARGV[0], connections: 3, log: ->(_line) {})
    NeverBlock.run do
      calls { database.exec("select 1") }
      calls { database.exec("select $1::int", [2]) }
      calls { NeverBlock.concurrently(1..4, limit: 4) { database.exec("select 3") } }
      calls { database.exec("select 4", retry: true) }
      calls { database.exec("select nonsense") }
      calls { database.exec("set work_mem = '8MB'; select 5") }
      calls { database.transaction { |connection| connection.exec_params("select 6") } }
      database.connect do |connection|
        calls { connection.exec("select $1::int", [7]) }
        calls { connection.async_exec("select 8") { |result| result.ntuples } }
        calls { connection.prepare("nine", "select 9::int + $1::int") }
        calls { connection.exec_prepared("nine", [1]) }
        calls { connection.describe_prepared("nine") }
        calls { connection.exec("select 9; select 10") }
        calls { connection.transaction { |inner| inner.query("select 11") } }
        calls { connection.copy_data("copy (select 12) to stdout") { nil while connection.get_copy_data } }
        calls { connection.exec("select 13") }
        calls { connection.send_query("select 14") && connection.get_last_result }
      end
    end
    calls { database.exec("select 15") }
  RUBY

  EXPECTED = <<~TEXT
    exec select 1
    exec_params select $1::int
    exec select 3 | exec select 3 | exec select 3 | exec select 3
    exec select 4
    exec select nonsense | PG::UndefinedColumn
    exec set work_mem = '8MB'; select 5
    exec BEGIN | exec_params select 6 | exec COMMIT
    exec select $1::int
    async_exec select 8
    prepare nine
    exec_prepared nine

    exec select 9; select 10
    exec BEGIN | query select 11 | exec COMMIT
    exec copy (select 12) to stdout
    exec select 13

    exec select 15
  TEXT

  def test_each_call_goes_through_a_tracer_once
    {"before" => ["PG::Connection.prepend(TRACER)", ""], "after" => ["", "PG::Connection.prepend(TRACER)"]}.each do |time, (before, after)|
      output = assert_ruby("require %(pg)\n#{TRACER}\n#{before}\nrequire %(neverblock/postgres)\n#{after}\n#{STATEMENTS}".sub("ARGV[0]", url.dump), gems: true)
      assert_equal EXPECTED, output, "installed #{time} NeverBlock was loaded"
    end
  end

  # The module prepended last is the outermost; open connections have it too.
  def test_several_tracers
    assert_equal <<~TEXT, assert_ruby(<<~RUBY, gems: true)
      exec select 1
      exec select 2 | exec select 2
      exec select 3; select 4 | exec select 3; select 4
    TEXT
      require "neverblock/postgres"
      #{TRACER}
      PG::Connection.prepend(TRACER)
      PG::Connection.prepend(Module.new { def host = super }) # it has nothing to do with statements
      database = NeverBlock::Postgres.new(#{url.dump}, connections: 3, log: ->(_line) {})
      NeverBlock.run do
        database.connect do |connection|
          calls { connection.exec("select 1") }
          PG::Connection.prepend(TRACER.dup)
          database.connect { nil }
          calls { connection.exec("select 2") }
          calls { connection.exec("select 3; select 4") }
        end
      end
    RUBY
  end

  def test_sequel
    skip "sequel is not among the gems here" unless Gem.loaded_specs.key?("sequel")
    server = NeverBlockTest::Database.server
    assert_equal <<~TEXT, assert_ruby(<<~RUBY, gems: true)
      async_exec SELECT 1 AS "v" LIMIT 1
      async_exec BEGIN | async_exec SELECT 2 AS "v" LIMIT 1 | async_exec COMMIT
    TEXT
      require "sequel"
      require "neverblock/postgres"
      #{TRACER}
      PG::Connection.prepend(TRACER)
      DB = Sequel.connect(adapter: :neverblock_postgres, host: #{server.folder.dump}, port: #{server.port}, user: "postgres", database: "postgres", connections: 3)
      NeverBlock.run do
        DB.get(1)
        CALLS.clear
        calls { DB.get(1) }
        calls { DB.transaction { DB.get(2) } }
      end
    RUBY
  end

  OPEN_TELEMETRY = <<~RUBY
    ENV["OTEL_TRACES_EXPORTER"] = "none"
    require "logger"
    require "active_record"
    require "neverblock/active_record"
    require "neverblock/postgres"
    require "opentelemetry/sdk"
    require "opentelemetry-instrumentation-pg"
    require "opentelemetry-instrumentation-active_record"
    SPANS = OpenTelemetry::SDK::Trace::Export::InMemorySpanExporter.new
    OpenTelemetry.logger = Logger.new(File::NULL)
    OpenTelemetry::SDK.configure do |config|
      config.logger = OpenTelemetry.logger
      config.add_span_processor(OpenTelemetry::SDK::Trace::Export::SimpleSpanProcessor.new(SPANS))
      config.use "OpenTelemetry::Instrumentation::PG", {db_statement: :include}
      config.use "OpenTelemetry::Instrumentation::ActiveRecord"
    end
    TRACER = OpenTelemetry.tracer_provider.tracer("test")
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    ActiveRecord::Schema.verbose = false
    class Item < ActiveRecord::Base; end
    def connect(server) = ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", **server, username: "postgres", database: "postgres", connections: 3, checkout_timeout: 60)

    # The spans within one span, each with its ancestors, its statement, and its error.
    def spans(name = "request", &block)
      SPANS.reset
      TRACER.in_span(name, &block)
      found = SPANS.finished_spans
      ids = found.to_h { |span| [span.span_id, span] }
      found.filter_map do |span|
        next unless (sql = span.attributes["db.statement"]) && span.name != "PREPARE postgres" # which adapter a fiber gets is chance
        raise "no peer" unless span.attributes["net.peer.name"] && span.attributes["db.name"] == "postgres" && span.kind == :client
        way = [span.name]
        way << span.name while (span = ids[span.parent_span_id])
        [way.join(" < "), sql.delete('"'), *("error" if ids.values.any? { |one| one.attributes["db.statement"] == sql && one.status.code == 2 })]
      end
    end
  RUBY

  # With the real gems: statements are in the span of the fiber that runs them, though one fiber sends those of all.
  def test_open_telemetry
    skip "bin/setup has not installed test/apps/tracing.gemfile" unless File.exist?("#{GEMFILE}.lock")
    server = NeverBlockTest::Database.server
    outcome = run_ruby(<<~RUBY, gems: true, environment:, options: ["-rbundler/setup"])
      #{OPEN_TELEMETRY}
      connect(host: #{server.folder.dump}, port: #{server.port})
      NeverBlock.run do
        ActiveRecord::Schema.define { create_table(:items, force: true) { |t| t.string :name } }
        Item.create!(name: "one")
        NeverBlock.concurrently(1..10, limit: 10) { Item.where(name: "one").to_a && Item.find(1) }
        puts "find", spans { Item.find(1) }.map { |span| span.join(": ") }
        puts "transaction", spans { Item.transaction { Item.create!(name: "two") } }.map { |span| span.join(": ") }
        puts "error", spans { Item.where("nonsense = 1").to_a rescue nil }.map { |span| span.join(": ") }
        found = spans { NeverBlock.concurrently(1..10, limit: 10) { |n| TRACER.in_span("fiber \#{n}") { Item.find(1) } } }
        p found.count { |way, _| way.match?(/\\AEXECUTE postgres < Item query < fiber \\d+\\z/) }, found.map(&:first).uniq.size
        puts "pipeline", spans { NeverBlock.pipeline(-> { Item.find(1) }, -> { Item.count }) }.map { |span| span.join(": ") }
        ActiveRecord::Base.asynchronous_queries_tracker.start_session
        puts "load_async", spans { [Item.where(name: "one").load_async, Item.async_count].each { |one| one.respond_to?(:value) ? one.value : one.to_a } }.map { |span| span.join(": ") }.sort
        database = NeverBlock::Postgres.new(#{url.dump}, connections: 3, log: ->(_line) {})
        puts "without an ORM", spans { database.exec("select $1::int", [1]) }.map { |span| span.join(": ") }
        Item.lease_connection.drop_table(:items)
        Item.lease_connection.drop_table(:schema_migrations)
        Item.lease_connection.drop_table(:ar_internal_metadata)
      end
    RUBY
    assert outcome.status.success?, outcome.stderr
    assert_equal <<~TEXT, outcome.stdout
      find
      EXECUTE postgres < Item query < request: SELECT items.* FROM items WHERE items.id = $1 LIMIT $2
      transaction
      BEGIN postgres < Item#save! < Item.create! < ActiveRecord.transaction < request: BEGIN
      INSERT postgres < Item#save! < Item.create! < ActiveRecord.transaction < request: INSERT INTO items (name) VALUES ($1) RETURNING id
      COMMIT postgres < ActiveRecord.transaction < request: COMMIT
      error
      SELECT postgres < Item query < request: SELECT items.* FROM items WHERE (nonsense = 1): error
      10
      10
      pipeline
      EXECUTE postgres < Item query < request: SELECT items.* FROM items WHERE items.id = $1 LIMIT $2
      SELECT postgres < request: SELECT COUNT(*) FROM items
      load_async
      EXECUTE postgres < Item query < request: SELECT items.* FROM items WHERE items.name = $1
      SELECT postgres < request: SELECT COUNT(*) FROM items
      without an ORM
      SELECT postgres < request: select $1::int
    TEXT
  end

  # Datadog's context, which is an object in a fiber-local variable. (The gem is too large for a bundle of the tests.)
  def test_fibers_of_a_pipeline_have_no_context_of_datadogs_in_common
    assert_equal <<~TEXT, assert_ruby(<<~RUBY, gems: true)
      [["1", nil, "digest"], ["2", nil, "digest"]]
      [["1", nil, nil], ["2", nil, nil]]
    TEXT
      require "neverblock/postgres"
      module Datadog
        module Tracing
          Trace = Struct.new(:to_digest)
          class << self
            attr_accessor :active_trace

            def continue_trace!(digest)
              Thread.current[:continued] = digest
              yield
            end
          end
        end
      end
      database = NeverBlock::Postgres.new(#{url.dump}, connections: 3, log: ->(_line) {})
      NeverBlock.run do
        Thread.current[:datadog_context_1] = Object.new
        ask = ->(n) { -> { [database.exec("select \#{n}").getvalue(0, 0), Thread.current[:datadog_context_1], Thread.current[:continued]] } }
        Datadog::Tracing.active_trace = Datadog::Tracing::Trace.new("digest")
        p NeverBlock.pipeline(ask.call(1), ask.call(2))
        Datadog::Tracing.active_trace = nil
        p NeverBlock.pipeline(ask.call(1), ask.call(2))
      end
    RUBY
  end

  private

  def environment
    {"BUNDLE_GEMFILE" => GEMFILE, "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => File.join(NeverBlockTest::ROOT, "vendor", "bundle"), "BUNDLE_VERSION" => "system", "RUBYOPT" => nil, "RUBYLIB" => nil, "NEVERBLOCK_TALLY" => nil}
  end
end
