# frozen_string_literal: true

# slow: it starts several database servers

require "test_helper"
require_relative "../support/database"

# Active Record's support for several databases, in fibers over shared connections: roles with a replica that lags,
# shards, and one adapter for several fibers; and its own operations on adapters.
class PostgresRolesTest < Minitest::Test
  include NeverBlockTest::Database

  SCHEMA = "create table notes (id serial primary key, body text not null)"
  MOODS = "drop table if exists moods; drop type if exists mood; create type mood as enum ('glad', 'sad'); create table moods (own mood[]); insert into moods values ('{sad}')"
  DATABASES = %w[nb_one nb_two].freeze

  def self.prepare
    @prepared ||= begin
      require "neverblock/active_record"

      const_set(:Record, Class.new(ActiveRecord::Base) { self.abstract_class = true })
      const_set(:Note, Class.new(const_get(:Record)) { self.table_name = "notes" })
      const_set(:Other, Class.new(ActiveRecord::Base) { self.abstract_class = true })
      const_set(:Elsewhere, Class.new(const_get(:Other)) { self.table_name = "notes" })
      DATABASES.each do |database|
        NeverBlockTest::Database.server.query("create database #{database}")
        NeverBlockTest::Database.server.query(SCHEMA, database:)
      end
    end
  end

  def setup
    super
    skip "activerecord is not among the gems here" unless Gem.loaded_specs.key?("activerecord")
    self.class.prepare
    ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    DATABASES.each { |database| query("truncate notes restart identity", database) }
  end

  def teardown
    ActiveRecord::Base.connection_handler.clear_all_connections!(:all) if defined?(ActiveRecord)
  end

  def test_roles_of_many_fibers
    with_replica do |primary, standby|
      in_loop do
        ports = NB.concurrently(1..60, limit: 60) do |n|
          role = n.odd? ? :reading : :writing
          on(role) { [role, Note.transaction { [port, Note.count && port] }, port].flatten }
        end
        assert_equal [[:reading, *[standby.port] * 3], [:writing, *[primary.port] * 3]], ports.uniq.sort
        on(:reading) do
          assert_raises(ActiveRecord::ReadOnlyError) { Note.create!(body: "no") }
          on(:writing) { Note.create!(body: "nested") }
          assert_equal standby.port, port
        end
      end
    end
  end

  # As Rails' middleware does for each request.
  def test_a_database_selector_with_a_replica_that_lags
    with_replica do |_primary, standby|
      standby.query("select pg_wal_replay_pause()")
      pass_until("the pause") { standby.query("select pg_get_wal_replay_pause_state()") == "paused" }
      in_loop do
        writers = NB.concurrently(1..20, limit: 20) do |n|
          session = {}
          request(session, :write) { Note.create!(body: "note #{n}") }
          [request(session, :read) { Note.where(body: "note #{n}").count }, session]
        end
        assert_equal [1], writers.map(&:first).uniq, "a client's own writes are seen"
        assert_equal [0], NB.concurrently(1..20, limit: 20) { request({}, :read) { Note.count } }.uniq, "others read what the replica has"
        assert_equal 0, request(writers.last.last, :read, delay: 0) { Note.count }, "as does the writer in time"
        assert_raises(ActiveRecord::ReadOnlyError) { request({}, :read) { Note.create!(body: "no") } }
        standby.query("select pg_wal_replay_resume()")
        pass_until("the replica has caught up") { request({}, :read) { Note.count } == 20 }
      end
    ensure
      standby.query("select pg_wal_replay_resume()")
    end
  end

  def test_shards
    shards = DATABASES.zip(%i[one two]).to_h { |database, shard| [shard, {writing: config(database:)}] }
    Record.connects_to(shards:)
    in_loop do
      NB.concurrently(1..40, limit: 40) do |n|
        shard, other = n.odd? ? %i[one two] : %i[two one]
        ActiveRecord::Base.connected_to(role: :writing, shard:) do
          Note.transaction do
            Note.create!(body: shard)
            ActiveRecord::Base.connected_to(role: :writing, shard: other) { Note.where(body: "none").count }
            raise ActiveRecord::Rollback if n % 5 == 0
          end
        end
      end
      %i[one two].each do |shard|
        ActiveRecord::Base.connected_to(role: :writing, shard:) { assert_equal({shard.to_s => 16}, Note.group(:body).count) }
      end
    end
    DATABASES.each { |database| assert_operator backends(database), :<=, 4 }
  end

  def test_several_databases
    Record.connects_to(database: {writing: config(database: "nb_one", connections: 2)})
    Other.connects_to(database: {writing: config(database: "nb_two", connections: 3)})
    in_loop do
      NB.concurrently(1..60, limit: 60) do |n|
        Note.transaction do
          Note.create!(body: "one")
          Elsewhere.transaction(requires_new: true) { Elsewhere.create!(body: "two") } if n % 3 == 0
        end
      end
      assert_equal [60, 20], [Note.count, Elsewhere.count]
    end
    assert_operator backends("nb_one"), :<=, 2
    assert_operator backends("nb_two"), :<=, 3
  end

  # Fixtures and system tests: all threads get the same adapter, and all changes are undone.
  def test_a_pinned_adapter_of_several_fibers
    with_notes do |pool|
      in_loop do
        pool.pin_connection!(true)
        NB.concurrently(1..30, limit: 30) do |n|
          Note.create!(body: "pinned #{n}")
          Note.transaction(requires_new: true) do
            Note.create!(body: "nested #{n}")
            raise ActiveRecord::Rollback if n.odd?
          end
          assert_equal 1, Note.where(body: "pinned #{n}").count
        end
        assert_equal 45, Note.count
        assert_equal "0", query("select count(*) from notes"), "no other connection sees it"
        assert pool.unpin_connection!
        assert_equal 0, Note.count
        assert_equal 60, query("select last_value from notes_id_seq").to_i
      end
    end
  end

  def test_the_reaper_beside_fibers
    with_notes do |pool|
      in_loop do
        turns = Thread::Queue.new
        reaper = Thread.new do
          while turns.pop
            pool.reap
            pool.flush(0)
          end
        end
        counts = NB.concurrently(1..200, limit: 50) do |n|
          turns << true
          Note.transaction { Note.create!(body: n.to_s) } && Note.where(body: n.to_s).count
        end
        turns.close
        reaper.join
        assert_equal [1], counts.uniq
        assert_equal 200, Note.count
      end
    end
  end

  def test_the_reaper_frees_what_a_dead_fiber_had
    with_notes do |pool|
      in_loop do
        database = Note.with_connection { |connection| connection.select_value("select 1") && connection.multiplexed }
        dead = Fiber.new(blocking: false) do
          connection = Note.lease_connection
          connection.begin_transaction(_lazy: false)
          connection.execute("insert into notes (body) values ('lost')")
        end
        dead.resume
        pass_until("its end") { !dead.alive? }
        dead = nil
        assert_equal 1, database.stats[:held]
        pool.reap
        pass_until("its connection is free") { database.stats[:held] == 0 }
        assert_equal 0, Note.count
      end
    end
  end

  def test_verify_after_the_server_has_ended_connections
    with_notes do
      in_loop do
        connection = Note.lease_connection
        3.times do
          assert_equal 0, Note.count
          ended
          connection.verify!
          assert_predicate connection, :active?
          assert_equal 0, Note.count
        end
        assert_raises(ActiveRecord::ConnectionFailed) do
          Note.transaction do
            Note.create!(body: "lost")
            ended
            Note.create!(body: "after")
          end
        end
        connection.verify!
        assert_equal 0, Note.count
        Note.create!(body: "kept")
        assert_equal 1, Note.count
      end
    end
  end

  # A copy by dump, or another release: types have other OIDs there.
  def test_adapters_learn_the_types_of_another_cluster
    here = NeverBlockTest::Database.server
    query(MOODS)
    NeverBlockTest::PostgresServer.open do |there|
      there.query("create database nb_one")
      there.query(MOODS, database: "nb_one")
      Record.connects_to(database: {writing: config(database: "nb_one", host: "#{here.folder},#{there.folder}", port: "#{here.port},#{there.port}", target_session_attrs: "read-write")})
      in_loop do
        Record.with_connection do |connection|
          found = -> { connection.select_all("select current_setting('port')::int, own from moods").cast_values }
          assert_equal [[here.port, %w[sad]]], found.call
          ended
          here.hidden do
            pass_until("word of it") { NeverBlock::Postgres::OtherCluster === refusal { connection.execute("insert into moods values ('{glad}')") } }
            assert_equal [[there.port, %w[sad]]], found.call
          end
        end
      end
    end
  end

  private

  def config(database:, server: NeverBlockTest::Database.server, connections: 4, **more)
    {adapter: "neverblock_postgresql", database:, connections:, host: server.folder, port: server.port, username: server.user,
     application_name: "nr_#{name[0, 40]}", shareable_functions: ["current_setting"], **more}
  end

  # Not in both databases at once, since the replica copies the primary's.
  def with_replica
    primary, standby = NeverBlockTest::Database.server, NeverBlockTest::Database.standby
    lsn = primary.query("select pg_current_wal_lsn()")
    pass_until("the replica has what there was") { standby.query("select pg_last_wal_replay_lsn() >= '#{lsn}'") == "t" }
    Record.connects_to(database: {writing: config(database: "nb_one"), reading: config(database: "nb_one", server: standby, replica: true)})
    in_loop { on(:reading) { Note.count } }
    yield primary, standby
  end

  def with_notes
    Record.connects_to(database: {writing: config(database: "nb_one")})
    yield Note.connection_pool
  end

  # @return [PG::Error] the error, of the server or of the connection
  def refusal
    assert_raises(ActiveRecord::ConnectionNotEstablished, ActiveRecord::ConnectionFailed) { yield }.cause
  end

  def on(role, &) = ActiveRecord::Base.connected_to(role:, &)

  def port = Note.connection.select_value("select current_setting('port')").to_i

  def request(session, kind, delay: 5, &)
    selector = ActiveRecord::Middleware::DatabaseSelector
    context = selector::Resolver::Session.new(session)
    selector::Resolver.new(context, delay:).public_send(kind, &).tap { context.save(nil) }
  end

  def query(sql, database = "nb_one") = NeverBlockTest::Database.server.query(sql, database:)

  def backends(database) = query("select count(*) from pg_stat_activity where application_name = 'nr_#{name[0, 40]}' and datname = '#{database}'").to_i

  def ended = query("select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'nr_#{name[0, 40]}'")
end
