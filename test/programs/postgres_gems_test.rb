# frozen_string_literal: true

# slow: it starts programs that load Active Record

require "test_helper"
require_relative "../support/postgres"

# Gems that depend on the adapter's name find their support for PostgreSQL.
class PostgresGemsTest < Minitest::Test
  include NeverBlockTest::Helpers

  APP = <<~RUBY
    require "active_record"
    require "neverblock/active_record"
    require "neverblock/postgres/databases"
    NeverBlock::Postgres::Databases.log = ->(*) {} # would log the statements that connections were held for
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    def in_loop(url)
      ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", url: nil, host: url[/host=([^&]+)/, 1], port: url[/port=(\\d+)/, 1], username: "postgres", database: "postgres", connections: 4)
      ActiveRecord::Base.with_connection { |connection| ["", "shop_1.", "shop_2."].each { |schema| connection.execute("create table \#{schema}items (id bigserial primary key, name text unique, price int)") } }
      NeverBlock.run { yield }
    end
    class Item < ActiveRecord::Base; end
  RUBY

  IMPORT = <<~RUBY
    require "activerecord-import"
    in_loop(ARGV.first) do
      statements = 0
      ActiveSupport::Notifications.subscribe("sql.active_record") { |event| statements += 1 if event.payload[:sql].start_with?("INSERT") }
      NeverBlock.concurrently(1..10, limit: 10) do |n|
        items = Array.new(20) { |m| Item.new(name: "\#{n} \#{m}", price: m) }
        Item.import!(items)
        items.all?(&:id) or raise "no ids"
        Item.import!(items.map { |item| {name: item.name, price: 7} }, on_duplicate_key_update: {conflict_target: [:name], columns: [:price]})
      end
      puts [Item.count, Item.distinct.pluck(:price), statements].inspect
    end
  RUBY

  APARTMENT = <<~RUBY
    require "apartment"
    Apartment.configure do |config|
      config.use_schemas = true
      config.tenant_names = %w[shop_1 shop_2]
    end
    in_loop(ARGV.first) do
      NeverBlock.concurrently(1..40, limit: 40) do |n|
        tenant = "shop_\#{n % 2 + 1}"
        Apartment::Tenant.switch(tenant) do
          Item.create!(name: n.to_s)
          NeverBlock.pass
          names = Item.pluck(:name)
          names.include?(n.to_s) && names.all? { |name| name.to_i % 2 == n % 2 } or raise "\#{tenant} has \#{names}"
        end
      ensure
        ActiveRecord::Base.connection_handler.clear_active_connections! # as Rails does after each request
      end
      puts [Item.count, *%w[shop_1 shop_2].map { |tenant| Apartment::Tenant.switch(tenant) { Item.count } }].inspect
    end
  RUBY

  def setup
    reason = NeverBlockTest::PostgresServer.missing || ("these gems are not here" unless %w[activerecord-import ros-apartment].all? { |gem| Gem.loaded_specs.key?(gem) })
    skip reason if reason
  end

  # One INSERT for a whole import; the second import uses ON CONFLICT.
  def test_activerecord_import = assert_equal("[200, [7], 20]", output(IMPORT))

  def test_apartment = assert_equal("[0, 20, 20]", output(APARTMENT))

  private

  def output(code)
    NeverBlockTest::PostgresServer.open do |postgres|
      %w[shop_1 shop_2].each { |schema| postgres.query("create schema #{schema}") }
      assert_ruby("ARGV << #{postgres.url.dump}\n#{APP}\n#{code}", gems: true).strip
    end
  end
end
