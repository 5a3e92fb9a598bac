# frozen_string_literal: true

# slow: it runs programs until they are compiled

require "test_helper"
require_relative "../support/postgres"

# Repeated operations must not make YJIT discard compiled code: that costs more than the operation itself, and the
# recompiled code fills up its memory for good. An object that was extended each time was enough.
class YjitTest < Minitest::Test
  include NeverBlockTest::Helpers

  TIMES = 500

  # Bytes of code compiled in the second half of twice as many operations, occasionally; code that was compiled each
  # time took 200.
  FEW = TIMES * 100

  WATCH = <<~RUBY
    $stdout.sync = true
    def code = RubyVM::YJIT.runtime_stats.fetch(:code_region_size)
    def watch(name)
      #{TIMES}.times { yield }
      before = code
      #{TIMES}.times { yield }
      puts "\#{name}: \#{code - before}"
    end
  RUBY

  RUNTIME = <<~RUBY
    require "neverblock"
    require "net/http"
    require "neverblock/server"
    app = lambda do |env|
      case env["PATH_INFO"]
      when "/fails" then raise "fails"
      when "/each" then [200, {}, Enumerator.new { |body| 3.times { body << "x" } }]
      else [200, {"content-type" => "text/plain"}, [env["rack.input"].read]]
      end
    end
    server = NeverBlock::Server.new(app, bind: "tcp://127.0.0.1:0", error_log: File.open(File::NULL, "w")).start
    port = server.addresses.first[/\\d+\\z/]
    NeverBlock.run do |scope|
      watch("a task") { scope.spawn { 1 }.value }
      watch("a cancelled task") { scope.spawn { sleep }.tap { NB.pass }.cancel && NB.pass }
      watch("a timeout") { NB.timeout(0.0001) { sleep } rescue nil }
      watch("a scope that fails") { NB.concurrently([1, 2]) { raise "fails" } rescue $!.errors }
      watch("a race") { NB.race(-> { sleep }, -> { 1 }) }
      watch("an offloaded block") { NB.offload { 1 } }
      watch("a queue") { Thread::Queue.new.tap { |queue| scope.spawn { queue << 1 } }.pop }
      Net::HTTP.start("127.0.0.1", port) do |http|
        watch("a request") { http.post("/", "body", "content-type" => "text/plain").body }
        watch("a request that fails") { http.get("/fails").body }
        watch("a body of parts") { http.get("/each").body }
      end
    end
    server.stop
  RUBY

  DATABASE = <<~RUBY
    require "neverblock/postgres"
    require "neverblock/active_record"
    require "sequel"
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", url: ENV.fetch("URL"), connections: 2)
    class Item < ActiveRecord::Base; end
    database = NeverBlock::Postgres.new(ENV.fetch("URL"), connections: 2, log: ->(_line) {})
    sequel = Sequel.connect(ENV.fetch("URL").sub("postgresql", "neverblock-postgres"), max_connections: 2)
    NeverBlock.run do
      watch("a statement") { database.exec("select $1::int", [1]) }
      watch("a transaction") { database.transaction { |connection| connection.exec("select 1") } }
      watch("BEGIN by hand") { database.connect { |connection| %w[BEGIN COMMIT].each { |sql| connection.exec(sql) } } }
      watch("a setting") { database.connect { |connection| connection.exec("set statement_timeout to 500") } }
      watch("Active Record: a row") { Item.first }
      watch("Active Record: a new row") { Item.create!(number: 1) }
      watch("Active Record: a transaction") { Item.transaction { Item.first && raise(ActiveRecord::Rollback) } }
      watch("Sequel: a row") { sequel[:items].first }
      watch("Sequel: a transaction") { sequel.transaction { sequel[:items].insert(number: 1) } }
    end
  RUBY

  def setup = (skip "this Ruby has no YJIT" unless defined?(RubyVM::YJIT))

  def test_the_runtime_and_the_server = assert_few(RUNTIME, 10)

  def test_the_database
    reason = NeverBlockTest::PostgresServer.missing and skip reason
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    NeverBlockTest::PostgresServer.open do |server|
      server.query("create table items (id serial primary key, number int)")
      assert_few(DATABASE, 9, environment: {"URL" => server.url})
    end
  end

  private

  def assert_few(code, scenes, **)
    counts = assert_ruby(WATCH + code, gems: true, options: %w[--yjit], **).scan(/^(.+): (\d+)$/).to_h { |name, count| [name, count.to_i] }
    assert_equal scenes, counts.size, counts.inspect
    assert_empty counts.select { |_, count| count > FEW }
  end
end
