# frozen_string_literal: true

require "test_helper"
require_relative "../../../support/delay_proxy"
require_relative "../../../support/shard_databases"
require_relative "../../../support/sharded_records"
require "tmpdir"

# NeverBlock::Shards over the shards of `connects_to`, and role and shard of child fibers.
class PostgresActiveRecordShardsTest < Minitest::Test
  include NeverBlockTest::ShardDatabases
  include NeverBlockTest::ShardedRecords

  DEADLINE = 3 # seconds, in which a slow machine answers too

  def setup
    super
    connect
  end

  def teardown
    disconnect if @base
    super
  end

  # -- all shards

  def test_each_shard_is_asked
    in_loop do
      assert_equal({eu: "nb_eu", us: "nb_us", asia: "nb_asia"}, databases)
      assert_equal({us: "nb_us"}, databases(only: "us"))
      assert_equal %i[eu writing], here, "the caller's"
      @base.connected_to(shard: :asia) { assert_equal [%w[nb_eu nb_us nb_asia], "nb_asia"], [databases.values, database] }
    end
  end

  def test_relations_are_loaded_on_their_shard
    NAMES.each { |name| on_shard(name, "insert into orders (name) values ('#{name} 1'), ('#{name} 2')") }
    in_loop do
      found = NB::Shards.map(@base) { @items.order(:id) }
      assert_equal({eu: ["eu 1", "eu 2"], us: ["us 1", "us 2"], asia: ["asia 1", "asia 2"]}, found.transform_values { |relation| relation.map(&:name) })
      assert_equal "us 2", NB::Shards.first(@items) { @items.find_by(name: "us 2") }.name
      assert_nil NB::Shards.first(@items) { @items.find_by(name: "mars") }
    end
  end

  def test_the_fibers_connections_are_given_back
    in_loop do
      databases(:lease)
      assert_equal [0, 0, 0], NAMES.map { |shard| @base.connected_to(shard:) { @base.connection_pool.connections.count(&:in_use?) } }
    end
  end

  slow "it waits for a deadline"
  def test_a_dead_and_a_silent_one_cost_an_error_each
    connect(:eu, :dead, :silent, :us)
    in_loop do
      databases(only: :eu)
      started = now
      values = hush { databases(timeout: DEADLINE, partial: true) }
      assert_equal [{eu: "nb_eu", us: "nb_us"}, %i[dead silent]], [values, values.errors.keys.sort]
      assert_kind_of ActiveRecord::ConnectionNotEstablished, values.errors[:dead]
      assert_kind_of NeverBlock::TimeoutError, values.errors[:silent]
      assert_operator now - started, :<, DEADLINE + 10
      error = assert_raises(NB::Shards::Incomplete) { databases(only: %i[us dead]) }
      assert_match(/\AShards\.map: 1 of 2 shards failed: :dead: .*127\.0\.0\.1.* \(ActiveRecord::DatabaseConnectionError\)\./, error.message)
    end
  end

  # A rollback there waits for the end of a statement, of which the server says nothing.
  slow "it waits for a deadline, and the grace after it"
  def test_a_network_that_falls_silent_amid_a_transaction
    reason = NeverBlockTest::DelayProxy.missing and skip reason
    NeverBlockTest::DelayProxy.open(to: NeverBlockTest::Database.server.socket) do |proxy|
      silent = {**configuration(:us), host: "127.0.0.1", port: proxy.port}
      connect_to({eu: {writing: configuration(:eu)}, us: {writing: silent}})
      in_loop do
        databases
        started = now
        errors = NB::Shards.each(@base, timeout: DEADLINE, partial: true) do |shard|
          @items.transaction do
            @items.create!(name: shard)
            proxy.silence if shard == :us
            @items.count
          end
        end
        assert_equal [:us], errors.keys
        assert_kind_of NeverBlock::TimeoutError, errors[:us]
        assert_operator now - started, :<, DEADLINE + 10
        proxy.resume
        pass_until("the end of the transaction") { running(:us).zero? }
        assert_equal({eu: ["eu"], us: [], asia: []}, orders)
      end
    end
  end

  slow "Active Record and the pool try to connect more than once"
  def test_a_write_is_made_once_and_on_its_own_shard
    connect(:eu, :us, :asia, :dead)
    on_shard(:us, "insert into orders (name) values ('here')")
    in_loop do
      errors = NB::Shards.each(@base, partial: true) { @items.transaction { @items.create!(name: "here") } }
      assert_equal %i[dead us], errors.keys.sort
      assert_kind_of ActiveRecord::ConnectionNotEstablished, errors[:dead]
      assert_kind_of ActiveRecord::RecordNotUnique, errors[:us]
      assert_equal NAMES.to_h { |name| [name, ["here"]] }, orders
      @base.connected_to(shard: :dead) do
        assert_raises(ActiveRecord::ConnectionNotEstablished) { NB.spawn { @items.create!(name: "dead") }.value }
        assert_raises(ActiveRecord::ConnectionNotEstablished) { @items.create!(name: "dead") }
      end
      assert_equal NAMES.to_h { |name| [name, ["here"]] }, orders
    end
  end

  def test_losers_of_first_are_cancelled_in_the_database
    in_loop do
      won = NB::Shards.first(@base) do |shard|
        case shard
        when :eu then sql("select pg_sleep(60)")
        when :asia then @items.transaction { @items.create!(name: "lost") && sql("select pg_sleep(60)") }
        else
          pass_until("the losers to run") { running(:eu) == 1 && running(:asia) == 1 }
          database
        end
      end
      assert_equal "nb_us", won
      pass_until("the losers' statements to end") { running(:eu).zero? && running(:asia).zero? }
      assert_equal [[], %i[eu writing]], [orders.values.flatten, here]
      assert_equal %w[nb_eu nb_us nb_asia], databases.values
    end
  end

  # -- replicas

  def test_reads_of_replicas
    in_loop do
      assert_equal({eu: "reading eu", us: "reading us", asia: "reading asia"}, NB::Shards.map(@base, role: :reading) { sql("show application_name") })
      values = NB::Shards.each(@base, role: :reading, partial: true) { @items.create!(name: "no") }
      assert_equal [ActiveRecord::ReadOnlyError], values.values.map(&:class).uniq
      @base.connected_to(role: :reading) do
        assert_equal [["reading eu", true]] * 2, [setting, NB.spawn { setting }.value]
        assert_equal({us: ["reading us", true]}, NB::Shards.map(@base, only: :us) { setting })
        assert_equal [application, false], NB::Shards.map(@base, only: :us, role: :writing) { setting }[:us]
      end
      @base.while_preventing_writes { assert_equal [true], NB::Shards.map(@base) { @base.current_preventing_writes }.values.uniq }
      assert_equal [[]], orders.values.uniq
    end
  end

  # As in a job, or on Puma.
  def test_outside_of_a_loop
    on_thread do
      @base.connected_to(role: :reading, shard: :asia) do
        assert_equal [["reading us", true], ["reading asia", true]], NB::Shards.map(@base, only: %i[us asia]) { setting }.values
        assert_equal [%i[asia reading]] * 2, [here, NB.run { NB.spawn { here }.value }]
      end
      assert_equal %w[nb_eu nb_us nb_asia], databases.values
    end
  end

  # -- child fibers

  def test_child_fibers_use_their_parent_s_shard
    in_loop do
      @base.connected_to(shard: :us) do
        assert_equal ["nb_us"] * 3, NB.concurrently(1..3) { database }
        NB.spawn { @items.create!(name: "child's") }.value
        assert_equal 1, @items.async_count.value
      end
      gate = Thread::Queue.new
      late = @base.connected_to(shard: :asia) { NB.spawn { gate.pop && @items.create!(name: "late") } }
      gate << 1
      late.value
      assert_equal({eu: [], us: ["child's"], asia: ["late"]}, orders)
    end
  end

  # -- what is refused

  def test_an_unknown_shard_is_refused_with_the_known_ones
    in_loop do
      error = assert_raises(NeverBlock::ConfigurationError) { databases(only: %i[eu mars]) }
      assert_equal "only: :mars is not a shard of #{@base.name}. Known shards: :eu, :us, :asia", error.message
      error = assert_raises(ActiveRecord::ConnectionNotEstablished) { @base.connected_to(shard: :mars) { NB.spawn { @items.create!(name: "x") }.value } }
      assert_match(/'mars' shard/, error.message)
      assert_equal [[]], orders.values.uniq
    end
  end

  def test_an_unknown_role_is_refused_with_the_known_ones
    in_loop do
      error = assert_raises(NeverBlock::ConfigurationError) { databases(role: :archive) }
      assert_equal "role: :archive is not a role of the shard :eu of #{@base.name}. Its roles: :writing, :reading", error.message
    end
  end

  def test_a_prohibition_is_honoured
    in_loop do
      @base.connected_to(shard: :us) do
        @base.prohibit_shard_swapping do
          [-> { databases }, -> { NB.spawn { databases }.value }, -> { databases(only: :us) }].each do |ask|
            assert_match(/\AShards\.map: shard swapping is prohibited here/, assert_raises(ArgumentError, &ask).message)
          end
          assert_raises(ArgumentError) { NB.spawn { @base.connected_to(shard: :eu) { flunk } }.value }
          assert_equal "nb_us", NB.spawn { database }.value
        end
      end
      assert_equal 3, databases.size
      swaps = NB::Shards.map(@base) { |shard| @base.prohibit_shard_swapping { NB.spawn { [database, (@base.connected_to(shard: :eu) { 1 } rescue 2)] }.value } } # standard:disable Style/RescueModifier
      assert_equal [["nb_eu", 2], ["nb_us", 2], ["nb_asia", 2]], swaps.values
    end
  end

  def test_state_by_thread_is_refused
    ActiveSupport::IsolatedExecutionState.isolation_level = :thread
    error = assert_raises(NeverBlock::ConfigurationError) { databases }
    assert_match(/isolation level is :thread, .* to :fiber\z/, error.message)
  end

  def test_a_class_without_a_connection_is_refused
    other = self.class.const_set(:Unconnected, Class.new(ActiveRecord::Base) do
      self.abstract_class = true
      self.connection_class = true
    end)
    other.connection_specification_name = "nowhere"
    assert_match(/Unconnected has no connection/, assert_raises(NeverBlock::ConfigurationError) { NB::Shards.map(other) { flunk } }.message)
  ensure
    self.class.send(:remove_const, :Unconnected)
  end

  # -- shards of all classes, and other adapters

  # Rails connects :default to the first database, whether or not that is one of the shards.
  def test_without_a_class_it_asks_those_of_active_record_base
    primary = configuration(:eu)
    ActiveRecord::Base.configurations = {"default_env" => {"primary" => primary, "second" => configuration(:us)}}
    ActiveRecord::Base.establish_connection(:primary)
    in_loop do
      assert_equal({default: "nb_eu"}, NB::Shards.map { ActiveRecord::Base.with_connection { |connection| connection.select_value("select current_database()") } })
      {copy: :primary, us: :second}.each do |shard, config|
        ActiveRecord::Base.connected_to(shard:) { ActiveRecord::Base.establish_connection(config) }
      end
      assert_equal({copy: "nb_eu", us: "nb_us"}, NB::Shards.map { ActiveRecord::Base.with_connection { |connection| connection.select_value("select current_database()") } })
    end
  ensure
    ActiveRecord::Base.configurations = {}
  end

  # The shards of ApplicationRecord, whatever its name. Rails has connected :default before.
  def test_without_a_class_it_asks_those_of_the_primary_abstract_class
    ActiveRecord::Base.establish_connection(configuration(:asia))
    primary = self.class.const_set(:Primary, Class.new(ActiveRecord::Base) { primary_abstract_class })
    order = self.class.const_set(:PrimaryOrder, Class.new(primary) { self.table_name = "orders" })
    primary.connects_to(shards: {eu: {writing: configuration(:eu)}, us: {writing: configuration(:us)}})
    in_loop do
      NB::Shards.each { |shard| order.create!(name: shard) }
      assert_equal({eu: ["eu"], us: ["us"]}, NB::Shards.map { order.pluck(:name) })
      assert_equal({us: "nb_us"}, NB::Shards.map(order, only: :us) { order.with_connection { |connection| connection.select_value("select current_database()") } })
      assert_equal({eu: ["eu"], us: ["us"], asia: []}, orders)
    end
  ensure
    ActiveRecord.application_record_class = nil
    %i[Primary PrimaryOrder].each { |name| self.class.send(:remove_const, name) if self.class.const_defined?(name) }
  end

  def test_with_rails_own_adapter
    connect(:eu, :us, :dead, adapter: "postgresql")
    in_loop do
      values = databases(partial: true)
      assert_equal [{eu: "nb_eu", us: "nb_us"}, [:dead]], [values, values.errors.keys]
      @base.connected_to(shard: :us) { assert_equal ["nb_us"] * 3, NB.concurrently(1..3) { database } }
    end
  end

  def test_with_another_database
    skip "sqlite3 is not among the gems here" unless Gem.loaded_specs.key?("sqlite3")
    Dir.mktmpdir("nb") do |folder|
      connect_to({eu: {writing: {adapter: "sqlite3", database: "#{folder}/eu"}}, us: {writing: {adapter: "sqlite3", database: "#{folder}/us"}}})
      in_loop do
        NB::Shards.each(@base) { |shard| sql("create table orders (name text)") || sql("insert into orders values ('#{shard}')") }
        assert_equal({eu: "eu", us: "us"}, NB::Shards.map(@base) { sql("select name from orders") })
      end
    ensure
      disconnect # before the folder goes
    end
  end

  private

  def connect(*names, **options)
    names = NAMES if names.empty?
    connect_to(names.to_h { |name| [name, {writing: configuration(name, **options), reading: configuration(name, "reading #{name}", **options)}] })
  end

  def connect_to(shards)
    disconnect
    @base.connects_to(shards:)
  end

  def disconnect
    [@base, ActiveRecord::Base].product(%i[writing reading], [*NAMES, :dead, :silent, :default, :copy]) do |owner, role, shard|
      ActiveRecord::Base.connection_handler.remove_connection_pool(owner.name, role:, shard:)
    end
  end

  def configuration(name, label = application, adapter: "neverblock_postgresql")
    server = NeverBlockTest::Database.server
    port = {dead: dead_port, silent: (silent_port if name == :silent)}[name]
    place = port ? {host: "127.0.0.1", port:, database: "nb_eu"} : {host: server.folder, port: server.port, database: "nb_#{name}"}
    {adapter:, username: server.user, application_name: label, checkout_timeout: 60, **place, **((adapter == "postgresql") ? {} : {connections: 3})}
  end

  def databases(way = :with, **options)
    NB::Shards.map(@base, **options) do
      (way == :lease) ? @base.lease_connection.select_value("select current_database()") : database
    end
  end

  def database = sql("select current_database()")

  def setting = [sql("show application_name"), @base.current_preventing_writes]

  def sql(text) = @base.with_connection { |connection| connection.select_value(text) }

  def here = [@base.current_shard, @base.current_role]
end
